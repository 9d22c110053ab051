package environments_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// What is done of an environment by whom is for the simulation; here is what people are told.
func TestAControllerWithAnotherInventoryLeavesAnEnvironmentAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.identity = "other"
		w.do("web", environment.Create{Definition: daemon("web"), Inventory: "mine"})
		w.do("web", environment.Deploy{Revision: 1, Hosts: []string{"a"}, Inventory: "mine"})
		w.untilIdle()
		w.wantRunning()
		w.wantNotice("leaving web alone: its hosts are those of inventory mine, and the inventory here is other")
		for _, c := range []environment.Command{
			environment.Deploy{Revision: 1, Hosts: []string{"x"}, Inventory: "other"}, environment.Rollback{Revision: 1, Inventory: "other"}, environment.ConfirmHosts{Inventory: "other"},
			environment.Restart{Hosts: []string{"x"}, Inventory: "other"},
		} {
			var refused *refusal.Error
			require.ErrorAs(t, w.command("web", c), &refused, "%T", c)
			assert.Equal(t, environment.OtherInventory, refused.Code, "%T", c)
			assert.ErrorContains(t, refused, "deployster env update from here")
		}

		// A run that is asked for an environment that it leaves alone fails; one for all does not.
		o := w.options
		o.UntilIdle, o.Scope = true, reconcile.Of("web")
		err := environments.NewController(o).Run(w.Context())
		assert.ErrorContains(t, err, "environment web is left alone: its hosts are those of inventory mine")
	})
}

// checkout is a controller with an inventory of its own, whose hosts begin with its letter.
type checkout struct {
	*world
	letter  string
	mu      sync.Mutex
	called  *reconciletest.Names // of the inventory
	hosts   []string
	version int
	at      *running // nil while it is not at work
	worked  int
}

func (c *checkout) Identity() string { return c.called.Now() }

func (c *checkout) Version() int { c.mu.Lock(); defer c.mu.Unlock(); return c.version }

func (c *checkout) Selected(string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.hosts), nil
}

func (c *checkout) Known(host string) bool { return strings.HasPrefix(host, c.letter) }

func (c *checkout) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	do()
}

func (c *checkout) call(name string) { c.change(func() { c.called.Call(name) }) }

// twoInventories are two checkouts on one log, and an environment that is bound to the inventory of one of them, or to none.
type twoInventories struct {
	*world
	*rand.Rand
	of        map[string]*checkout // by letter
	bound     reconciletest.Names
	revisions int
	changes   map[string]int
}

// checkoutWorker does the work of a checkout, and wants that to be its own.
type checkoutWorker struct {
	worker
	s *twoInventories
	c *checkout
}

func (k checkoutWorker) wantOwn(what string, t tasks.Task) {
	if now := time.Now(); !k.c.called.Fit(&k.s.bound, now) {
		k.Errorf("%s of %s on %s is done by who has inventory %s, and the environment is bound to %v", what, nameOf(t), t.Host, k.c.Identity(), k.s.bound.At(now))
	}
	if !k.c.Known(t.Host) {
		k.Errorf("%s of %s on %s is done by who has the hosts %s", what, nameOf(t), t.Host, k.c.letter)
	}
	k.c.mu.Lock()
	k.c.worked++
	k.c.mu.Unlock()
}

func (k checkoutWorker) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	k.wantOwn("start", t)
	return k.worker.Start(ctx, t)
}

func (k checkoutWorker) Terminate(ctx context.Context, t tasks.Task) error {
	k.wantOwn("termination", t)
	return k.worker.Terminate(ctx, t)
}

func (s *twoInventories) start(c *checkout) {
	o := s.options
	o.Tasks, o.Inventory, o.Log = checkoutWorker{worker{s.world, c.letter}, s, c}, c, s.Open()
	c.at = s.startWith(o)
}

func (s *twoInventories) end(c *checkout) {
	if s.IntN(2) == 0 {
		c.at.die()
	} else {
		c.at.end()
	}
	c.at = nil
}

func (s *twoInventories) wanted() *definition.Definition {
	all := budget.Budget{Count: 100}
	d := daemon("web", image(fmt.Sprint(s.revisions)))
	d.InstanceGroup.MaxLeaving, d.Deployment.MinHealthyPercent = &all, 0
	return d
}

