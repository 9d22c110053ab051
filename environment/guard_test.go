package environment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/budget"
)

func (w *world) holds() string {
	if held := w.state.Report().Held; held != nil {
		return held.Reason
	}
	return ""
}

func TestAMistakeInTheInventoryTakesNoTasks(t *testing.T) {
	for _, n := range []int{1, 2, 10} {
		w := deployed(t, n, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
		for _, known := range []bool{true, false} {
			w.propose(SetHosts{Known: func(string) bool { return known }})
			w.can()
			if got := w.holds(); !strings.Contains(got, "would leave at once") {
				t.Errorf("of %d hosts none is selected, and it holds because of %q", n, got)
			}
			reasons := w.state.Explain(w.state.target, w.now)
			if len(reasons) == 0 || reasons[0].Code != reason.AwaitsConfirmation || !strings.Contains(reasons[0].Change, "deployster env confirm SomeEnvironment/Prod") {
				t.Errorf("it explains %+v", reasons)
			}
			if events, err := w.state.Propose(SetHosts{Known: func(string) bool { return known }}, w.now); err != nil || len(events) > 0 {
				t.Errorf("it is recorded again: %v, %v", events, err)
			}
			w.propose(SetHosts{Selected: hostNames(n)})
			w.can()
			if got := w.holds(); got != "" {
				t.Errorf("the hosts are back, and it holds because of %q", got)
			}
		}
	}
}

func TestSoManyHostsMayLeaveAtOnce(t *testing.T) {
	for _, test := range []struct {
		most     *budget.Budget
		of, stay int
		holds    bool
	}{
		{nil, 10, 5, false}, {nil, 10, 4, true}, {nil, 3, 2, false}, {nil, 3, 1, true}, {nil, 2, 1, false}, {nil, 1, 0, true},
		{&budget.Budget{}, 10, 9, true}, {most(1), 1, 0, false}, {most(2), 10, 8, false}, {most(2), 10, 7, true},
		{&budget.Budget{Percent: 1}, 10, 9, false}, {&budget.Budget{Percent: 1}, 10, 8, true}, {&budget.Budget{Percent: 100}, 10, 0, false}, {&budget.Budget{Percent: 100}, 1, 0, false},
	} {
		w := deployed(t, test.of, func(d *definition.Definition) { d.InstanceGroup.MaxLeaving = test.most })
		w.propose(SetHosts{Selected: hostNames(test.stay)})
		if got := w.holds(); got != "" != test.holds {
			t.Errorf("with max_leaving %v %d of %d hosts stay, and it holds because of %q", test.most, test.stay, test.of, got)
		}
	}
}

func TestAPersonConfirmsThatHostsLeave(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.refuses(ConfirmHosts{Hosts: hostNames(4)}, NothingToConfirm)
	w.propose(SetHosts{Selected: hostNames(1)})
	w.can()
	w.propose(ConfirmHosts{Hosts: hostNames(1), By: "alice@host", Reason: "decommissioned"})
	w.can("terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
	if p := record.Read(w.last(record.HostsChanged).Data); p.By != "alice@host" || p.Reason != "decommissioned" || w.holds() != "" {
		t.Errorf("it is recorded by %q because of %q, and holds because of %q", p.By, p.Reason, w.holds())
	}
	w.refuses(ConfirmHosts{Hosts: hostNames(1)}, NothingToConfirm)
}

// Who confirms has seen what is held, and the inventory may be another by then.
func TestAPersonConfirmsNoMoreThanWhatIsHeld(t *testing.T) {
	w := deployed(t, 6, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.propose(SetHosts{Selected: hostNames(2)})
	for _, others := range [][]string{nil, hostNames(1), {"h5", "h6"}} {
		err := w.refuses(ConfirmHosts{Hosts: others, By: "alice@host"}, OthersWouldLeave)
		for _, want := range []string{"4 of 6 hosts would leave at once", fmt.Sprintf("others would leave now: %d of 6", 6-len(others)), "deployster env status"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: it does not say %q", err, want)
			}
		}
	}
	w.can()
	if w.holds() == "" {
		t.Error("it does not hold any more")
	}
	w.propose(SetHosts{})
	w.refuses(ConfirmHosts{Hosts: hostNames(2)}, OthersWouldLeave)
	w.propose(ConfirmHosts{By: "alice@host"})
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4", "terminate 1 h5", "terminate 1 h6")

	// So few may leave that nobody has to confirm it.
	w = deployed(t, 6, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.propose(SetHosts{Selected: hostNames(2)})
	w.propose(ConfirmHosts{Hosts: hostNames(4), By: "alice@host"})
	w.can("terminate 1 h5", "terminate 1 h6")
}

// A deployment whose query selects too few of the present hosts waits; with the query of
// the revision before, it goes to the hosts that there are.
func TestADeploymentDoesNotTakeHostsThatAMistakeLeavesOut(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.update(func(d *definition.Definition) { d.InstanceGroup.Query = "typo" }, nil)
	w.can()
	if got := w.holds(); !strings.Contains(got, "4 of 4 hosts would leave at once, and max_leaving lets 2 go: h1, h2, h3, h4") {
		t.Errorf("it holds because of %q", got)
	}
	if !w.state.Idle() {
		t.Error("it is not idle, and waits for a person")
	}
	w.propose(SetHosts{Selected: hostNames(1)})
	w.propose(ConfirmHosts{Hosts: hostNames(1), By: "alice@host"})
	w.can("terminate 1 h2", "terminate 1 h3", "terminate 1 h4")

	w = deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.update(image("log-daemon:2"), hostNames(1))
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
	if w.holds() == "" {
		t.Error("it does not hold")
	}
}

// What a deployment may take away is counted over the hosts that the environment keeps, not
// over the few that a mistake in the inventory still selects: no flag has to be given that
// would let all of them go down at once.
func TestAMistakeInTheInventoryLowersNoMinimum(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 75 })
	w.update(image("log-daemon:2"), hostNames(1))
	if w.holds() == "" {
		t.Error("it does not hold")
	}
	w.can("terminate 1 h1")
	w = deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 75 })
	w.propose(Restart{Hosts: hostNames(1)})
	w.can("terminate 1 h1")

	w = deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	next := *w.state.Revisions()[0].Definition
	image("log-daemon:2")(&next)
	w.propose(Update{Base: 1, Definition: &next})
	for _, c := range []Command{Deploy{Revision: 2, Hosts: hostNames(1)}, Restart{Hosts: hostNames(1)}} {
		if err := w.refuses(c, NoDisruptionAllowed); !strings.Contains(err.Error(), "none of 4 hosts may be without one; --min-healthy-percent 75 or less") {
			t.Errorf("%T is refused as %v", c, err)
		}
	}
}
