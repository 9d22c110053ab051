package promotion_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
	deploying "github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner"
)

// promoted is an environment in a log, whose revision 1 is there, and a promotion to it.
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
	log := reconciletest.InMemory(t)()
	p := &promoted{T: t, log: log, environments: environments.New(log, time.Now), stop: make(chan struct{})}
	p.promotion = promotion.New(pipelines.Options{Options: reconcile.Options{Log: log, Now: time.Now, Drain: p.stop}, Hosts: hosts{}},
		func(string) ([]string, error) { return []string{"antworker001"}, nil }, func(string) func() { return func() {} })
	p.create()
	return p
}

func (p *promoted) create() { p.do(environment.Create{Definition: environmentDefinition()}) }

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
	must.Get(p.environments.Command(p.Context(), prod.Environment, c))(p)
}

func (p *promoted) work(ctx context.Context, s step.Step) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.promotion.Work(ctx, s, map[string]string{"x86": "gateway-42.tar"}, nil)
		done <- err
	}()
	return done
}

func (p *promoted) until(name string, after int64) deploylog.Event {
	p.Helper()
	for e, err := range p.log.Watch(waittest.Context(p), deploylog.Filter{After: after, Name: name}) {
		require.NoError(p, err)
		return e
	}
	return deploylog.Event{}
}

func (p *promoted) controller(e deploylog.Event, target deploylog.Target, name, data string) {
	event := deploylog.Event{Deployment: e.Deployment, Target: target, Revision: e.Revision, Name: name, Attempt: 1, Data: []byte(data)}
	must.Get(p.log.Append(p.Context(), event))(p)
}

// finishes does the work of a step, whose deployment finishes, and returns the start of that.
func (p *promoted) finishes(s step.Step, after int64) deploylog.Event {
	p.Helper()
	done := p.work(p.Context(), s)
	started := p.until(envrecord.EnvironmentStarted, after)
	p.finish(started)
	require.NoError(p, <-done)
	return started
}

func (p *promoted) finish(started deploylog.Event) {
	p.controller(started, envrecord.Target(prod.Environment), envrecord.EnvironmentFinished, `{"version":1}`)
}

func (p *promoted) state() (found *environment.State) {
	require.NoError(p, p.environments.Follow(p.Context(), 0))
	_ = p.environments.Ask(prod.Environment, func(s *environment.State) error { found = s; return nil })
	return found
}

func (p *promoted) wantDeployments(want int) { assert.Len(p, p.state().Deployments(), want) }

func TestAStageBringsItsRevisionToAnEnvironment(t *testing.T) {
	p := newPromoted(t)
	started := p.finishes(prod, 0)
	r := p.state().Revisions()[1]
	vars := r.Definition.Task.Vars
	assert.Equal(t, []any{"gateway", "42", "prod"}, []any{vars["pipeline"], vars["pipeline_revision"], vars["stage"]})
	assert.Equal(t, map[string]any{"x86": "gateway-42.tar"}, vars["artifacts"])
	assert.NotNil(t, vars["port"], "a variable of its own is lost")
	assert.Equal(t, []any{"d", "stage/gateway/prod"}, []any{r.Definition.Task.Digest, r.By})
	// Whoever does it again, because the scheduler died, deploys nothing again.
	assert.NoError(t, <-p.work(t.Context(), prod), "again")
	p.wantDeployments(1)
	// A retry deploys the same revision again.
	retry := prod
	retry.Attempt = 2
	assert.Equal(t, "2", p.finishes(retry, started.Seq).Revision)
}

// The environment's task finds what the revision takes of other pipelines, and nothing of what another revision took.
func TestAStageTellsItsEnvironmentWhatItsRevisionTakes(t *testing.T) {
	p := newPromoted(t)
	taking, next := prod, prod
	taking.Takes = []upstream.Input{{Release: upstream.Release{Pipeline: "config", Revision: "3"}, Artifacts: map[string]string{"tar": "config-3.tar"}}}
	next.Deployment, next.Revision = "next", "43"
	p.finishes(next, p.finishes(taking, 0).Seq)
	revisions := p.state().Revisions()
	config := map[string]any{"revision": "3", "artifacts": map[string]any{"tar": "config-3.tar"}}
	assert.Equal(t, map[string]any{"config": config}, revisions[1].Definition.Task.Vars["pipeline_inputs"])
	assert.NotContains(t, revisions[2].Definition.Task.Vars, "pipeline_inputs")
}

