package environment

import (
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// lasting has tasks be healthy only after ten seconds.
func lasting(d *definition.Definition) {
	d.Deployment.MinHealthyTime = definition.Duration(10 * time.Second)
}

// A task that keeps dying leaves no room for others to be stopped: it is not up for long enough.
func TestARepairedTaskIsConfirmedBeforeItCounts(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(func(d *definition.Definition) {
		inSteps()(d)
		lasting(d)
		d.Deployment.MaxUnavailable = most(1)
	}, hostNames(4))
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.done("terminate 1 h3") // which is down
	w.done("start 2 h3")
	w.after(10 * time.Second)
	w.done("confirm 2 h3")
	w.propose(CordonHosts{Hosts: []string{"h2"}, Drain: true})
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.done("start 1 h4")
	w.can() // h4 is not up for long enough
	w.explains("1", "h4", reason.AwaitsHealth, "healthy for 10s")
	if w.state.Idle() {
		t.Error("it waits for the task to be confirmed, and is idle")
	}
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.can()
	w.after(2 * time.Second)
	w.done("start 1 h4")
	w.can()
	w.after(10 * time.Second)
	w.can("confirm 1 h4")
	w.propose(Pause{})
	w.can("confirm 1 h4")
	w.done("confirm 1 h4")
	w.propose(Resume{})
	w.can("terminate 1 h2")
}

// Where too many have failed nobody waits for a step, and what dies would stay down all the same.
func TestWhatDiesIsStartedAgainWhereTooManyHaveFailed(t *testing.T) {
	for name, steps := range map[string]bool{"in steps": true, "without steps": false} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, 8, nil)
			w.update(func(d *definition.Definition) {
				if inSteps()(d); !steps {
					d.Deployment.Steps = nil
				} else {
					d.Deployment.Steps = d.Deployment.Steps[1:] // two of eight hosts
				}
				d.Deployment.MaxFailed = most(0)
			}, hostNames(8))
			w.done("terminate 1 h1")
			w.fails("start 2 h1", "no disk")
			w.sees(1, "h4", tasks.Unhealthy, "it crashed")
			w.explains("1", "h4", reason.AwaitsRetry, "it crashed")
			w.after(time.Second)
			w.can("start 1 h4", "start 2 h1")
			w.explains("1", "h4", reason.Ready, "waiting to be restarted")
			w.done("start 1 h4")
			w.can("start 2 h1")
		})
	}
}

// A restart of a host is all that the start of a task there would be: it need not wait.
func TestWhatDiesInARestartIsRestartedAtOnce(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(), hostNames(8))
	w.taken("2", "h1")
	w.propose(Promote{})
	w.taken("2", "h2")
	w.propose(Promote{})
	w.taken("2", hostNames(8)[2:]...)
	w.propose(Restart{Hosts: hostNames(8), By: "ada"})
	w.done("terminate 2 h1", "start 2 h1")
	w.can()
	w.sees(2, "h5", tasks.Unhealthy, "it crashed")
	w.can()
	w.after(time.Second)
	w.can("start 2 h5")
	w.done("start 2 h5")
	if step := w.state.Report().Step; step.Begun != 2 {
		t.Errorf("the step is %+v", step)
	}
	if n := len(w.named(record.TaskTerminating)); n != 9 {
		t.Errorf("%d tasks were terminated", n)
	}
}