func (s *twoInventories) deploy(c *checkout) {
	s.revisions++
	s.bound.Call(c.Identity())
	if s.revisions == 1 {
		s.do("web", environment.Create{Definition: s.wanted(), Inventory: c.Identity()})
	} else {
		s.do("web", environment.Update{Base: s.revisions - 1, Definition: s.wanted(), Inventory: c.Identity()})
	}
	s.do("web", environment.Deploy{Revision: s.revisions, Hosts: c.selected(), Inventory: c.Identity()})
}

func (c *checkout) selected() []string { hosts, _ := c.Selected(""); return hosts }

func (s *twoInventories) act() {
	c := s.of[[]string{"a", "b"}[s.IntN(2)]]
	switch s.IntN(8) {
	case 0, 1:
		s.deploy(c)
	case 2: // as a promotion does; it stays bound to what it was
		s.revisions++
		s.do("web", environment.Update{Base: s.revisions - 1, Definition: s.wanted()})
	case 3: // it may be refused
		_ = s.command("web", environment.Rollback{Revision: 1 + s.IntN(s.revisions), Hosts: c.selected(), Inventory: c.Identity()})
	case 4:
		c.call([]string{"inventory a", "inventory b", "edited"}[s.IntN(3)])
	case 5:
		c.change(func() { c.hosts = []string{c.letter + "1", c.letter + "2", c.letter + "3"}[:1+s.IntN(3)] })
	default:
		if c.at != nil {
			s.end(c)
		} else {
			s.start(c)
		}
	}
}

// moved goes through the events at the end, and wants hosts to join and tasks to begin by whom the environment is bound to.
func (s *twoInventories) moved() {
	for _, e := range s.Events() {
		if e.Name != record.HostsChanged && e.Name != record.TaskStarted && e.Name != record.TaskTerminating {
			continue
		}
		for letter, c := range s.of {
			if !strings.Contains(string(e.Data), `"joined":["`+letter) && !strings.Contains(string(e.Target), "/"+letter) {
				continue
			}
			s.changes[letter]++
			if !c.called.Fit(&s.bound, e.CreatedAt) {
				s.Errorf("%s of %s, %s, is by who has inventory %v, and the environment is bound to %v", e.Name, e.Target, e.Data, c.called.At(e.CreatedAt), s.bound.At(e.CreatedAt))
			}
		}
	}
}

// Two controllers, each with an inventory of its own, come and go, while an environment is bound to one or the other
// and inventories are renamed: who has another inventory changes no hosts, and does nothing to a task.
func TestNobodyWithAnotherInventoryDoesAnythingOfAnEnvironment(t *testing.T) {
	worked, changes := map[string]int{}, map[string]int{}
	seeds := ringtest.Cases(20, 200)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &twoInventories{world: newWorld(t, reconciletest.InMemory(t)), Rand: rand.New(rand.NewPCG(seed, 0)), of: map[string]*checkout{}, changes: changes}
				s.slots = 100
				s.slowly(700 * time.Millisecond)
				for _, letter := range []string{"a", "b"} {
					s.of[letter] = &checkout{world: s.world, letter: letter, called: new(reconciletest.Names), hosts: []string{letter + "1"}}
					s.of[letter].called.Call("inventory " + letter)
				}
				s.deploy(s.of["a"])
				for range 40 {
					s.act()
					wait(time.Duration(s.IntN(4000)) * time.Millisecond)
				}
				s.settle()
				s.moved()
				for letter, c := range s.of {
					worked[letter] += c.worked
				}
			})
		})
	}
	for _, letter := range []string{"a", "b"} {
		assert.GreaterOrEqual(t, worked[letter], seeds, letter)
		assert.GreaterOrEqual(t, changes[letter], seeds, letter)
	}
}

// settle has all go well, and wants the last revision to be where it should be.
func (s *twoInventories) settle() {
	for letter, c := range s.of {
		c.call("inventory " + letter)
		if c.at == nil {
			s.start(c)
		}
	}
	s.deploy(s.of["b"])
	wait(10 * time.Minute)
	for _, host := range s.of["b"].selected() {
		assert.Contains(s, s.running(), fmt.Sprintf("%s web:%d", host, s.revisions), "there")
	}
	for _, c := range s.of {
		c.at.end()
	}
}
