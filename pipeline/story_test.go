package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// What may be done, one line each: REVISION EVENT TARGET, without the pipeline.
func (w *tale) doable() (lines []string) {
	for s := range w.state.Decide(noon, Can{}) {
		lines = append(lines, s.Revision+" "+s.Event+" "+strings.Replace(string(s.Target), "/"+w.state.name, "", 1))
	}
	return lines
}

func (w *tale) mayDo(want ...string) {
	w.Helper()
	got := w.doable()
	assert.True(w, slices.Equal(got, want), "it may do\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// complete does a step that may be done.
func (w *tale) complete(revision string, t deploylog.Target, event string) {
	w.Helper()
	for s := range w.state.Decide(noon, Can{}) {
		if s.Revision == revision && s.Target == t && s.Event == event {
			events, err := s.Completed(nil)
			require.NoError(w, err)
			w.append(events...)
			return
		}
	}
	w.Fatalf("%s of %s cannot be done, but %q", event, t, w.doable())
}

func run(name string, after ...string) definition.Stage {
	return definition.Stage{Name: name, After: after, Run: &definition.Run{Manifest: name + ".yaml"}}
}

func stageOf(stage string) deploylog.Target { return record.StageTarget("p", stage) }

func TestARetryGoesOnWhereItFailed(t *testing.T) {
	w := newTale(t, antGateway(copied, deployed), map[string][]string{"ant-gateway/beta": {"one", "two"}, "ant-gateway/prod": nil})
	two := record.HostTarget("ant-gateway", "ant-gateway/beta", "two")
	w.fails[string(two)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	clear(w.fails)
	before := len(w.log)
	w.do(Retry{Revision: "v1", By: "ann"})
	w.until("v1", beta, record.StageFinished)
	var did []string
	for _, e := range w.log[before:] {
		did = append(did, fmt.Sprintf("%s %d", e.Name, e.Attempt))
	}
	assert.Equal(t, []string{
		"pipeline-retried 2", "host-deployed 2", "host-finished-successfully 2", "host-group-finished-successfully 2", "stage-finished-successfully 2",
	}, did)
}

// A log may hold what no version of this program writes: it is taken as it is.
func TestHistoryIsNeverRefused(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	strange := []deploylog.Event{
		{Target: "stage/ant-gateway/prod", Name: record.StageStarted, Deployment: "id-3"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`{"definition":{}}`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`[1`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`{"definition":{"stages":[{"name":"a","after":["z"]},{"name":"a"}],"batches":[{"from":"q","to":"a"}]}}`)},
		{Target: "host-group/ant-gateway/beta", Name: record.MembersChanged, Data: []byte(`{"hosts":5}`)},
		{Target: "host-group/nobody/knows", Name: record.MembersChanged},
		{Target: "host-group/nobody/knows", Name: record.MembersHeld},
		{Target: "host-group/ant-gateway/prod", Name: record.MembersHeld, Data: []byte(`{"hosts":{}}`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineRetried, Deployment: "nobody"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineCancelled, Deployment: "nobody"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineStarted, Deployment: "id-3"},
		{Target: "stage/ant-gateway/gone", Name: record.StageFinished, Deployment: "id-3"},
		{Target: "host/x", Name: deployed, Deployment: "id-3"},
		{Target: "resource/db", Name: "resource-started", Deployment: "elsewhere"},
	}
	for _, e := range strange {
		e.Attempt, e.Seq = 1, w.state.Head()+1
		w.state.Apply(e)
		problem := w.state.drift()
		assert.True(t, problem == "", "after %s of %s: %s", e.Name, e.Target, problem)
		w.state.Status()
		w.state.Explain(w.state.target)
	}
}

// The cases of the seed's section "The edges3() function": revision 2 is under
// way, or comes later, when host-tested is introduced after host-deployed.
func TestEdges3(t *testing.T) {
	artifacts := []string{"x86", "aarch64", "raspbian"}
	introduce := func(w *tale) {
		w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	}
	for _, c := range []struct {
		name   string
		at     deploylog.Target // where revision 2 is when the step comes in
		event  string
		later  bool // revision 2 is registered after the introduction
		onBeta bool // whether it is done there
		onProd bool
	}{
		{
			name: "011: a revision that is registered after the introduction does the step", later: true,
			onBeta: true, onProd: true,
		},
		{
			name: "011: so does one that has not come to the step's predecessor", at: beta, event: record.StageStarted,
			onBeta: true, onProd: true,
		},
		{
			name: "011: so does one that stands right before the step, and never saw what is behind it", at: onBeta, event: deployed,
			onBeta: true, onProd: true,
		},
		{
			name: "010: the step is not done where what is behind it is complete, nor first on a later host", at: onBeta, event: record.HostFinished,
		},
		{
			name: "011: nor deeper in the pipeline, once its stage was passed", at: beta, event: record.StageFinished,
		},
		{
			name: "011: nor right before it in production, when beta went without", at: onProd, event: deployed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newAntGateway(t, copied, deployed)
			w.release("1", artifacts...)
			w.idle()
			if c.later {
				introduce(w)
			}
			w.release("2", artifacts...)
			if !c.later {
				w.until("2", c.at, c.event)
				introduce(w)
			}
			w.release("3", artifacts...)
			w.idle()
			w.finished("2")
			w.finished("3")
			did := func(revision string) [2]bool {
				return [2]bool{w.happened(revision, onBeta, tested), w.happened(revision, onProd, tested)}
			}
			assert.Equal(t, [2]bool{c.onBeta, c.onProd}, did("2"), "host-tested of revision 2 in beta and prod")
			assert.Equal(t, [2]bool{true, true}, did("3"), "of the revision after it")
			assert.Equal(t, [2]bool{}, did("1"), "of one that had finished")
		})
	}
}

// A stage that deploys to an environment is work like that of a manifest, with an event of
// its own.
func TestAStageDeploysToAnEnvironment(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{{Name: "prod", After: []string{}, Environment: "gateway/prod"}}}, nil)
	w.release("42")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	assert.Equal(t, []any{"gateway/prod", record.StageDeployed, true}, []any{work.Environment, work.Event, work.Work()})
	w.idle()
	w.finished("42")
}

