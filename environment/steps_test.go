package environment

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// inSteps is how the seed's environment is deployed to a host, then to a quarter, then to all.
func inSteps(pauses ...time.Duration) func(*definition.Definition) {
	return func(d *definition.Definition) {
		all := []definition.Wave{{Hosts: budget.Budget{Count: 1}}, {Hosts: budget.Budget{Percent: 25}}, {Hosts: budget.Budget{Percent: 100}}}
		for i, pause := range pauses {
			p := definition.Duration(pause)
			all[i].Pause = &p
		}
		d.Deployment.Steps, d.Deployment.MaxUnavailable = all, most(8)
		d.Task.Vars = map[string]any{"image": "log-daemon:2"}
	}
}

func TestADeploymentGoesInSteps(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.can("terminate 1 h1")
	w.begin("terminate 1 h1")
	w.explains(1, "h2", reason.AwaitsStep, "waiting to be terminated: step 1 of 3: 1 of 1 host begun", "the hosts of the step being healthy")
	w.done("terminate 1 h1")
	w.refuses(Promote{}, StepNotDone)
	w.done("start 2 h1")
	w.can()
	step, until := w.state.Report().Step, w.now.Add(10*time.Minute)
	assert.Equal(t, [2]int{1, 1}, [2]int{step.Number, step.Begun})
	assert.False(t, step.Promote)
	assert.Equal(t, until, step.Until)
	assert.Equal(t, until, w.state.Wake())
	w.after(10*time.Minute - time.Second)
	w.can()
	assert.False(t, w.state.Idle(), "it goes on in a second")
	w.after(time.Second)
	w.can("terminate 1 h2") // two of eight
	w.replaced(1, 2, "h2")
	w.after(100 * time.Hour) // until somebody promotes it, and no deadline passes
	w.can()
	w.explains(0, "", reason.AwaitsPromotion, "→ deployster env promote SomeEnvironment/Prod")
	assert.True(t, w.state.Idle(), "it waits for a person")
	w.propose(Promote{By: "ada", Reason: "it looks good"})
	p := w.last(record.EnvironmentPromoted)
	assert.Equal(t, record.Payload{Version: p.Version, By: "ada", Reason: "it looks good", StepNumber: 2}, p)
	w.replaced(1, 2, hostNames(8)[2:]...)
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 8 8`)
	w.refuses(Promote{}, NothingToPromote)
	w.sees(2, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.can("start 2 h3") // what is active takes no steps
}

// That a task is healthy again and again is no progress when it dies each time.
func TestAStepWhoseTaskKeepsDyingEndsStuck(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.replaced(1, 2, "h1")
	for range 8 {
		w.after(30 * time.Second)
		w.sees(2, "h1", tasks.Unhealthy, "it crashed")
		w.after(time.Minute)
		w.done("start 2 h1")
	}
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	d := w.active(2, false)
	assert.Equal(t, report.DeploymentStuck, d.Status)
	assert.Equal(t, reason.NoProgress, d.Code)
}

func TestStepsAreCountedOverTheHosts(t *testing.T) {
	of := func(all ...*budget.Budget) (steps []definition.Wave) {
		for _, hosts := range all {
			steps = append(steps, definition.Wave{Hosts: *hosts})
		}
		return steps
	}
	for _, test := range []struct {
		steps   []definition.Wave
		n, want int
	}{
		{nil, 5, 0}, {of(percent(25)), 5, 2}, {of(percent(1)), 5, 1}, {of(most(3), percent(25)), 5, 3}, {of(percent(25)), 0, 0},
	} {
		assert.Equal(t, test.want, definition.MostHosts(test.steps, test.n), "of %d hosts %v", test.n, test.steps)
	}
}

// What dies on a host of a later step while this one waits is started again as what it was.
func TestATaskThatDiesWhileItsHostWaitsForItsStepIsStartedAgain(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(inSteps(), hostNames(4))
	w.replaced(1, 2, "h1")
	w.can()
	assert.True(t, w.state.Idle(), "it waits for a person")
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.explains(1, "h3", reason.AwaitsRetry, "failed once, next try at 11:47:24 UTC: it crashed", "the next try")
	assert.Equal(t, w.now.Add(time.Second), w.state.Wake())
	assert.False(t, w.state.Idle())
	w.can()
	w.after(time.Second)
	w.explains(1, "h3", reason.Ready, "waiting to be restarted: ready for the next free slot of the controller: it crashed", record.TaskStarted)
	step := w.begin("start 1 h3")
	assert.False(t, w.state.Idle(), "a task is being started")
	w.explains(1, "h3", reason.InProgress, "being restarted since event 20 (attempt 1)", "its result")
	w.can("start 1 h3") // where whoever began it has died
	w.append(w.state.Completed(step, tasks.ProbeResult{}, errors.New("no disk"))...)
	w.can()
	w.after(2 * time.Second)
	w.done("start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 3
	         SomeEnvironment/Prod:2 Deploying 4 1`)
	info := w.state.Report().Step
	assert.Equal(t, 1, info.Begun)
	assert.True(t, info.Promote)
	assert.True(t, w.state.Idle())
	w.propose(Pause{})
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Minute)
	w.can()
	w.propose(Resume{})
	w.propose(Promote{})
	w.can("start 1 h3") // a quarter of them has begun already, too
	w.propose(Promote{})
	w.can("terminate 1 h3", "terminate 1 h2", "terminate 1 h4") // what is down first
}

// A host that is kept and not in the inventory was begun all the same: no other may begin in
// its place.
func TestAKeptHostThatWasBegunCountsForItsStep(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "no disk")
	w.propose(SetHosts{Selected: []string{"h6", "h7", "h8"}, Known: func(host string) bool { return host > "h5" }})
	w.after(time.Minute)
	w.can()
}

// A task that keeps dying leaves no room for others to be stopped: it is not up for long enough.
func TestARepairedTaskIsConfirmedBeforeItCounts(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(func(d *definition.Definition) {
		inSteps()(d)
		d.Deployment.MinHealthyTime, d.Deployment.MaxUnavailable = definition.Duration(10*time.Second), most(1)
	}, hostNames(4))
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.replaced(1, 2, "h3") // which is down
	w.after(10 * time.Second)
	w.done("confirm 2 h3")
	w.propose(CordonHosts{Hosts: []string{"h2"}, Drain: true})
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.done("start 1 h4")
	w.can() // h4 is not up for long enough
	w.explains(1, "h4", reason.AwaitsHealth, "healthy for 10s")
	assert.False(t, w.state.Idle(), "it waits for the task to be confirmed")
	w.sees(1, "h4", tasks.Unhealthy, "it crashed")
	w.after(2 * time.Second)
	w.done("start 1 h4")
	w.can()
	w.after(10 * time.Second)
	w.propose(Pause{})
	w.can("confirm 1 h4")
	w.done("confirm 1 h4")
	w.propose(Resume{})
	w.can("terminate 1 h2")
}
