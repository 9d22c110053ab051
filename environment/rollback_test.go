package environment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
)

// baking is revision 2 on five hosts right after its end; one may fail within ten minutes.
func baking(t *testing.T, auto bool) *world {
	t.Helper()
	w := deployed(t, 5, none)
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.Bake, d.Deployment.MaxFailed, d.Deployment.AutoRollback = definition.Duration(10*time.Minute), most(1), auto
	}, hostNames(5))
	w.replaced(1, 2, hostNames(5)...)
	return w
}

func (w *world) dies(hosts ...string) {
	w.Helper()
	for _, h := range hosts {
		w.sees(2, h, tasks.Unhealthy, "it crashed")
		if d, _ := w.state.ActiveDeployment(); d.Revision == 2 {
			w.after(10 * time.Second)
			w.done("start 2 " + h)
		}
	}
}

func TestWhatDiesInTheBakeRollsBack(t *testing.T) {
	w := baking(t, true)
	assert.True(t, w.state.Report().Baking)
	assert.Equal(t, w.now.Add(10*time.Minute), w.state.Report().Deployment.BakeUntil)
	w.dies("h1", "h1", "h1")
	w.active(2, false) // one host may fail
	w.after(9 * time.Minute)
	w.dies("h2")
	assert.Equal(t, "revision 2 failed in its bake, and auto_rollback is set", w.active(1, true).Reason)
	was := w.state.Deployments()[1]
	assert.Equal(t, report.DeploymentFinished, was.Status)
	assert.Contains(t, was.BakeFailed, "h2: it crashed")
}

func TestWithoutAutoRollbackAFailedBakeIsRecorded(t *testing.T) {
	w := baking(t, false)
	w.dies("h1", "h2", "h3")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 5 5`)
	assert.Equal(t, 1, w.times(record.BakeFailed))
	assert.Len(t, w.state.Explain(w.state.target, w.now), 1)
	w.explains(0, "", reason.FailedInBake, "→ deployster env rollback SomeEnvironment/Prod, or a new revision")
	w.lastGood(1, "")
}

func TestAClockThatIsSetBackMakesABakeNoLonger(t *testing.T) {
	w := baking(t, true)
	w.after(-24 * time.Hour)
	w.dies("h1")
	assert.LessOrEqual(t, w.state.Report().Deployment.BakeUntil.Sub(w.now), 10*time.Minute)
	w.after(11 * time.Minute)
	w.dies("h2", "h3")
	w.active(2, false)
}

// An automatic rollback goes as the deployment did that it undoes: with the
// configuration of the old revision it might never get on.
func TestAnAutomaticRollbackHasTheConfigurationOfWhatItUndoes(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.AutoRollback, d.Deployment.MinHealthyPercent = true, 50
	}, hostNames(2))
	w.done("terminate 1 h1", "start 2 h1", "terminate 1 h2")
	w.fails("start 2 h2", "bad image")
	w.after(10 * time.Minute)
	w.steps()
	w.active(1, true)
	was := w.state.Deployments()[1]
	assert.Equal(t, report.DeploymentSuperseded, was.Status)
	assert.Equal(t, w.now, was.Ended)
	w.done("terminate 2 h2", "start 1 h2", "terminate 2 h1", "start 1 h1")
	w.table(`SomeEnvironment/Prod:1 Active 2 2
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}

