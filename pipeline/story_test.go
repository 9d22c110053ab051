package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// What may be done, one line each: REVISION EVENT TARGET, without the pipeline.
func (w *tale) doable() (lines []string) {
	for s := range w.state.Decide(noon, Can{}) {
		lines = append(lines, s.Revision+" "+s.Event+" "+strings.Replace(string(s.Target), "/"+w.state.name, "", 1))
	}
	return lines
}

func (w *tale) mayDo(want ...string) {
	got := w.doable()
	assert.True(w, slices.Equal(got, want), "it may do\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func (w *tale) complete(revision string, t deploylog.Target, event string) {
	w.Helper()
	for s := range w.state.Decide(noon, Can{}) {
		if s.Revision == revision && s.Target == t && s.Event == event {
			events := must.Get(s.Completed(nil))(w)
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
	introduce := func(w *tale) { w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()}) }
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
		{name: "011: nor right before it in production, when beta went without", at: onProd, event: deployed},
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

// A stage that deploys to an environment is work like that of a manifest, with an event of its own.
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

// Revision v1 comes into stage new when the host group that it is being deployed to is moved there, so no start of the stage
// is recorded, and fails in it. Then the stage becomes something without host groups: its failure is all that is left of it.
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
	events := must.Get(busy.Completed(nil))(t)
	w.append(events...)
	w.mayDo("v1 host-deployed host/beta/other")
}

// transcript is the log of the seed's section "Introducing new workflow steps",
// where afterDeployed stands for what was introduced.
func transcript(afterDeployed string) string {
	stage := func(name, host string) string {
		return `
  stage-started ant-gateway/` + name + `
    host-group-started ant-gateway/` + name + `
      host-started ` + host + `
        host-artifact-replicated
        host-deployed` + afterDeployed + `
      host-finished-successfully ` + host + `
    host-group-finished-successfully ant-gateway/` + name + `
  stage-finished-successfully ant-gateway/` + name
	}
	return `pipeline-started ant-gateway
  stage-started ant-gateway/build
    build-stage-received-x86-artifact
    build-stage-received-aarch64-artifact
    build-stage-received-raspbian-artifact
  stage-finished-successfully ant-gateway/build` + stage("beta", "antworker002") + stage("prod", "antworker001") + `
pipeline-finished-successfully ant-gateway
`
}

func TestTheLogOfTheExampleIsItsTranscript(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	run := func(revision string) {
		w.release(revision)
		w.idle()
		for _, kind := range []string{"x86", "aarch64", "raspbian"} {
			w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: "ref"})
		}
		w.idle()
	}
	run("version-123")
	assert.Equal(t, transcript(""), w.transcript("version-123"), "the log is")
	w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	run("version-124")
	assert.Equal(t, transcript("\n        host-tested"), w.transcript("version-124"), "with the step introduced the log is")
}

func TestABuildByManifestRecordsWhatItMadeTogether(t *testing.T) {
	d := antGateway(copied)
	d.Stages[0].Build.Manifest = "build.yaml"
	w := newTale(t, d, antHosts)
	w.release("1")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	assert.ErrorContains(t, must.Fail(work.Completed(map[string]string{"x86": "x"})), "made no artifact aarch64, raspbian")
	w.idle()
	want := `pipeline-started ant-gateway
  stage-started ant-gateway/build
    build-stage-received-x86-artifact
    build-stage-received-aarch64-artifact
    build-stage-received-raspbian-artifact
    stage-manifest-applied
  stage-finished-successfully ant-gateway/build
`
	got := w.transcript("1")
	assert.True(t, strings.HasPrefix(got, want), "the log begins\n%s, not\n%s", got, want)
}

func TestABuildOfAGroupRecordsTheArtifactsOfItsPackages(t *testing.T) {
	d := antGateway(copied)
	d.Stages[0].Build = &definition.Build{Group: "packages.yaml", Packages: []string{"core/gcc"}, Timeout: definition.Duration(time.Hour)}
	w := newTale(t, d, antHosts)
	w.release("1")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	require.True(t, work.Packages == "packages.yaml" && work.Manifest == "" && work.Timeout == time.Hour &&
		slices.Equal(work.Artifacts, []string{"core/gcc"}), "the work is %+v", work)
	for want, made := range map[string]map[string]string{
		"artifact of package core/gcc": {"core/gcc": "a\nb"},
		"more than one event can name": manyArtifacts(),
	} {
		assert.ErrorContains(t, must.Fail(work.Completed(made)), want)
	}
	events := must.Get(work.Completed(map[string]string{"core/gcc": "sha256:1"}))(t)
	w.append(events...)
	got := w.state.Artifacts(work.Deployment)
	assert.True(t, got["core/gcc"] == "sha256:1", "its artifacts are %v", got)
	w.idle()
	want := `pipeline-started ant-gateway
  stage-started ant-gateway/build
    stage-group-built
  stage-finished-successfully ant-gateway/build
`
	if got := w.transcript("1"); !strings.HasPrefix(got, want) {
		t.Errorf("the log begins\n%s, not\n%s", got, want)
	}
}