func TestTheFailureOfAnAttemptThatWasGivenUpCountsForNothing(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", onBeta, record.HostStarted)
	slow := slices.Collect(w.state.Decide(noon, Can{}))[0]
	w.do(Cancel{Revision: "1"})
	w.do(Retry{Revision: "1"})
	w.append(slow.Failed("killed", ""))
	w.idle()
	w.finished("1")
}

// Revision v1 comes into stage new when the host group that it is being deployed to is
// moved there, so no start of the stage is recorded, and fails in it. Then the stage
// becomes something without host groups: its failure is all that is left of it.
func TestARevisionIsInTheStageThatItFailedInWhateverBecomesOfIt(t *testing.T) {
	gate := definition.Stage{Name: "gate", Approval: &definition.Approval{}}
	fail := func(w *tale) { w.complete("v1", w.state.target, record.PipelineFailed) }
	for _, c := range []struct {
		name    string
		becomes definition.Definition
		then    func(*tale)
		mayDo   []string
	}{
		{
			name:    "the next revision does not enter it",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			mayDo:   []string{"v1 pipeline-failed pipeline"},
		},
		{
			name:    "a stage that is put before it is passed, and the next revision enters that",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new", "gate")}},
			mayDo:   []string{"v1 pipeline-failed pipeline", "v2 stage-started stage/gate"},
		},
		{
			name:    "a batch that ends with it is held",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new", "gate")}, Batches: []definition.Batch{{From: "gate", To: "new"}}},
			mayDo:   []string{"v1 pipeline-failed pipeline"},
		},
		{
			name:    "the next revision enters it when the deployment has failed and it is resumed",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			then:    func(w *tale) { fail(w); w.do(ResumePipeline{Stage: "new", ID: w.id()}) },
			mayDo:   []string{"v2 stage-started stage/gate", "v2 stage-started stage/new"},
		},
		{
			name:    "a retry begins with its start",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			then:    func(w *tale) { fail(w); w.do(Retry{Revision: "v1"}) },
			mayDo:   []string{"v1 stage-started stage/new"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{gate, deployTo("old", nil, "g", deployed)}}, map[string][]string{"g": {"h"}})
			host := record.HostTarget("p", "g", "h")
			w.fails[string(host)+" "+deployed] = "disk full"
			w.release("v1")
			w.until("v1", host, record.HostStarted)
			w.do(Define{ID: "moved", Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{gate, deployTo("new", nil, "g", deployed)}}})
			w.until("v1", stageOf("new"), record.StageFailed)
			w.release("v2")
			c.becomes.Name = "p"
			w.do(Define{ID: "becomes", Definition: &c.becomes})
			if c.then != nil {
				c.then(w)
			}
			w.mayDo(c.mayDo...)
		})
	}
}

func TestAHostThatLeftWhileItWasBusyGoesByANewStepToo(t *testing.T) {
	w := newTale(t, antGateway(deployed), map[string][]string{"ant-gateway/beta": {"antworker002", "other"}, "ant-gateway/prod": nil})
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	busy := slices.Collect(w.state.Decide(noon, Can{}))[0]
	w.do(Define{Definition: antGateway(tested, deployed), ID: "d"})
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": {"other"}}, ID: "m"})
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "other"), record.HostStarted)
	w.mayDo("v1 host-tested host/beta/other")
	events, err := busy.Completed(nil)
	require.NoError(t, err)
	w.append(events...)
	w.mayDo("v1 host-deployed host/beta/other")
}
