package environment

import (
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// tolerant is revision 2 on hosts one of which may fail, six are five too many.
func tolerant(t *testing.T, n int) *world {
	w := deployed(t, n, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.MaxFailed, d.Deployment.AutoRollback = &budget.Budget{Percent: 20}, true
	}, hostNames(n))
	return w
}

// replaced replaces the tasks of hosts by those of revision 2.
func (w *world) replaced(hosts ...string) {
	w.Helper()
	for _, h := range hosts {
		w.done("terminate 1 "+h, "start 2 "+h)
	}
}

// failing has a step fail so many times.
func (w *world) failing(what string, times int) {
	w.Helper()
	for range times {
		w.fails(what, "bad disk")
		w.after(time.Minute)
	}
}

// exceptional wants the active deployment to have this status, with these exceptions.
func (w *world) exceptional(status report.DeploymentStatus, names ...string) {
	w.Helper()
	w.steps()
	r := w.state.Report()
	if r.Deployment.Status != status || !slices.Equal(r.Exceptions, names) {
		w.Errorf("%s is %s with the exceptions %q: %s", r.Deployment.ID, r.Deployment.Status, r.Exceptions, r.Deployment.Cause)
	}
}

func TestAHostThatFailsIsAnException(t *testing.T) {
	w := tolerant(t, 6)
	w.done("terminate 1 h3")
	w.failing("start 2 h3", 2)
	w.replaced("h1", "h2", "h4", "h5", "h6")
	w.exceptional(report.DeploymentRunning) // it has another chance
	w.failing("start 2 h3", 1)
	w.exceptional(report.DeploymentFinished, "h3")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 6 5`)
	if p := record.Read(w.last(record.EnvironmentFinished).Data); p.Exceptions != 1 || p.Reason != "with 1 exception: h3" {
		t.Errorf("it is recorded with %+v", p)
	}
	w.after(time.Hour)
	w.failing("start 2 h3", 1) // it is tried again and again
	w.done("start 2 h3")
	if r := w.state.Report(); len(r.Exceptions) > 0 || r.Deployment.Exceptions != 1 {
		t.Errorf("it has the exceptions %q, and ended with %d", r.Exceptions, r.Deployment.Exceptions)
	}
}

func TestAHostThatCannotBeReachedIsAnException(t *testing.T) {
	w := tolerant(t, 6)
	w.sees(1, "h3", tasks.Unknown, "no route to host")
	w.replaced("h1", "h2", "h4", "h5", "h6")
	w.exceptional(report.DeploymentFinished, "h3")
	w.sees(1, "h3", tasks.Healthy, "")
	w.replaced("h3")
	w.exceptional(report.DeploymentFinished)
}

func TestATaskThatCannotBeTerminatedIsAnException(t *testing.T) {
	w := tolerant(t, 6)
	w.failing("terminate 1 h3", 3)
	w.replaced("h1", "h2", "h4", "h5", "h6")
	w.exceptional(report.DeploymentFinished, "h3")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 1
	         SomeEnvironment/Prod:2 Active 6 5`)
}

// What was begun late has no time left at the deadline.
func TestWhatWasTriedIsAnExceptionAtTheDeadline(t *testing.T) {
	w := tolerant(t, 6)
	w.replaced("h1", "h2", "h4", "h5", "h6")
	w.done("terminate 1 h3")
	w.after(9 * time.Minute)
	w.begin("start 2 h3")
	w.after(time.Minute)
	w.exceptional(report.DeploymentFinished)
}

func TestMoreThanMaxFailedAreNoExceptions(t *testing.T) {
	for _, test := range []struct {
		n      int
		most   *budget.Budget
		failed []string
	}{
		{6, &budget.Budget{Percent: 20}, []string{"h1", "h2"}}, {6, nil, []string{"h1"}}, {6, most(0), []string{"h1"}},
		{2, most(2), []string{"h1", "h2"}}, // then nothing is healthy
	} {
		w := tolerant(t, test.n)
		w.state.active.Configuration.MaxFailed, w.state.active.Configuration.AutoRollback = test.most, false
		for _, h := range test.failed {
			w.done("terminate 1 " + h)
		}
		for _, h := range test.failed {
			w.failing("start 2 "+h, 3)
		}
		for _, h := range hostNames(test.n) {
			if !slices.Contains(test.failed, h) && !w.state.halted() {
				w.replaced(h)
			}
		}
		w.after(time.Hour)
		w.exceptional(report.DeploymentStuck)
	}
}

// A rollback is not stuck because of what the deployment before was stuck on.
func TestARollbackToleratesWhatFailedBefore(t *testing.T) {
	w := tolerant(t, 6)
	w.sees(1, "h3", tasks.Unknown, "no route to host")
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "bad image")
	w.done("terminate 1 h2")
	w.fails("start 2 h2", "bad image")
	w.steps()
	d, _ := w.state.ActiveDeployment()
	if d.Kind != record.ByRollback || d.Tolerates != 3 {
		t.Fatalf("it is %+v", d)
	}
	w.done("terminate 2 h1", "terminate 2 h2", "start 1 h1", "start 1 h2")
	w.exceptional(report.DeploymentFinished, "h3")
	w.table(`SomeEnvironment/Prod:1 Active 6 5
	         SomeEnvironment/Prod:2 Reverted 0 0`)
}