// A revision of the environment is bound if the revision of the pipeline is, or if it has something else of who may
// bring no more than the environment names and allows; and not because an earlier one was.
func TestOnlyWhatIsBroughtWithBoundsIsBound(t *testing.T) {
	p := newPromoted(t)
	after := int64(0)
	deploy := func(deployment string, bound bool) bool {
		s := prod
		if s.Deployment, s.Revision = deployment, deployment; bound {
			s.Bounds = &deploying.Bounds{}
		}
		after = p.finishes(s, after).Seq
		all := p.state().Revisions()
		return all[len(all)-1].Bound
	}
	assert.False(t, deploy("1", false))
	assert.True(t, deploy("2", true))
	assert.False(t, deploy("3", false), "it is bound since another one was")
	assert.True(t, deploy("4", true))
	update := func(bound bool, port int) {
		all := p.state().Revisions()
		d := *all[len(all)-1].Definition
		d.Task.Vars = maps.Clone(d.Task.Vars)
		d.Task.Vars["port"] = port
		p.do(environment.Update{Base: len(all), Definition: &d, Bound: bound})
	}
	update(true, 81)
	assert.True(t, deploy("5", false), "the port of somebody who may not set it is not bound any more")
	update(false, 82)
	assert.False(t, deploy("6", false), "an operator of everything answers for it")
}

// Versions before wrote why they deployed, in words, and no step.
func TestADeploymentOfAnEarlierVersionIsFoundAgain(t *testing.T) {
	p := newPromoted(t)
	p.do(environment.Deploy{Revision: 1, Hosts: []string{"antworker001"}, By: "stage/gateway/prod", Reason: "revision 42 of pipeline gateway, stage prod, attempt 1 (deployment)"})
	p.finish(p.until(envrecord.EnvironmentStarted, 0))
	assert.NoError(t, <-p.work(t.Context(), prod))
	p.wantDeployments(1)
}

func TestAStageFailsWhenItsDeploymentDoesNotFinish(t *testing.T) {
	for event, c := range map[string]struct{ data, want string }{
		envrecord.EnvironmentStuck:   {`{"version":1,"error":"no progress for 10m"}`, "no progress for 10m"},
		envrecord.EnvironmentFailed:  {`{"version":1,"error":"rolled back by x"}`, "rolled back by x"},
		envrecord.EnvironmentDeleted: {`{"version":1}`, "was deleted"},
	} {
		t.Run(event, func(t *testing.T) {
			p := newPromoted(t)
			done := p.work(t.Context(), prod)
			p.controller(p.until(envrecord.EnvironmentStarted, 0), envrecord.Target(prod.Environment), event, c.data)
			assert.ErrorContains(t, <-done, c.want)
		})
	}
}

func TestAStageWaitsNoLongerThanItsScheduler(t *testing.T) {
	p := newPromoted(t)
	done := p.work(t.Context(), prod)
	p.until(envrecord.EnvironmentStarted, 0)
	close(p.stop)
	assert.ErrorIs(t, <-done, runner.ErrInterrupted, "it ends with")
	p = newPromoted(t)
	ctx, cancel := context.WithCancel(t.Context())
	done = p.work(ctx, prod)
	p.until(envrecord.EnvironmentStarted, 0)
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled, "it ends with")
}

func TestAStageWithoutItsEnvironmentChangesNothing(t *testing.T) {
	p := newPromoted(t)
	elsewhere := prod
	elsewhere.Environment = "gateway/nowhere"
	assert.ErrorIs(t, <-p.work(t.Context(), elsewhere), environments.ErrNoEnvironment, "without an environment")
	err := p.environments.Follow(t.Context(), 0)
	assert.True(t, err == nil && p.environments.Head() == 1, "the log has %d events, %v", p.environments.Head(), err)
}