func manyArtifacts() map[string]string {
	made := map[string]string{}
	for i := range 20_000 {
		made[fmt.Sprintf("package-%d", i)] = strings.Repeat("x", 70)
	}
	return made
}

func TestArtifactsAreKnownByKindAsLongAsTheirDeploymentIs(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("1", "x86", "aarch64")
	id := w.state.Registrations()[0].Deployment
	got := w.state.Artifacts(id)
	assert.True(t, len(got) == 2 && got["x86"] == "x86-1", "got %v", got)
	assert.Nil(t, w.state.Artifacts("another"), "another has")
}

func TestOfALongErrorItsEndIsKept(t *testing.T) {
	w := newAntGateway(t, deployed)
	e := step.Step{Event: deployed}.Failed(strings.Repeat("ä", deploylog.MaxCause)+"xthe end", "")
	w.append(deploylog.Event{Deployment: "d", Target: onBeta, Name: e.Name, Attempt: 1, Data: e.Data})
	cause := record.Read(e.Data).Error
	assert.True(t, len(cause) <= deploylog.MaxCause+len("…") && strings.HasPrefix(cause, "…ä") && strings.HasSuffix(cause, "the end"),
		"kept %d bytes, %.20q", len(cause), cause)
}

func TestAGroupWhoseHostsNobodyToldIsNotEmpty(t *testing.T) {
	w := newTale(t, antGateway(copied), map[string][]string{"ant-gateway/prod": {"antworker001"}})
	w.release("1", "x86", "aarch64", "raspbian")
	w.idle()
	want := "1 host-group/ant-gateway/beta host-group-finished-successfully: awaits-members ant-gateway/beta"
	got := texts(w.state.Explain(record.GroupTarget("ant-gateway", "beta")))
	assert.True(t, len(got) == 1 && got[0] == want, "explained with %q", got)
	w.do(SetMembers{Members: antHosts, ID: w.id()})
	w.idle()
	assert.True(t, w.happened("1", onBeta, copied) && w.happened("1", w.state.target, record.PipelineFinished),
		"it did not go on when they were told")
}

func (w *tale) registered(revision string) Registration {
	return w.state.revisions[w.state.byRevision[revision]]
}

func (w *tale) wantEnded(revision string, as deployment.Status, by, cause string) {
	r := w.registered(revision)
	assert.True(w, r.Status == as && r.EndedBy == by && r.Cause == cause,
		"revision %s is %s by %q: %q, want %s by %q: %q", revision, r.Status, r.EndedBy, r.Cause, as, by, cause)
}

// gate is a pipeline whose second stage has a person in it.
func gate() *definition.Definition {
	return &definition.Definition{Name: "p", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}},
		{Name: "approve", After: []string{"build"}, Approval: &definition.Approval{}},
		run("announce", "approve"),
	}}
}

func TestARevisionThatWaitsIsSkipped(t *testing.T) {
	w := newTale(t, gate(), nil)
	w.release("1", "x86")
	w.idle()
	w.release("2", "x86")
	w.idle()
	w.do(Skip{Revision: "1", By: "ann", Reason: "not wanted"})
	w.wantEnded("1", deployment.PassedOver, "ann", "not wanted")
	w.explains(stageOf("announce"), "1 pipeline-finished-successfully: skipped pipeline-skipped pipeline/p not wanted #11\n"+
		"2 stage-started: awaits-stage approve stage/p/approve")
	w.do(Skip{Revision: "2"}) // before it has come to the approval
	w.do(Retry{Revision: "2"})
	w.wantEnded("2", deployment.Running, "", "")
}

