package environments_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/refusal"
)

// called is the inventory of a world under another name, with other hosts.
type called struct {
	*world
	name  string
	hosts []string
}

func (c called) Identity() string                  { return c.name }
func (c called) Known(host string) bool            { return slices.Contains(c.hosts, host) }
func (c called) Selected(string) ([]string, error) { return c.hosts, nil }

// Two controllers with different inventories are at work on one log: each does what is
// bound to its own.
func TestAControllerWithAnotherInventoryLeavesAnEnvironmentAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.identity = "mine"
		w.inventory("web", "a", "b")
		w.do("web", environment.Create{Definition: daemon("web"), Inventory: "mine"})
		w.do("web", environment.Deploy{Revision: 1, Hosts: []string{"a", "b"}, Inventory: "mine"})
		o := w.options
		o.Inventory = called{w, "other", []string{"x", "y"}}
		other := w.startWith(o)
		wait(5 * time.Second)
		w.wantRunning()
		if got := w.notices("leaving web alone: its hosts are those of inventory mine, and the inventory here is other"); len(got) != 1 {
			t.Errorf("it was noticed %q", got)
		}
		mine := w.start()
		wait(5 * time.Second)
		w.wantRunning("a web:1", "b web:1")

		// The name is edited away, and a host leaves: nothing is done until it is back.
		w.set(func() { w.identity = "/work/inventory.yaml" })
		w.inventory("web", "a")
		wait(5 * time.Second)
		if w.count(record.HostsChanged) != 0 {
			t.Error("hosts changed by another inventory")
		}
		w.set(func() { w.identity = "mine" })
		wait(5 * time.Second)
		if w.count(record.HostsChanged) != 1 {
			t.Error("the host that left is not noticed when the name is back")
		}

		// Hosts of another inventory are refused, and the newest revision says which it is.
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"x"}, Inventory: "other"}, environment.Rollback{Revision: 1, Inventory: "other"}, environment.ConfirmHosts{Inventory: "other"},
			environment.Restart{Hosts: []string{"x"}, Inventory: "other"},
		} {
			var refused *refusal.Error
			if err := w.command("web", c); !errors.As(err, &refused) || refused.Code != environment.OtherInventory || !strings.Contains(err.Error(), "deployster env update from here") {
				t.Errorf("%T came to %v", c, err)
			}
		}
		mine.end()
		w.do("web", environment.Update{Base: 1, Definition: daemon("web"), Inventory: "other"})
		w.do("web", environment.Deploy{Revision: 2, Hosts: []string{"x", "y"}, Inventory: "other"})
		w.do("web", environment.ConfirmHosts{Hosts: []string{"x", "y"}, Known: func(host string) bool { return host == "x" || host == "y" }, Inventory: "other"})
		w.do("web", environment.Update{Base: 2, Definition: daemon("web", image("3"))}) // as a promotion does
		wait(5 * time.Second)
		if got := w.running(); !strings.Contains(strings.Join(got, " "), "x web:1") {
			t.Errorf("there are %q; the log tells\n%s", got, strings.Join(w.story(), "\n"))
		}
		other.end()
	})
}

// A run that is asked for an environment that it leaves alone fails; one for all does not.
func TestAnEnvironmentThatIsNamedAndLeftAloneIsAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		w.identity = "other"
		w.do("web", environment.Create{Definition: daemon("web"), Inventory: "mine"})
		w.untilIdle()
		o := w.options
		o.UntilIdle, o.Scope = true, reconcile.Of("web")
		if err := environments.NewController(o).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "environment web is left alone: its hosts are those of inventory mine") {
			t.Errorf("it ends with %v", err)
		}
	})
}
