package environment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// baking is revision 2 on five hosts right after its end; one may fail within ten minutes.
func baking(t *testing.T, change func(*definition.Definition)) *world {
	t.Helper()
	w := deployed(t, 5, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.Bake, d.Deployment.MaxFailed, d.Deployment.AutoRollback = definition.Duration(10*time.Minute), most(1), true
		if change != nil {
			change(d)
		}
	}, hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
	return w
}

// dies has the tasks of revision 2 die on hosts, and started again.
func (w *world) dies(hosts ...string) {
	w.Helper()
	for _, h := range hosts {
		w.sees(2, h, tasks.Unhealthy, "it crashed")
		w.steps()
		if d, _ := w.state.ActiveDeployment(); d.Revision == 2 {
			w.after(10 * time.Second)
			w.done("start 2 " + h)
		}
	}
}

func TestWhatDiesInTheBakeRollsBack(t *testing.T) {
	w := baking(t, nil)
	r := w.state.Report()
	if !r.Baking || !r.Deployment.BakeUntil.Equal(w.now.Add(10*time.Minute)) {
		t.Errorf("it bakes: %t, until %s", r.Baking, r.Deployment.BakeUntil)
	}
	w.dies("h1", "h1", "h1")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 5 5`) // one host may fail
	w.after(9 * time.Minute)
	w.dies("h2")
	d, _ := w.state.ActiveDeployment()
	if d.Revision != 1 || !d.Automatic || d.Reason != "revision 2 failed in its bake, and auto_rollback is set" {
		t.Errorf("in force is %+v", d)
	}
	if was := w.state.Deployments()[1]; was.Status != report.DeploymentFinished || was.BakeFailed == "" {
		t.Errorf("the bad one is %+v", was)
	}
	for _, h := range hostNames(5) {
		w.done("terminate 2 "+h, "start 1 "+h)
	}
	w.table(`SomeEnvironment/Prod:1 Active 5 5
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}

func TestWithoutAutoRollbackAFailedBakeIsRecorded(t *testing.T) {
	w := baking(t, func(d *definition.Definition) { d.Deployment.AutoRollback = false })
	w.dies("h1", "h2", "h3")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 5 5`)
	if n := len(w.named(record.BakeFailed)); n != 1 {
		t.Errorf("it is recorded %d times", n)
	}
	reasons := w.state.Explain(w.state.target, w.now)
	if len(reasons) != 1 || reasons[0].Code != reason.FailedInBake || reasons[0].Change != "deployster env rollback SomeEnvironment/Prod, or a new revision" {
		t.Errorf("it is explained as %+v", reasons)
	}
	if good, err := w.state.LastGood(); err != nil || good.Number != 1 {
		t.Errorf("the last good one is %d: %v", good.Number, err)
	}
}

// A revision that failed in its bake is none to go back to, also for who goes back by itself.
func TestAStuckDeploymentDoesNotRollBackToWhatFailedInItsBake(t *testing.T) {
	w := baking(t, func(d *definition.Definition) { d.Deployment.AutoRollback = false })
	w.dies("h1", "h2")
	w.update(func(d *definition.Definition) {
		image("log-daemon:3")(d)
		d.Deployment.AutoRollback = true
	}, hostNames(5))
	for _, h := range hostNames(2) {
		w.done("terminate 2 " + h)
		w.fails("start 3 "+h, "bad image")
	}
	w.after(time.Hour)
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Revision != 1 || !d.Automatic {
		t.Errorf("in force is %+v", d)
	}
}

// A revision that adopted a task which then dies goes back to one with another task.
func TestWhatDiesInTheBakeRollsBackToAnotherTask(t *testing.T) {
	w := baking(t, nil)
	w.update(func(d *definition.Definition) { d.Deployment.ProgressDeadline += definition.Duration(time.Minute) }, hostNames(5))
	w.steps()
	for _, h := range hostNames(2) {
		w.sees(2, h, tasks.Unhealthy, "it crashed")
	}
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Revision != 1 || !d.Automatic {
		t.Errorf("in force is %+v", d)
	}
}

func TestWhatDiesAfterTheBakeDoesNotCount(t *testing.T) {
	w := baking(t, nil)
	w.after(10 * time.Minute)
	w.dies("h1", "h2", "h3")
	if r := w.state.Report(); r.Baking || r.Deployment.Revision != 2 {
		t.Errorf("it is %+v", r.Deployment)
	}
}

// A controller that was away when the bake ended decides on what had died until then.
func TestADeathInTheBakeCountsWheneverItIsDecidedUpon(t *testing.T) {
	w := baking(t, nil)
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	w.sees(2, "h2", tasks.Unhealthy, "it crashed")
	w.after(time.Hour)
	anew := New("SomeEnvironment/Prod")
	for _, e := range w.events {
		anew.Apply(e)
	}
	w.state = anew
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Revision != 1 {
		t.Errorf("it is %+v", d)
	}
}

func TestAClockThatIsSetBackMakesABakeNoLonger(t *testing.T) {
	w := baking(t, nil)
	w.after(-24 * time.Hour)
	w.dies("h1")
	if got := w.state.Report().Deployment.BakeUntil.Sub(w.now); got > 10*time.Minute {
		t.Errorf("it bakes for %s", got)
	}
	w.after(11 * time.Minute)
	w.dies("h2", "h3")
	if d, _ := w.state.ActiveDeployment(); d.Revision != 2 {
		t.Errorf("it is %+v", d)
	}
}

func TestTooFewHealthyTasksAreDegraded(t *testing.T) {
	w := deployed(t, 5, nil)
	w.sees(1, "h1", tasks.Unhealthy, "it crashed")
	w.table(`SomeEnvironment/Prod:1 Active 5 4`)
	w.sees(1, "h2", tasks.Unknown, "no answer")
	w.table(`SomeEnvironment/Prod:1 Degraded 5 3`)
	w.sees(1, "h2", tasks.Healthy, "")
	w.table(`SomeEnvironment/Prod:1 Active 5 4`)
}

func (w *world) named(event string) (all []string) {
	for _, e := range w.events {
		if e.Name == event {
			all = append(all, fmt.Sprint(e.Target))
		}
	}
	return slices.Clip(all)
}