func TestOnlyWhatWaitsIsSkipped(t *testing.T) {
	w := newTale(t, gate(), nil)
	for revision, end := range map[string]Command{
		"failed": Reject{Revision: "failed", Stage: "approve"}, "cancelled": Cancel{Revision: "cancelled"}, "skipped": Skip{Revision: "skipped"},
	} {
		w.release(revision, "x86")
		w.until(revision, stageOf("approve"), record.StageStarted)
		w.do(end)
		w.says(w.refused(Skip{Revision: revision}, NotRunning), "cannot be skipped: it is "+revision+" since event")
	}
	w.release("works", "x86")
	w.until("works", stageOf("approve"), record.StageStarted)
	w.do(Approve{Revision: "works", Stage: "approve"})
	w.until("works", stageOf("announce"), record.StageStarted)
	w.says(w.refused(Skip{Revision: "works"}, NotWaiting), "cannot be skipped: it is at work in stage announce (event ")
	w.until("works", stageOf("announce"), record.StageFinished)
	w.says(w.refused(Skip{Revision: "works"}, NotWaiting), "cannot be skipped: it has passed every stage")
	w.idle()
	w.says(w.refused(Skip{Revision: "works"}, NotRunning), "cannot be skipped: it is finished since event")
	w.refused(Skip{Revision: "unknown"}, UnknownRevision)
	w.do(Delete{ID: "d", Cancel: true})
	for _, c := range []Command{Skip{Revision: "works"}, Reject{Revision: "works", Stage: "approve"}, FailArtifact{Revision: "works", Kind: "x86"}} {
		w.refused(c, UnknownPipeline)
	}
}

func TestAPersonRejectsARevisionAndItsRetryWaitsForApprovalAgain(t *testing.T) {
	w := newTale(t, gate(), nil)
	w.release("1", "x86")
	w.says(w.refused(Reject{Revision: "1", Stage: "approve"}, NotReached), "has not reached it")
	w.idle()
	w.release("2", "x86")
	w.idle()
	w.says(w.refused(Reject{Revision: "1", Stage: "aprove"}, UnknownStage), "did you mean approve?")
	w.refused(Reject{Revision: "1", Stage: "build"}, NoApprovalNeeded)
	w.do(Reject{Revision: "1", Stage: "approve", By: "ann", Reason: "too risky"})
	w.wantEnded("1", deployment.Failed, "", "stage approve failed: rejected by ann: too risky")
	w.explains(stageOf("approve"), "1 pipeline-finished-successfully: failed pipeline-failed pipeline/p stage approve failed: rejected by ann: too risky #13\n"+
		"1 stage-finished-successfully: failed stage-failed stage/p/approve stage failed: rejected by ann: too risky #12\n"+
		"2 stage-started: ready")
	w.refused(Reject{Revision: "1", Stage: "approve"}, NotRunning)
	w.refused(Approve{Revision: "1", Stage: "approve"}, NotRunning)
	w.do(Retry{Revision: "1"})
	w.explains(stageOf("approve"), "1 stage-approved: awaits-approval approve\n"+
		"2 stage-started: awaits-batch approve approve 1 stage-started stage/p/approve #6")
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.refused(Reject{Revision: "1", Stage: "approve"}, AlreadyApproved)
}

func TestAnArtifactThatIsNotBuiltFailsItsStageAtOnce(t *testing.T) {
	d := gate()
	d.Stages[0].Build.Artifacts = []string{"x86", "arm"}
	d.Stages = append(d.Stages, definition.Stage{Name: "image", After: []string{"announce"}, Build: &definition.Build{Artifacts: []string{"oci"}, Manifest: "image.yaml"}})
	w := newTale(t, d, nil)
	w.release("1", "x86")
	w.idle()
	w.release("2") // has not come to the stage
	w.refused(FailArtifact{Revision: "1", Kind: "x86"}, AlreadyReceived)
	w.says(w.refused(FailArtifact{Revision: "1", Kind: "am"}, UnknownArtifact), "did you mean arm?")
	w.refused(FailArtifact{Revision: "1", Kind: "oci"}, MadeByManifest)
	w.do(FailArtifact{Revision: "2", Kind: "x86", By: "ci", Reason: "exit code 2"})
	w.wantEnded("2", deployment.Failed, "", "stage build failed: artifact x86 was not built, as ci reports: exit code 2")
	w.explains(stageOf("build"), "1 build-stage-received-arm-artifact: awaits-artifact arm\n"+
		"2 pipeline-finished-successfully: failed pipeline-failed pipeline/p stage build failed: artifact x86 was not built, as ci reports: exit code 2 #7\n"+
		"2 stage-finished-successfully: failed build-stage-received-x86-artifact-failed stage/p/build build-stage-received-x86-artifact failed: artifact x86 was not built, as ci reports: exit code 2 #6")
	w.do(FailArtifact{Revision: "1", Kind: "arm"})
	w.refused(FailArtifact{Revision: "1", Kind: "arm"}, NotRunning)
	w.refused(ReceiveArtifact{Revision: "1", Kind: "arm"}, NotRunning)
	w.do(Retry{Revision: "1"})
	w.do(ReceiveArtifact{Revision: "1", Kind: "arm"})
	w.refused(FailArtifact{Revision: "1", Kind: "arm"}, AlreadyReceived)
	d = gate()
	d.Stages[0].Build.Artifacts = []string{"x86", "arm", "late"}
	w.do(Define{Definition: d, ID: "later"})
	w.says(w.refused(FailArtifact{Revision: "1", Kind: "late"}, Passed), "does not wait for artifact late")
}

