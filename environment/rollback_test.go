package environment

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
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

// dies has the tasks of revision 2 die on hosts, and started again.
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