func TestAStageEndsWithTheRollbackThatComesOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPromoted(t)
		done := p.work(t.Context(), prod)
		started := p.until(envrecord.EnvironmentStarted, 0)
		at := envrecord.Target(prod.Environment)
		back := deploylog.Event{Deployment: "gateway/prod:1@2026", Target: at, Revision: "1", Name: envrecord.EnvironmentStarted, Attempt: 1, Data: []byte(`{"version":1,"kind":"rollback","automatic":true}`)}
		must.Get(p.log.Append(t.Context(),
			deploylog.Event{Deployment: started.Deployment, Target: at, Revision: "2", Name: envrecord.EnvironmentStuck, Attempt: 1, Data: []byte(`{"version":1,"error":"no progress"}`)},
			deploylog.Event{Deployment: started.Deployment, Target: at, Revision: "2", Name: envrecord.EnvironmentFailed, Attempt: 1, Data: []byte(`{"version":1,"error":"rolled back"}`)},
			back,
		))(t)
		reconciletest.Wait(time.Minute)
		select {
		case err := <-done:
			t.Fatalf("it has ended already: %v", err)
		default:
		}
		p.finish(back)
		assert.ErrorContains(t, <-done, "is stuck: no progress")
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
	p.finish(third)
	assert.NoError(t, <-done, "deployed by hand")
	assert.NoError(t, <-p.work(t.Context(), prod), "by another scheduler")
	p.wantDeployments(3)
	retry := prod
	retry.Attempt = 2
	done = p.work(t.Context(), retry)
	fourth := p.until(envrecord.EnvironmentStarted, third.Seq)
	changed := environmentDefinition()
	changed.Task.Digest = "other"
	p.do(environment.Update{Base: 2, Definition: changed, By: "ann"})
	p.do(environment.Deploy{Revision: 3, Hosts: []string{"antworker001"}, By: "ann"})
	assert.ErrorContains(t, <-done, fourth.Deployment+" has ended before it had finished: superseded by")
}

func TestARollbackOfAStageRollsItsEnvironmentBack(t *testing.T) {
	p := newPromoted(t)
	newer, back := prod, prod
	newer.Deployment, newer.Revision = "newer", "43"
	back.Deployment, back.Original, back.RollsBack = "back", prod.Deployment, true
	after := int64(0)
	for _, s := range []step.Step{prod, newer, back} {
		after = p.finishes(s, after).Seq
	}
	assert.NoError(t, <-p.work(t.Context(), back), "by another scheduler")
	p.wantDeployments(3)
	assert.Len(t, p.state().Revisions(), 3)
	last := p.state().Deployments()[2]
	assert.Equal(t, []any{2, envrecord.ByRollback}, []any{last.Revision, last.Kind})
	back.Deployment, back.Original = "elsewhere", "unknown"
	assert.ErrorContains(t, <-p.work(t.Context(), back), "which is to be deployed again", "to what never was there")
}

// A stage that is done again deploys its revision again, and takes no newer one away.
func TestAStageThatIsDoneAgainDeploysItsRevisionAgain(t *testing.T) {
	p := newPromoted(t)
	newer, again := prod, prod
	newer.Deployment, newer.Revision = "newer", "43"
	again.Deployment, again.Original = "again", prod.Deployment
	after := int64(0)
	for _, s := range []step.Step{prod, again, newer} {
		started := p.finishes(s, after)
		assert.Equal(t, map[string]string{"42": "2", "43": "3"}[s.Revision], started.Revision, s.Deployment)
		after = started.Seq
	}
	again.Deployment = "once more"
	assert.ErrorContains(t, <-p.work(t.Context(), again), "revision 2 is older than revision 3, which is active")
}

// A revision that finished before its stage was added has the environment for the first time.
func TestARevisionComesToAStageThatWasAddedLater(t *testing.T) {
	p := newPromoted(t)
	first := prod
	first.Deployment, first.Original, first.First = "enter", prod.Deployment, true
	started := p.finishes(first, 0)
	assert.Equal(t, "2", started.Revision)
	again := prod
	again.Deployment, again.Original = "again", prod.Deployment
	assert.Equal(t, "2", p.finishes(again, started.Seq).Revision)
}

// What an environment had before it was deleted is made again where it was created anew.
func TestARevisionComesAgainToAnEnvironmentThatWasCreatedAnew(t *testing.T) {
	p := newPromoted(t)
	started := p.finishes(prod, 0)
	p.do(environment.Delete{})
	p.create()
	back := prod
	back.Deployment, back.Original = "rollback", prod.Deployment
	err := <-p.work(t.Context(), back)
	assert.ErrorContains(t, err, "since it was created (event ")
	assert.ErrorContains(t, err, "deployster pipeline release gateway")
	again := prod
	again.Attempt = 2
	assert.Equal(t, "4", p.finishes(again, started.Seq).Revision)
}
