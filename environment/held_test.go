package environment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// only are the hosts of an inventory that has no others.
func only(names ...string) SetHosts {
	return SetHosts{Selected: names, Known: func(host string) bool { return slices.Contains(names, host) }}
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
	if d, _ := w.state.ActiveDeployment(); d.Status != report.DeploymentRunning {
		t.Errorf("what fails on a host that is not in the inventory counts: it is %s, %s", d.Status, d.Cause)
	}
	if all := w.state.Explain(record.TaskTarget("SomeEnvironment/Prod", 2, "h1"), w.now); len(all) != 1 || all[0].Code != reason.HostLost || !strings.Contains(all[0].Change, "env confirm") {
		t.Errorf("it is explained as %+v", all)
	}
	w.propose(only(append(hostNames(4), "h6")...)) // not h5, which may leave
	w.propose(SetHosts{Selected: hostNames(6)})
	w.after(time.Minute)
	w.done("start 2 h1")
}

func TestWhichKeptHostsAreInTheInventoryIsFollowed(t *testing.T) {
	w := deployed(t, 6, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.update(image("log-daemon:2"), hostNames(6))
	w.propose(only("h1"))
	w.can("terminate 1 h1")
	again := SetHosts{Selected: []string{"h1"}, Known: func(host string) bool { return host < "h3" }}
	w.propose(again)
	w.can("terminate 1 h1", "terminate 1 h2")
	if events, err := w.state.Propose(again, w.now); err != nil || len(events) > 0 {
		t.Errorf("it is recorded again: %v, %v", events, err)
	}
	w.propose(SetHosts{Selected: []string{"h1"}})
	w.can("terminate 1 h1", "terminate 1 h2", "terminate 1 h3", "terminate 1 h4", "terminate 1 h5", "terminate 1 h6")
}

func TestNoDeadlinePassesWhileAPersonIsWaitedFor(t *testing.T) {
	for _, ends := range []Command{SetHosts{Selected: hostNames(4)}, ConfirmHosts{By: "alice@host"}} {
		w := deployed(t, 4, nil)
		w.after(time.Hour)
		w.update(func(d *definition.Definition) { d.InstanceGroup.Query = "typo" }, nil)
		w.after(time.Hour)
		w.steps()
		if r := w.state.Report(); r.Deployment.Status != report.DeploymentRunning || !r.Deadline.IsZero() {
			t.Errorf("while it waits to be confirmed it is %s, and its deadline is %s", r.Deployment.Status, r.Deadline)
		}
		w.propose(ends)
		if got := w.state.Report().Deadline.Sub(w.now); got != 10*time.Minute {
			t.Errorf("after %T %s are left", ends, got)
		}
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
	if got := w.state.Report().Deadline.Sub(w.now); got != 5*time.Minute {
		t.Errorf("%s are left", got)
	}
	w.after(5 * time.Minute)
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Status != report.DeploymentStuck {
		t.Errorf("it is %s", d.Status)
	}
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
		if got := w.holds(); !strings.Contains(got, "4 of 6 hosts would leave at once") {
			t.Errorf("it holds because of %q", got)
		}
		w.propose(SetHosts{Selected: hostNames(2)})
		w.can()
		w.propose(ConfirmHosts{Hosts: hostNames(2), By: "alice@host"})
		w.can("terminate 2 h3", "terminate 2 h4", "terminate 2 h5", "terminate 2 h6")
	}
}

func TestTheRemedyOfAStuckRollbackNamesARevision(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	if got := w.state.RollbackCommand(); got != "" {
		t.Errorf("there is nothing to go back to, and it is %q", got)
	}
	w.update(image("log-daemon:2"), hostNames(2))
	if got := w.state.RollbackCommand(); got != "deployster env rollback SomeEnvironment/Prod" {
		t.Errorf("it is %q", got)
	}
	w.done("terminate 1 h1", "terminate 1 h2", "start 2 h1", "start 2 h2")
	w.update(image("log-daemon:3"), hostNames(2))
	w.begin("terminate 2 h1")
	w.propose(Rollback{Revision: 2, Hosts: hostNames(2)})
	w.after(time.Hour)
	w.steps()
	reasons := w.state.Explain(w.state.target, w.now)
	if want := "deployster env rollback SomeEnvironment/Prod --revision 1"; reasons[0].Code != reason.IsStuck || !strings.Contains(reasons[0].Change, want) {
		t.Errorf("it is explained as %+v", reasons[0])
	}
}

func TestAStuckDeletionEndsWithoutItsTasks(t *testing.T) {
	w := deployed(t, 2, nil)
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1")
	w.fails("terminate 1 h2", "permission denied")
	w.after(time.Hour)
	w.steps()
	if reasons := w.state.Explain(w.state.target, w.now); reasons[0].Code != reason.IsStuck || !strings.Contains(reasons[0].Change, "deployster env delete SomeEnvironment/Prod --leave-tasks") {
		t.Errorf("it is explained as %+v", reasons)
	}
	w.propose(Delete{LeaveTasks: true, By: "alice@host"})
	if w.state.Exists() {
		t.Error("it is still there")
	}
	all := w.state.Deployments()
	if d := all[len(all)-1]; d.Status != report.DeploymentSuperseded || !strings.Contains(d.Cause, "left running") {
		t.Errorf("the deletion is %s: %s", d.Status, d.Cause)
	}
	w.refuses(Delete{TerminateTasks: true}, TasksUnmanaged)
}