// A store appends the events of a command together, but a log may hold a part of them.
func TestHalfARejectionEndsAsAWholeOne(t *testing.T) {
	for n := 1; n <= 2; n++ {
		w := newTale(t, gate(), nil)
		w.release("1", "x86")
		w.idle()
		events := must.Get(w.state.Propose(Reject{Revision: "1", Stage: "approve", By: "ann"}, noon))(t)
		w.append(events[:n]...)
		w.idle()
		assert.Equal(t, map[int]deployment.Status{1: deployment.Running, 2: deployment.Failed}[n], w.registered("1").Status)
	}
}

func TestEventsOfVerbsEndWhatIsInProgress(t *testing.T) {
	for _, name := range []string{record.PipelineSkipped, record.PipelineCancelled, record.PipelineFailed} {
		u := record.InProgress{}
		u.Apply(deploylog.Event{Deployment: "d", Name: record.PipelineStarted})
		u.Apply(deploylog.Event{Deployment: "d", Name: name})
		assert.False(t, u["d"], "after %s it is in progress", name)
	}
	all := strings.Join(record.EventNames(), " ")
	assert.True(t, strings.Contains(all, record.PipelineSkipped) && strings.Contains(all, record.StageRejected),
		"their names are not known")
}

func TestWhereTheNewestWinsOlderOnesThatWaitArePassedOver(t *testing.T) {
	d := gate()
	d.Supersede = true
	w := newTale(t, d, nil)
	for _, revision := range []string{"1", "2", "3"} {
		w.release(revision, "x86")
	}
	w.explains(stageOf("build"), "1 pipeline-superseded: ready 3 superseded by revision 3\n2 pipeline-superseded: ready 3 superseded by revision 3\n3 stage-started: ready")
	w.idle()
	w.wantEnded("1", deployment.Superseded, "", "")
	assert.Equal(t, "3", w.registered("2").SupersededBy)
	w.says(w.refused(Retry{Revision: "2"}, WasOvertaken), "it was superseded by 3")
	w.says(w.refused(Release{Revision: "2"}, AlreadyReleased), "and superseded: release another revision")
	w.says(w.refused(Cancel{Revision: "2"}, NotRunning), "it is superseded since event")

	// A change that makes it so says whom it passes over.
	takesTurns := newTale(t, gate(), nil)
	for _, revision := range []string{"1", "2"} {
		takesTurns.release(revision, "x86")
	}
	assert.Equal(t, []string{"1: pipeline-superseded of pipeline/p runs: ready 2 superseded by revision 2"}, takesTurns.changes(d, nil))
}

func TestArtifactsThatDoNotComeInTimeFailTheirStage(t *testing.T) {
	d := gate()
	d.Stages[0].Build.Timeout = duration.Duration(5 * time.Minute)
	w := newTale(t, d, nil)
	at := noon.Add(time.Hour) // it waits for its turn without end
	w.append(deploylog.Event{Deployment: "d", Target: w.state.target, Revision: "1", Name: record.PipelineStarted, Attempt: 1, CreatedAt: noon},
		deploylog.Event{Deployment: "d", Target: stageOf("build"), Revision: "1", Name: record.StageStarted, Attempt: 1, CreatedAt: at})
	wake := w.state.Wake()
	assert.Equal(t, at.Add(5*time.Minute), wake)
	assert.Equal(t, wake, w.state.Deadline(at))
	assert.True(t, w.state.Rests(at).IsZero())
	assert.Contains(t, w.state.Explain(stageOf("build"))[0].Message(), "waiting for artifact x86, until 20")
	assert.Empty(t, slices.Collect(w.state.Decide(wake.Add(-1), Can{})))
	late := slices.Collect(w.state.Decide(wake, Can{}))
	require.Len(t, late, 1)
	assert.Equal(t, "artifact x86 was not received within 5m", late[0].Cause)
	assert.True(t, w.state.Deadline(wake).IsZero(), "a time that has passed is waited for")
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	assert.True(t, w.state.Wake().IsZero(), "it wakes for what was received")
}
