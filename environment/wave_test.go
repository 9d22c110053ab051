package environment

import (
	"errors"
	"strings"
	"testing"
	"time"

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

func (w *world) taken(revision string, all ...string) {
	w.Helper()
	for _, h := range all {
		w.done("terminate 1 "+h, "start "+revision+" "+h)
	}
}

func TestADeploymentGoesInSteps(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.can("terminate 1 h1")
	w.begin("terminate 1 h1")
	w.explains("1", "h2", reason.AwaitsStep, "waiting to be terminated: step 1 of 3: 1 of 1 host begun", "the hosts of the step being healthy")
	w.append(w.state.Completed(w.begin("terminate 1 h1"), tasks.ProbeResult{}, nil)...)
	w.refuses(Promote{}, StepNotDone)
	w.done("start 2 h1")
	w.can()
	if step := w.state.Report().Step; step == nil || step.Number != 1 || step.Begun != 1 || step.Promote || !step.Until.Equal(w.now.Add(10*time.Minute)) {
		t.Errorf("the step is %+v", step)
	}
	if wake := w.state.Wake(); !wake.Equal(w.now.Add(10 * time.Minute)) {
		t.Errorf("it wakes at %s", wake)
	}
	w.after(10*time.Minute - time.Second)
	w.can()
	if w.state.Idle() {
		t.Error("it is idle, and goes on in a second")
	}
	w.after(time.Second)
	w.can("terminate 1 h2") // two of eight
	w.taken("2", "h2")
	w.can()
	w.after(100 * time.Hour) // until somebody promotes it, and no deadline passes
	w.can()
	if reasons := w.state.Explain(w.state.target, w.now); reasons[0].Code != reason.AwaitsPromotion || reasons[0].Change != "deployster env promote SomeEnvironment/Prod" {
		t.Errorf("it explains %+v", reasons[0])
	}
	if !w.state.Idle() {
		t.Error("it waits for a person, and is not idle")
	}
	w.propose(Promote{By: "ada", Reason: "it looks good"})
	if p := record.Read(w.last(record.EnvironmentPromoted).Data); p.By != "ada" || p.StepNumber != 2 || p.Automatic {
		t.Errorf("recorded is %+v", p)
	}
	w.taken("2", "h3", "h4", "h5", "h6", "h7", "h8")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 8 8`)
	w.refuses(Promote{}, NothingToPromote)
	w.sees(2, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.can("start 2 h3") // what is active takes no steps
}

func TestAStepWhoseHostsFallIllIsDoneAgain(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(func(d *definition.Definition) { inSteps(10 * time.Minute)(d); d.Deployment.AutoRollback = true }, hostNames(8))
	w.taken("2", "h1")
	w.after(9 * time.Minute)
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	w.refuses(Promote{}, StepNotDone)
	w.after(time.Second)
	w.done("start 2 h1")
	w.after(9 * time.Minute)
	w.can()
	if n := w.times(record.StepReached); n != 2 {
		t.Errorf("the step was reached %d times", n)
	}
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	w.after(10 * time.Minute)
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Deploying 8 7
	         SomeEnvironment/Prod:2 Reverting 0 1`)
	if w.state.Report().Step != nil {
		t.Error("the rollback takes steps")
	}
}

// That a task is healthy again and again is no progress when it dies each time.
func TestAStepWhoseTaskKeepsDyingEndsStuck(t *testing.T) {
	w := deployed(t, 8, nil)
	w.update(inSteps(10*time.Minute), hostNames(8))
	w.taken("2", "h1")
	for range 8 {
		w.after(30 * time.Second)
		w.sees(2, "h1", tasks.Unhealthy, "it crashed")
		w.steps()
		w.after(time.Minute)
		w.done("start 2 h1")
	}
	w.sees(2, "h1", tasks.Unhealthy, "it crashed")
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Status != report.DeploymentStuck || d.Code != reason.NoProgress {
		t.Errorf("it is %s: %s", d.Status, d.Code)
	}
}

// Hosts that are down anyway come first, for that takes nothing; and what max_failed
// tolerates is counted over the hosts of the step, of which one must be healthy.
func TestAStepTakesTheHostsThatAreDown(t *testing.T) {
	w := deployed(t, 8, nil)
	for _, h := range []string{"h7", "h8"} {
		w.sees(1, h, tasks.Unhealthy, "it crashed")
	}
	w.update(func(d *definition.Definition) {
		inSteps(0)(d)
		d.Deployment.Steps[0].Hosts, d.Deployment.MaxFailed = budget.Budget{Count: 2}, most(1)
	}, hostNames(8))
	w.can("terminate 1 h7", "terminate 1 h8")
	w.done("terminate 1 h7", "terminate 1 h8", "start 2 h7")
	w.fails("start 2 h8", "no disk")
	if n := w.times(record.EnvironmentPromoted); n != 1 {
		t.Errorf("it is promoted %d times", n)
	}
	w = deployed(t, 8, nil)
	w.update(func(d *definition.Definition) { inSteps(0)(d); d.Deployment.MaxFailed = most(1) }, hostNames(8))
	w.done("terminate 1 h1")
	w.fails("start 2 h1", "no disk")
	w.can()
	if n := w.times(record.StepReached); n != 0 {
		t.Error("no host of the step is healthy, and it is done")
	}
}

