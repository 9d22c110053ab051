package promotion_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner"
)

// promoted is an environment in a log, whose revision 1 is there, and a promotion
// to it.
type promoted struct {
	*testing.T
	log          deploylog.Log
	environments *environments.Environments
	promotion    *promotion.Promotion
	stop         chan struct{}
}

var prod = step.Step{
	Deployment: "deployment", Revision: "42", Target: "stage/gateway/prod", Stage: "prod", Event: record.StageDeployed, Attempt: 1, Environment: "gateway/prod",
}

// hosts are those of the inventory.
type hosts struct{ pipelines.Hosts }

func (hosts) Identity() string { return "mine" }

func newPromoted(t *testing.T) *promoted {
	t.Helper()
	log := reconciletest.InMemory(t)()
	p := &promoted{T: t, log: log, environments: environments.New(log, time.Now), stop: make(chan struct{})}
	p.promotion = promotion.New(pipelines.Options{Options: reconcile.Options{Log: log, Now: time.Now, Drain: p.stop}, Hosts: hosts{}},
		func(string) ([]string, error) { return []string{"antworker001"}, nil }, func(string) func() { return func() {} })
	p.create()
	return p
}

// create makes the environment.
func (p *promoted) create() {
	p.Helper()
	p.do(environment.Create{Definition: environmentDefinition()})
}

func environmentDefinition() *definition.Definition {
	return &definition.Definition{
		Name: prod.Environment, Type: definition.Daemon, Task: definition.TaskSpec{Manifest: "task.yaml", Digest: "d", Vars: map[string]any{"port": 80}},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == prod"},
		Deployment: definition.Configuration{
			Method: definition.Replace, ProgressDeadline: definition.Duration(time.Minute), HealthyDeadline: definition.Duration(time.Minute),
		},
	}
}

func (p *promoted) do(c environment.Command) {
	p.Helper()
	if _, err := p.environments.Command(p.Context(), prod.Environment, c); err != nil {
		p.Fatal(err)
	}
}

// work does the work of a step beside the test.
func (p *promoted) work(ctx context.Context, s step.Step) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.promotion.Work(ctx, s, map[string]string{"x86": "gateway-42.tar"}, nil)
		done <- err
	}()
	return done
}

// until waits for the event, and returns it.
func (p *promoted) until(name string, after int64) deploylog.Event {
	p.Helper()
	for e, err := range p.log.Watch(p.Context(), deploylog.Filter{After: after, Name: name}) {
		if err != nil {
			p.Fatal(err)
		}
		return e
	}
	return deploylog.Event{}
}

// controller records what one would.
func (p *promoted) controller(e deploylog.Event, target deploylog.Target, name, data string) {
	p.Helper()
	event := deploylog.Event{Deployment: e.Deployment, Target: target, Revision: e.Revision, Name: name, Attempt: 1, Data: []byte(data)}
	if _, err := p.log.Append(p.Context(), event); err != nil {
		p.Fatal(err)
	}
}