func TestARollbackToOtherHostsWaitsUntilTheyAreKnown(t *testing.T) {
	w := deployed(t, 5, nil)
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.AutoRollback, d.InstanceGroup = true, definition.InstanceGroup{Query: "attribute:stack == gamma", MaxLeaving: percent(100)}
	}, []string{"h6"})
	w.begin("start 2 h6")
	w.after(10 * time.Minute)
	w.can()
	w.propose(SetHosts{Selected: hostNames(5)})
	w.done("terminate 2 h6")
	w.table(`SomeEnvironment/Prod:1 Active 5 5
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}

// A rollback to the hosts of another query goes on with those, and leaves the healthy
// tasks on too many others alone until somebody confirms that they leave.
func TestARollbackLeavesTheTasksOfOtherHostsAlone(t *testing.T) {
	for _, automatic := range []bool{false, true} {
		w := deployed(t, 2, nil)
		w.update(func(d *definition.Definition) {
			image("log-daemon:2")(d)
			d.InstanceGroup.Query, d.Deployment.AutoRollback = "more", true
		}, hostNames(6))
		w.done("start 2 h3", "start 2 h4", "start 2 h5", "start 2 h6")
		if automatic {
			w.after(time.Hour)
			w.steps()
			w.propose(SetHosts{Selected: hostNames(2)})
		} else {
			w.propose(Rollback{Revision: 1, Hosts: hostNames(2)})
		}
		w.steps()
		w.table(`SomeEnvironment/Prod:1 Active 2 2
		         SomeEnvironment/Prod:2 Reverting 0 4`)
		assert.Contains(t, w.holds(), "4 of 6 hosts would leave at once")
		w.propose(SetHosts{Selected: hostNames(2)})
		w.can()
		w.propose(ConfirmHosts{Hosts: hostNames(2), By: "alice@host"})
		w.can("terminate 2 h3", "terminate 2 h4", "terminate 2 h5", "terminate 2 h6")
	}
}

func TestTheRemedyOfAStuckRollbackNamesARevision(t *testing.T) {
	w := deployed(t, 2, none)
	assert.Empty(t, w.state.RollbackCommand())
	w.update(image("log-daemon:2"), hostNames(2))
	assert.Equal(t, "deployster env rollback SomeEnvironment/Prod", w.state.RollbackCommand())
	w.replaced(1, 2, "h1", "h2")
	w.update(image("log-daemon:3"), hostNames(2))
	w.begin("terminate 2 h1")
	w.propose(Rollback{Revision: 2, Hosts: hostNames(2)})
	w.after(time.Hour)
	w.steps()
	w.explains(0, "", reason.IsStuck, "deployster env rollback SomeEnvironment/Prod --revision 1")
}

// lastGood wants a revision to be the one to go back to; 0 is none, for a reason.
func (w *world) lastGood(want int, code refusal.Code) {
	w.Helper()
	r, err := w.state.LastGood()
	var refused *refusal.Error
	if errors.As(err, &refused); r.Number != want || (err == nil) != (code == "") || err != nil && refused.Code != code {
		w.Errorf("the last good revision is %d (%v), want %d (%s)", r.Number, err, want, code)
	}
}

// Which revision that is is for the simulation; here is why there is none.
func TestThereIsNoLastGoodRevision(t *testing.T) {
	w := newWorld(t)
	w.lastGood(0, UnknownEnvironment)
	w.propose(Create{Definition: defined(none)})
	w.lastGood(0, NothingDeployed)
	w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
	w.done("start 1 h1")
	w.lastGood(0, NeverDeployed)
	w.update(image("log-daemon:2"), hostNames(1))
	w.lastGood(1, "")
	w.propose(Rollback{Revision: 1, Hosts: hostNames(1)})
	w.lastGood(0, BeingRolledBack)
	w.propose(Delete{TerminateTasks: true})
	w.lastGood(0, BeingDeleted)
	w.done("terminate 1 h1")
	w.propose(Create{Definition: defined(nil)})
	w.propose(Deploy{Revision: 3, Hosts: hostNames(1)})
	w.lastGood(0, NeverDeployed) // what was deleted is none to go back to
}

// Who names no revision means what was seen: not the revision before the one to which the
// environment is just going back by itself.
func TestARollbackToTheLastGoodRevisionGoesNoFurtherThanWasMeant(t *testing.T) {
	three := func(t *testing.T) *world {
		w := deployed(t, 1, none)
		w.update(image("log-daemon:2"), hostNames(1))
		w.replaced(1, 2, "h1")
		w.update(func(d *definition.Definition) { image("log-daemon:3")(d); d.Deployment.AutoRollback = true }, hostNames(1))
		return w
	}
	back := func(revision int) Rollback {
		return Rollback{Revision: revision, LastGood: true, Hosts: hostNames(1), By: "alice@host"}
	}
	w := three(t)
	w.refuses(back(1), OtherLastGood)
	w.done("terminate 2 h1")
	w.fails("start 3 h1", "no route")
	w.after(time.Hour)
	w.steps()
	since := fmt.Sprintf("since event %d", w.active(2, true).Seq)
	for revision := range 4 {
		w.refuses(back(revision), BeingRolledBack, "being rolled back to revision 2", since, "--revision")
	}
	w.done("terminate 3 h1", "start 2 h1")
	w.refuses(back(2), OtherLastGood)
	w.propose(back(1)) // a second rollback goes further back
	w.refuses(back(1), BeingRolledBack)
	w = three(t)
	w.propose(back(2))
	w.propose(Rollback{Revision: 1, Hosts: hostNames(1)}) // which is named
}

func (w *world) holds() string {
	if held := w.state.Report().Held; held != nil {
		return held.Reason
	}
	return ""
}

func only(names ...string) SetHosts {
	return SetHosts{Selected: names, Known: func(host string) bool { return slices.Contains(names, host) }}
}

func TestAMistakeInTheInventoryTakesNoTasks(t *testing.T) {
	for _, n := range []int{1, 2, 10} {
		w := deployed(t, n, none)
		for _, known := range []bool{true, false} {
			mistake := SetHosts{Known: func(string) bool { return known }}
			w.propose(mistake)
			w.can()
			assert.Contains(t, w.holds(), "would leave at once", "of %d hosts none is selected", n)
			w.explains(0, "", reason.AwaitsConfirmation, "deployster env confirm SomeEnvironment/Prod")
			w.nothing(mistake)
			w.propose(SetHosts{Selected: hostNames(n)})
			w.can()
			assert.Empty(t, w.holds(), "the hosts are back")
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
		{percent(1), 10, 9, false}, {percent(1), 10, 8, true}, {percent(100), 10, 0, false}, {percent(100), 1, 0, false},
	} {
		w := deployed(t, test.of, func(d *definition.Definition) { d.InstanceGroup.MaxLeaving = test.most })
		w.propose(SetHosts{Selected: hostNames(test.stay)})
		assert.Equal(t, test.holds, w.holds() != "", "with max_leaving %v %d of %d hosts stay", test.most, test.stay, test.of)
	}
}

func TestAPersonConfirmsNoMoreThanWhatIsHeld(t *testing.T) {
	w := deployed(t, 6, none)
	w.refuses(ConfirmHosts{Hosts: hostNames(6)}, NothingToConfirm)
	w.propose(SetHosts{Selected: hostNames(2)})
	for _, others := range [][]string{nil, hostNames(1), {"h5", "h6"}} {
		now := fmt.Sprintf("others would leave now: %d of 6", 6-len(others))
		w.refuses(ConfirmHosts{Hosts: others}, OthersWouldLeave, "4 of 6 hosts would leave at once", now, "deployster env status")
	}
	w.can()
	assert.NotEmpty(t, w.holds())
	w.propose(SetHosts{})
	w.refuses(ConfirmHosts{Hosts: hostNames(2)}, OthersWouldLeave)
	w.propose(ConfirmHosts{By: "alice@host", Reason: "decommissioned"})
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4", "terminate 1 h5", "terminate 1 h6")
	p := w.last(record.HostsChanged)
	assert.Equal(t, [3]string{"alice@host", "decommissioned", ""}, [3]string{p.By, p.Reason, w.holds()})
	w.refuses(ConfirmHosts{}, NothingToConfirm)

	// So few may leave that nobody has to confirm it.
	w = deployed(t, 6, none)
	w.propose(SetHosts{Selected: hostNames(2)})
	w.propose(ConfirmHosts{Hosts: hostNames(4), By: "alice@host"})
	w.can("terminate 1 h5", "terminate 1 h6")
}

// A deployment whose query selects too few of the present hosts waits; with the query of
// the revision before, it goes to the hosts that there are.
func TestADeploymentDoesNotTakeHostsThatAMistakeLeavesOut(t *testing.T) {
	w := deployed(t, 4, none)
	w.update(func(d *definition.Definition) { d.InstanceGroup.Query = "typo" }, nil)
	w.can()
	assert.Contains(t, w.holds(), "4 of 4 hosts would leave at once, and max_leaving lets 2 go: h1, h2, h3, h4")
	assert.True(t, w.state.Idle(), "it waits for a person")
	w.propose(SetHosts{Selected: hostNames(1)})
	w.propose(ConfirmHosts{Hosts: hostNames(1), By: "alice@host"})
	w.can("terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
	w = deployed(t, 4, none)
	w.update(image("log-daemon:2"), hostNames(1))
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
	assert.NotEmpty(t, w.holds())
}

// What a deployment may take away is counted over the hosts that the environment keeps, not over the few that a mistake
// in the inventory still selects: no flag has to be given that would let all of them go down at once.
func TestAMistakeInTheInventoryLowersNoMinimum(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 75 })
	w.revise(image("log-daemon:2"))
	for _, c := range []Command{Restart{Hosts: hostNames(1)}, Deploy{Revision: 2, Hosts: hostNames(1)}} {
		w.propose(c)
		assert.NotEmpty(t, w.holds())
		w.can("terminate 1 h1")
	}
	w = deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 })
	w.revise(image("log-daemon:2"))
	for _, c := range []Command{Restart{Hosts: hostNames(1)}, Deploy{Revision: 2, Hosts: hostNames(1)}} {
		w.refuses(c, NoDisruptionAllowed, "none of 4 hosts may be without one; --min-healthy-percent 75 or less")
	}
}

func TestNothingIsDoneOnAKeptHostThatIsNotInTheInventory(t *testing.T) {
	w := deployed(t, 6, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.update(func(d *definition.Definition) { image("log-daemon:2")(d); d.Deployment.MaxFailed = most(0) }, hostNames(6))
	w.done("terminate 1 h1")
	running := w.begin("start 2 h1")
	w.propose(only("h5", "h6"))
	w.can("terminate 1 h5", "terminate 1 h6")
	w.append(w.state.Completed(running, tasks.ProbeResult{}, errors.New("host h1 is no longer in the inventory"))...)
	w.steps()
	assert.Equal(t, report.DeploymentRunning, w.active(2, false).Status, "what fails there does not count")
	w.explains(2, "h1", reason.HostLost, "env confirm")
	w.propose(only(append(hostNames(4), "h6")...)) // not h5, which may leave
	w.propose(SetHosts{Selected: hostNames(6)})
	w.after(time.Minute)
	w.done("start 2 h1")
}

// While the network is away nobody knows how tasks are, and nothing is done to them. Those that
// were lost meanwhile have a task again when they are back.
func TestATaskThatCanNotBeSeenIsNeitherStoppedNorStarted(t *testing.T) {
	w := deployed(t, 5, none)
	w.update(image("log-daemon:2"), hostNames(5))
	for _, h := range hostNames(5) {
		w.sees(1, h, tasks.Unknown, "the host does not answer")
	}
	w.can()
	w.explains(1, "h3", reason.AwaitsProbe, "the host does not answer")
	w.propose(only(hostNames(4)...))
	w.propose(SetHosts{Selected: hostNames(5)})
	w.sees(1, "h5", tasks.Unhealthy, "it ended")
	w.can("terminate 1 h5")
	w.propose(only(hostNames(4)...))
	w.can()
	w.propose(SetHosts{Selected: hostNames(4)}) // it is back, and not to have a task
	w.sees(1, "h5", tasks.Healthy, "")
	w.can("terminate 1 h5")
}

func TestWhichKeptHostsAreInTheInventoryIsFollowed(t *testing.T) {
	w := deployed(t, 4, none)
	w.update(image("log-daemon:2"), hostNames(4))
	w.propose(only("h1"))
	w.can("terminate 1 h1")
	again := SetHosts{Selected: []string{"h1"}, Known: func(host string) bool { return host < "h3" }}
	w.propose(again)
	w.can("terminate 1 h1", "terminate 1 h2")
	w.nothing(again)
	w.propose(SetHosts{Selected: []string{"h1"}})
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
}

func TestNoDeadlinePassesWhileAPersonIsWaitedFor(t *testing.T) {
	for _, ends := range []Command{SetHosts{Selected: hostNames(4)}, ConfirmHosts{By: "alice@host"}} {
		w := deployed(t, 4, nil)
		w.after(time.Hour)
		w.update(func(d *definition.Definition) { d.InstanceGroup.Query = "typo" }, nil)
		w.after(time.Hour)
		w.steps()
		assert.Equal(t, report.DeploymentRunning, w.active(2, false).Status)
		assert.Zero(t, w.state.Report().Deadline)
		w.propose(ends)
		assert.Equal(t, 10*time.Minute, w.state.Report().Deadline.Sub(w.now), "%T", ends)
	}
}

// An inventory that is broken again and again gives a deployment no more time.
func TestOnlyTheTimeOfWaitingIsAddedToTheDeadline(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 })
	w.after(time.Hour)
	w.update(image("log-daemon:2"), hostNames(4))
	for range 5 {
		w.after(time.Minute)
		w.propose(only("h1"))
		w.after(30 * time.Minute)
		w.propose(only(hostNames(4)...))
	}
	assert.Equal(t, 5*time.Minute, w.state.Report().Deadline.Sub(w.now))
	w.after(5 * time.Minute)
	w.steps()
	assert.Equal(t, report.DeploymentStuck, w.active(2, false).Status)
}

// inZones tells the environment which hosts are selected, and in which zones they are.
func (w *world) inZones(zones map[string]string) {
	var names []string
	for name := range zones {
		names = append(names, name)
	}
	w.propose(SetHosts{Selected: names, Attribute: func(host, name string) string {
		if name != "zone" {
			return "other"
		}
		return zones[host]
	}})
}

func TestHostsAreReplacedZoneByZone(t *testing.T) {
	w := deployed(t, 5, func(d *definition.Definition) { d.Deployment.MaxUnavailable, d.Deployment.OrderBy = most(5), "zone" })
	w.update(image("log-daemon:2"), hostNames(5))
	w.can() // before the zones are known
	w.explains(1, "h1", reason.AwaitsZone, "the hosts' attribute zone, by which they are ordered, is not known yet", record.HostsZoned)
	zones := map[string]string{"h1": "zone-10", "h2": "zone-2", "h3": "", "h4": "zone-2", "h5": "zone-10"}
	w.inZones(zones)
	w.inZones(zones)
	assert.Equal(t, 1, w.times(record.HostsZoned))
	w.can("terminate 1 h2", "terminate 1 h4")
	w.explains(1, "h1", reason.AwaitsZone, "hosts are replaced by their zone, one after the other, and those of zone-2 are not done", "the hosts of zone-2 becoming healthy")
	w.replaced(1, 2, "h2", "h4")
	w.can("terminate 1 h1", "terminate 1 h5")
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.can("terminate 1 h3", "terminate 1 h1", "terminate 1 h5") // it has nothing to lose
	w.sees(2, "h2", tasks.Unhealthy, "it crashed")
	w.can("terminate 1 h3") // its zone is not done any more
	w.inZones(map[string]string{"h1": "zone-2", "h2": "zone-2", "h3": "", "h4": "zone-2", "h5": "zone-10"})
	assert.Equal(t, map[string][]string{"zone-2": {"h1"}}, w.last(record.HostsZoned).Zones, "it has moved")
}