func TestStepsAreCountedOverTheHosts(t *testing.T) {
	percent := func(p float64) budget.Budget { return budget.Budget{Percent: p} }
	for _, test := range []struct {
		steps []definition.Wave
		n     int
		want  int
	}{
		{nil, 5, 0}, {[]definition.Wave{{Hosts: percent(25)}}, 5, 2}, {[]definition.Wave{{Hosts: percent(1)}}, 5, 1},
		{[]definition.Wave{{Hosts: budget.Budget{Count: 3}}, {Hosts: percent(25)}}, 5, 3}, {[]definition.Wave{{Hosts: percent(25)}}, 0, 0},
	} {
		if got := definition.MostHosts(test.steps, test.n); got != test.want {
			t.Errorf("of %d hosts %v are %d, not %d", test.n, test.steps, got, test.want)
		}
	}
}

func TestARestartGoesInStepsToo(t *testing.T) {
	w := deployed(t, 4, inSteps(0, 0))
	w.propose(Restart{Hosts: hostNames(4)})
	w.can("terminate 1 h1")
	w.taken("1", "h1")
	if step := w.state.Report().Step; step == nil || !strings.HasSuffix(w.last(record.EnvironmentPromoted).Deployment, w.state.active.ID) {
		t.Errorf("the step is %+v", step)
	}
	w.can("terminate 1 h2", "terminate 1 h3", "terminate 1 h4")
}

// What counts as failed is tried again, also where the step has no room for another host:
// the host had the new task before the deployment began.
func TestAHostThatFailsInAStepIsTriedAgain(t *testing.T) {
	w := deployed(t, 4, func(d *definition.Definition) { inSteps()(d); d.Deployment.Steps = nil })
	d := *w.state.Revisions()[0].Definition
	inSteps()(&d)
	d.Deployment.MaxFailed = most(0)
	w.propose(Update{Base: 1, Definition: &d, By: "alice@host"}) // the same task, in steps
	w.propose(CordonHosts{Hosts: []string{"h4"}, Drain: true})
	w.done("terminate 1 h4")
	w.propose(UncordonHosts{Hosts: []string{"h4"}})
	w.propose(Deploy{Revision: 2, Hosts: hostNames(4)})
	w.steps()
	w.sees(1, "h2", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.can("start 1 h2") // and not h4, for the step has one host
}

// What dies on a host of a later step while this one waits is started again as what it was.
func TestATaskThatDiesWhileItsHostWaitsForItsStepIsStartedAgain(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(inSteps(), hostNames(4))
	w.taken("2", "h1")
	w.can()
	if !w.state.Idle() {
		t.Error("it waits for a person, and is not idle")
	}
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.explains("1", "h3", reason.AwaitsRetry, "failed once, next try at 11:47:24 UTC: it crashed", "the next try")
	if wake := w.state.Wake(); !wake.Equal(w.now.Add(time.Second)) || w.state.Idle() {
		t.Errorf("it wakes at %s, idle: %t", wake, w.state.Idle())
	}
	w.can()
	w.after(time.Second)
	w.explains("1", "h3", reason.Ready, "waiting to be restarted: ready for the next free slot of the controller: it crashed", record.TaskStarted)
	w.can("start 1 h3")
	step := w.begin("start 1 h3")
	if w.state.Idle() {
		t.Error("a task is being started, and it is idle")
	}
	w.explains("1", "h3", reason.InProgress, "being restarted since event 20 (attempt 1)", "its result")
	w.can("start 1 h3") // where whoever began it has died
	w.append(w.state.Completed(step, tasks.ProbeResult{}, errors.New("no disk"))...)
	w.can()
	w.after(2 * time.Second)
	w.done("start 1 h3")
	w.can()
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 3
	         SomeEnvironment/Prod:2 Deploying 4 1`)
	if step := w.state.Report().Step; step.Begun != 1 || !step.Promote || !w.state.Idle() {
		t.Errorf("the step is %+v, idle: %t", step, w.state.Idle())
	}
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

// The task of a later revision that has adopted it stays that revision's.
func TestARepairedTaskIsStillThatOfItsRevision(t *testing.T) {
	w := deployed(t, 4, nil)
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 }, hostNames(4))
	w.steps()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 4 4`)
	w.update(inSteps(), hostNames(4))
	w.taken("3", "h1")
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.after(time.Second)
	w.done("start 1 h3")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Undeploying 0 3
	         SomeEnvironment/Prod:3 Deploying 4 1`)
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