func TestAStageBringsItsRevisionToAnEnvironment(t *testing.T) {
	p := newPromoted(t)
	done := p.work(t.Context(), prod)
	started := p.until(envrecord.EnvironmentStarted, 0)
	if err := p.environments.Follow(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	_ = p.environments.Ask(prod.Environment, func(s *environment.State) error {
		r := s.Revisions()[1]
		vars := r.Definition.Task.Vars
		refs, _ := vars["artifacts"].(map[string]any)
		if vars["pipeline"] != "gateway" || vars["pipeline_revision"] != "42" || vars["stage"] != "prod" || refs["x86"] != "gateway-42.tar" {
			t.Errorf("the task has %v", vars)
		}
		if vars["port"] == nil || r.Definition.Task.Digest != "d" || r.By != "stage/gateway/prod" {
			t.Errorf("the revision is %+v", r)
		}
		return nil
	})
	p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	// Whoever does it again, because the scheduler died, deploys nothing again.
	if err := <-p.work(t.Context(), prod); err != nil {
		t.Errorf("again: %v", err)
	}
	p.wantDeployments(1)
	// A retry deploys the same revision again.
	retry := prod
	retry.Attempt = 2
	done = p.work(t.Context(), retry)
	if again := p.until(envrecord.EnvironmentStarted, started.Seq); again.Revision != "2" {
		t.Errorf("the retry deploys revision %s", again.Revision)
	} else {
		p.controller(again, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (p *promoted) wantDeployments(want int) {
	p.Helper()
	if err := p.environments.Follow(p.Context(), 0); err != nil {
		p.Fatal(err)
	}
	_ = p.environments.Ask(prod.Environment, func(s *environment.State) error {
		if n := len(s.Deployments()); n != want {
			p.Errorf("there are %d deployments, not %d", n, want)
		}
		return nil
	})
}

// Versions before wrote why they deployed, in words, and no step.
// The environment's task finds what the revision takes of other pipelines, and nothing of
// what another revision took.
func TestAStageTellsItsEnvironmentWhatItsRevisionTakes(t *testing.T) {
	p := newPromoted(t)
	taking, next := prod, prod
	taking.Takes = []upstream.Input{{Release: upstream.Release{Pipeline: "config", Revision: "3"}, Artifacts: map[string]string{"tar": "config-3.tar"}}}
	next.Deployment, next.Revision = "next", "43"
	var seq int64
	for i, s := range []step.Step{taking, next} {
		done := p.work(t.Context(), s)
		started := p.until(envrecord.EnvironmentStarted, seq)
		seq = started.Seq
		if err := p.environments.Follow(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		_ = p.environments.Ask(prod.Environment, func(state *environment.State) error {
			inputs, there := state.Revisions()[i+1].Definition.Task.Vars["pipeline_inputs"].(map[string]any)
			config, _ := inputs["config"].(map[string]any)
			refs, _ := config["artifacts"].(map[string]any)
			if there != (i == 0) || there && (config["revision"] != "3" || refs["tar"] != "config-3.tar") {
				t.Errorf("revision %s comes with %v", s.Revision, inputs)
			}
			return nil
		})
		p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestADeploymentOfAnEarlierVersionIsFoundAgain(t *testing.T) {
	p := newPromoted(t)
	p.do(environment.Deploy{Revision: 1, Hosts: []string{"antworker001"}, By: "stage/gateway/prod", Reason: "revision 42 of pipeline gateway, stage prod, attempt 1 (deployment)"})
	p.controller(p.until(envrecord.EnvironmentStarted, 0), envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	if err := <-p.work(t.Context(), prod); err != nil {
		t.Error(err)
	}
	p.wantDeployments(1)
}

func TestAStageFailsWhenItsDeploymentDoesNotFinish(t *testing.T) {
	for event, data := range map[string]string{
		envrecord.EnvironmentStuck:   `{"version":1,"error":"no progress for 10m"}`,
		envrecord.EnvironmentFailed:  `{"version":1,"error":"rolled back by x"}`,
		envrecord.EnvironmentDeleted: `{"version":1}`,
	} {
		t.Run(event, func(t *testing.T) {
			p := newPromoted(t)
			done := p.work(t.Context(), prod)
			p.controller(p.until(envrecord.EnvironmentStarted, 0), envrecord.Target(prod.Environment), event, data)
			err := <-done
			if err == nil || !strings.Contains(err.Error(), map[string]string{
				envrecord.EnvironmentStuck: "no progress for 10m", envrecord.EnvironmentFailed: "rolled back by x", envrecord.EnvironmentDeleted: "was deleted",
			}[event]) {
				t.Errorf("it fails with %v", err)
			}
		})
	}
}

func TestAStageWaitsNoLongerThanItsScheduler(t *testing.T) {
	p := newPromoted(t)
	done := p.work(t.Context(), prod)
	p.until(envrecord.EnvironmentStarted, 0)
	close(p.stop)
	if err := <-done; !errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("it ends with %v", err)
	}
	p = newPromoted(t)
	ctx, cancel := context.WithCancel(t.Context())
	done = p.work(ctx, prod)
	p.until(envrecord.EnvironmentStarted, 0)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

func TestAStageWithoutItsEnvironmentChangesNothing(t *testing.T) {
	p := newPromoted(t)
	elsewhere := prod
	elsewhere.Environment = "gateway/nowhere"
	if err := <-p.work(t.Context(), elsewhere); !errors.Is(err, environments.ErrNoEnvironment) {
		t.Errorf("without an environment: %v", err)
	}
	if err := p.environments.Follow(t.Context(), 0); err != nil || p.environments.Head() != 1 {
		t.Errorf("the log has %d events, %v", p.environments.Head(), err)
	}
}

// What is rolled back by itself fails its stage when that has finished.
func TestAStageEndsWithTheRollbackThatComesOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPromoted(t)
		done := p.work(t.Context(), prod)
		started := p.until(envrecord.EnvironmentStarted, 0)
		at := envrecord.Target(prod.Environment)
		back := deploylog.Event{Deployment: "gateway/prod:1@2026", Target: at, Revision: "1", Name: envrecord.EnvironmentStarted, Attempt: 1, Data: []byte(`{"version":1,"kind":"rollback","automatic":true}`)}
		if _, err := p.log.Append(t.Context(),
			deploylog.Event{Deployment: started.Deployment, Target: at, Revision: "2", Name: envrecord.EnvironmentStuck, Attempt: 1, Data: []byte(`{"version":1,"error":"no progress"}`)},
			deploylog.Event{Deployment: started.Deployment, Target: at, Revision: "2", Name: envrecord.EnvironmentFailed, Attempt: 1, Data: []byte(`{"version":1,"error":"rolled back"}`)},
			back,
		); err != nil {
			t.Fatal(err)
		}
		reconciletest.Wait(time.Minute)
		select {
		case err := <-done:
			t.Fatalf("it has ended already: %v", err)
		default:
		}
		p.controller(back, at, envrecord.EnvironmentFinished, `{"version":1}`)
		if err := <-done; err == nil || !strings.Contains(err.Error(), "is stuck: no progress") {
			t.Errorf("it ends with %v", err)
		}
	})
}

// Who deploys or restarts the revision by hand while its stage waits takes the place of what the
// stage began, and the stage ends with that; another revision ends it.
func TestAStageEndsWithWhatTookThePlaceOfItsDeployment(t *testing.T) {
	p := newPromoted(t)
	done := p.work(t.Context(), prod)
	first := p.until(envrecord.EnvironmentStarted, 0)
	p.do(environment.Deploy{Revision: 2, Hosts: []string{"antworker001"}, By: "ann"})
	second := p.until(envrecord.EnvironmentStarted, first.Seq)
	p.do(environment.Deploy{Revision: 2, Hosts: []string{"antworker001"}, By: "ann"})
	third := p.until(envrecord.EnvironmentStarted, second.Seq)
	p.controller(third, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	if err := <-done; err != nil {
		t.Errorf("deployed by hand: %v", err)
	}
	if err := <-p.work(t.Context(), prod); err != nil { // by another scheduler
		t.Errorf("again: %v", err)
	}
	p.wantDeployments(3)

	retry := prod
	retry.Attempt = 2
	done = p.work(t.Context(), retry)
	fourth := p.until(envrecord.EnvironmentStarted, third.Seq)
	changed := environmentDefinition()
	changed.Task.Digest = "other"
	p.do(environment.Update{Base: 2, Definition: changed, By: "ann"})
	p.do(environment.Deploy{Revision: 3, Hosts: []string{"antworker001"}, By: "ann"})
	if err := <-done; err == nil || !strings.Contains(err.Error(), fourth.Deployment+" has ended before it had finished: superseded by") {
		t.Errorf("another revision is deployed: %v", err)
	}
}

func TestARollbackOfAStageRollsItsEnvironmentBack(t *testing.T) {
	p := newPromoted(t)
	newer, back := prod, prod
	newer.Deployment, newer.Revision = "newer", "43"
	back.Deployment, back.Original, back.RollsBack = "back", prod.Deployment, true
	after := int64(0)
	for _, s := range []step.Step{prod, newer, back} {
		done := p.work(t.Context(), s)
		started := p.until(envrecord.EnvironmentStarted, after)
		p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		after = started.Seq
	}
	if err := <-p.work(t.Context(), back); err != nil { // by another scheduler
		t.Errorf("again: %v", err)
	}
	p.wantDeployments(3)
	if err := p.environments.Follow(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	_ = p.environments.Ask(prod.Environment, func(s *environment.State) error {
		all := s.Deployments()
		if last := all[len(all)-1]; last.Revision != 2 || last.Kind != envrecord.ByRollback || len(s.Revisions()) != 3 {
			t.Errorf("the last deployment is %+v of %d revisions", last, len(s.Revisions()))
		}
		return nil
	})
	back.Deployment, back.Original = "elsewhere", "unknown"
	if err := <-p.work(t.Context(), back); err == nil || !strings.Contains(err.Error(), "which is to be deployed again") {
		t.Errorf("to what never was there: %v", err)
	}
}

// A stage that is done again deploys its revision again, and takes no newer one away.
func TestAStageThatIsDoneAgainDeploysItsRevisionAgain(t *testing.T) {
	p := newPromoted(t)
	newer, again := prod, prod
	newer.Deployment, newer.Revision = "newer", "43"
	again.Deployment, again.Original = "again", prod.Deployment
	after := int64(0)
	for _, s := range []step.Step{prod, again, newer} {
		done := p.work(t.Context(), s)
		started := p.until(envrecord.EnvironmentStarted, after)
		if want := map[string]string{"42": "2", "43": "3"}[s.Revision]; started.Revision != want {
			t.Errorf("%s deploys revision %s, not %s", s.Deployment, started.Revision, want)
		}
		p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		after = started.Seq
	}
	again.Deployment = "once more"
	if err := <-p.work(t.Context(), again); err == nil || !strings.Contains(err.Error(), "revision 2 is older than revision 3, which is active") {
		t.Errorf("over a newer one: %v", err)
	}
}

// What an environment had before it was deleted is made again where it was created anew.
func TestARevisionComesAgainToAnEnvironmentThatWasCreatedAnew(t *testing.T) {
	p := newPromoted(t)
	done := p.work(t.Context(), prod)
	started := p.until(envrecord.EnvironmentStarted, 0)
	p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.do(environment.Delete{})
	p.create()
	back := prod
	back.Deployment, back.Original = "rollback", prod.Deployment
	if err := <-p.work(t.Context(), back); err == nil || !strings.Contains(err.Error(), "since it was created (event ") || !strings.Contains(err.Error(), "deployster pipeline release gateway") {
		t.Errorf("rolled back to what it had before: %v", err)
	}
	again := prod
	again.Attempt = 2
	done = p.work(t.Context(), again)
	select {
	case err := <-done:
		t.Fatalf("it ends with %v", err)
	case started = <-p.soon(envrecord.EnvironmentStarted, started.Seq):
	}
	if started.Revision != "4" {
		t.Errorf("revision %s is deployed", started.Revision)
	}
	p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// soon is the event, as until waits for it.
func (p *promoted) soon(name string, after int64) <-chan deploylog.Event {
	found := make(chan deploylog.Event, 1)
	go func() {
		for e, err := range p.log.Watch(p.Context(), deploylog.Filter{After: after, Name: name}) {
			if err == nil {
				found <- e
			}
			return
		}
	}()
	return found
}
