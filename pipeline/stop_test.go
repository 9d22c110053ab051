package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// newBroken is the ant gateway, on whose host of prod revision v1 broke.
func newBroken(t *testing.T, d *definition.Definition) *tale {
	t.Helper()
	w := newTale(t, d, antHosts)
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	require.True(t, w.happened("v1", prod, record.StageFailed), "v1 did not fail")
	delete(w.fails, string(onProd)+" "+deployed)
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	return w
}

func (w *tale) finished(revision string) {
	assert.True(w, w.happened(revision, w.state.target, record.PipelineFinished),
		"%s has not finished: %q", revision, texts(w.state.Explain(w.state.target)))
}

func TestALaterRevisionDoesNotEnterAStageInWhichOneFailed(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	why := w.state.Explain(prod)
	last := why[len(why)-1]
	assert.Contains(t, last.Cause, "disk full")
	assert.Equal(t, fmt.Sprintf("kept out: revision v1 failed in stage prod (event %d)", w.seq("v1", prod, record.StageFailed)), last.Message())
	assert.Equal(t, []any{"v2", reason.AwaitsFix, record.StageFailed, prod}, []any{last.Revision, last.Code, last.ByEvent, last.By})
	assert.True(t, last.Blocking(), "status shows it")
	assert.Len(t, w.state.Stops(), 1)
}

func TestAFixGoesByThoseThatWait(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.do(Release{Revision: "v3", Fix: true, ID: w.id()})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: "v3", Kind: kind})
	}
	w.idle()
	w.finished("v3")
	assert.Equal(t, deployment.PassedOver, w.registered("v2").Status)
	assert.Contains(t, w.registered("v2").Cause, "revision v3, a fix, went by it into stage ")
	w.refused(Retry{Revision: "v2"}, TooLateToRetry)
	w.release("v4", "x86", "aarch64", "raspbian")
	assert.True(t, w.registered("v3").Fix)
	assert.False(t, w.registered("v4").Fix)
}

func TestWhatAFixGoesByIsNotLeftHalfDone(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("build"), run("a", "build"), run("b", "build"), run("c", "build")}}
	w := newTale(t, d, nil)
	b := stageOf("b")
	w.fails[string(b)+" "+record.StageApplied] = "disk full"
	w.release("1")
	w.idle()
	w.fails = nil
	w.release("2")
	w.until("2", stageOf("a"), record.StageStarted)
	w.do(PausePipeline{Stage: "c", ID: w.id()}) // which 2 has not entered
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	for _, event := range []string{record.StageStarted, record.StageApplied, record.StageFinished} {
		w.complete("3", stageOf("build"), event)
	}
	w.complete("3", b, record.StageStarted)
	w.do(ResumePipeline{Stage: "c", ID: w.id()})
	w.mayDo("2 stage-manifest-applied stage/a", "3 stage-manifest-applied stage/b", "3 stage-started stage/c")
	why := w.whyOf("2", stageOf("c"))
	assert.Equal(t, []any{reason.AwaitsSkip, "3", w.seq("3", b, record.StageStarted)}, []any{why.Code, why.Holder, why.Seq})
	w.idle()
	w.finished("3")
	assert.Equal(t, deployment.PassedOver, w.registered("2").Status)
}

func (w *tale) whyOf(revision string, t deploylog.Target) reason.Reason {
	all := w.state.Explain(t)
	i := slices.IndexFunc(all, func(r reason.Reason) bool { return r.Revision == revision })
	require.GreaterOrEqual(w, i, 0, "nothing keeps %s, but %q", revision, texts(all))
	return all[i]
}

func TestWhatCannotLeaveABatchIsSkippedForAFix(t *testing.T) {
	w := newTale(t, &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("c", "b"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}},
	}, nil)
	w.release("1")
	w.until("1", stageOf("d"), record.StageStarted)
	w.release("2")
	w.complete("2", stageOf("a"), record.StageStarted)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	w.idle()
	w.fails = nil
	w.do(PausePipeline{Stage: "a", ID: w.id()}) // the fix does not wait for 2 then
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	w.mayDo()
	w.do(ResumePipeline{Stage: "a", ID: w.id()})
	w.mayDo("2 pipeline-skipped pipeline")
	failed := w.seq("1", stageOf("d"), record.StageFailed)
	because := fmt.Sprintf("revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave: revision 1 failed in stage d (event %d)", failed)
	got := strings.Join(texts(w.state.Explain(w.state.target)), "\n")
	assert.Contains(t, got, because)
	assert.Contains(t, got, "3 stage/p/a stage-started: awaits-batch b c 2 stage/p/b")
	w.idle()
	w.finished("3")
	w.wantEnded("2", deployment.PassedOver, "", because)
}

// What it is at work in ends before it is skipped, and it begins nothing else.
func TestWhatCannotLeaveABatchIsNotLeftHalfDone(t *testing.T) {
	w := newTale(t, &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("x", "a"), run("y", "a"), run("c", "b", "x", "y"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}},
	}, nil)
	w.release("1")
	w.until("1", stageOf("d"), record.StageStarted)
	w.release("2")
	for _, event := range []string{record.StageStarted, record.StageApplied, record.StageFinished} {
		w.complete("2", stageOf("a"), event)
	}
	w.do(PausePipeline{Stage: "y", ID: w.id()})
	w.complete("2", stageOf("x"), record.StageStarted)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	w.until("1", w.state.target, record.PipelineFailed)
	w.fails = nil
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	w.do(ResumePipeline{Stage: "y", ID: w.id()})
	w.mayDo("2 stage-manifest-applied stage/x")
	why, failed := w.whyOf("2", stageOf("y")), w.seq("1", stageOf("d"), record.StageFailed)
	assert.Equal(t, reason.AwaitsSkip, why.Code)
	assert.Equal(t, fmt.Sprintf("kept out: revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave because "+
		"revision 1 failed in stage d, and it is skipped when what it has begun is done (event %d)", failed), why.Message())
	w.idle()
	w.finished("3")
	assert.Equal(t, deployment.PassedOver, w.registered("2").Status)
}

func TestWithAFixEverythingEnds(t *testing.T) {
	cases(t, 1500, func(t *rapid.T) {
		w := newWorld(t)
		d := &definition.Definition{Name: "p", Supersede: w.n(3, "supersede") == 0}
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			s := run(name)
			if i > 0 {
				s.After = []string{d.Stages[i-1].Name}
			}
			if goes := w.n(4, "stops") > 0; !goes {
				s.StopOnFailure = &goes
			}
			d.Stages = append(d.Stages, s)
		}
		for range w.n(4, "batches") {
			from := w.n(4, "from")
			d.Batches = append(d.Batches, definition.Batch{From: d.Stages[from].Name, To: d.Stages[from+1+w.n(4-from, "so far")].Name})
		}
		w.define(d)
		revision := 0
		release := func(fix bool) {
			revision++
			require.NoError(w, w.propose(Release{Revision: strconv.Itoa(revision), Fix: fix, ID: w.id()}))
		}
		release(false)
		for range w.n(60, "length") {
			steps := w.decide()
			switch what := w.n(12, "what"); {
			case what == 0 && revision < 6:
				release(w.n(4, "fix") == 0)
			case what == 1:
				_ = w.propose(Retry{Revision: w.anyRevision()})
			case what == 2:
				w.giveUp()
			case len(steps) > 0:
				w.end(steps[w.n(len(steps), "step")])
			}
		}
		release(true)
		for range 1000 {
			steps := w.decide()
			if len(steps) == 0 {
				break
			}
			w.complete(steps[w.n(len(steps), "step")])
		}
		for _, d := range w.state.deployments {
			if d.Status == deployment.Running {
				w.Fatalf("%s does not end: %q\n%s", d.Revision, texts(w.state.Explain(w.state.target)), w.story())
			}
		}
	})
}

func TestAPausedStageIsNotEnteredAndTheOthersGoOn(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann", Reason: "freeze"})
	w.release("v1", "x86", "aarch64", "raspbian")
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	w.explains(prod, "v1 stage-started: paused prod stage-paused stage/ant-gateway/prod freeze #4\n"+
		"v2 stage-started: paused prod stage-paused stage/ant-gateway/prod freeze #4")
	w.explains(beta, "")
	rows := w.state.Status()
	assert.True(t, rows[5].Stage == "prod" && rows[5].Progress == IsWaiting, "the rows are %+v", rows)
	w.do(ResumePipeline{Stage: "ant-gateway/prod", ID: w.id()})
	w.idle()
	w.finished("v2")
}

func TestExplainNamesWhoPausedWhatHasBegun(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	w.do(PausePipeline{ID: w.id(), By: "ann"})
	why := w.state.Explain(onBeta)
	require.Len(t, why, 2)
	assert.Equal(t, []any{"v1", beta, record.StageFinished}, []any{why[1].Revision, why[1].Target, why[1].Event})
	assert.Equal(t, "paused by ann (event 13)", why[1].Message())
	assert.Equal(t, "pipeline-resumed: deployster pipeline resume ant-gateway", why[1].Change())
}

func TestPausingTwiceAndResumingWhatIsNotPausedRecordNothing(t *testing.T) {
	w := newAntGateway(t, deployed)
	for _, stage := range []string{"", "beta"} {
		w.nothing(ResumePipeline{Stage: stage})
		w.do(PausePipeline{Stage: stage, ID: w.id(), By: "ann"})
		w.nothing(PausePipeline{Stage: stage, By: "bob"})
	}
	w.says(w.refused(PausePipeline{Stage: "bta"}, UnknownStage), "did you mean beta?")
	w.refused(ResumePipeline{Stage: "bta"}, UnknownStage)
	p := w.state.Pauses()
	require.Len(t, p, 2)
	assert.Equal(t, []any{"", "beta", "ann", int64(4)}, []any{p[0].Stage, p[1].Stage, p[0].By, p[0].Seq})
}

// nothing wants a command to be carried out by no event.
func (w *tale) nothing(c Command) {
	events := must.Get(w.state.Propose(c, noon))(w)
	assert.Empty(w, events, "%#v gives %v", c, events)
}

func TestAPauseSurvivesAChangeAndEndsWithThePipeline(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.do(PausePipeline{ID: w.id()})
	w.do(PausePipeline{Stage: "prod", ID: w.id()})
	w.do(Define{Definition: antGateway(deployed, tested), ID: w.id()})
	assert.Len(t, w.state.Pauses(), 2, "after a change these are paused")
	w.do(Define{Definition: &definition.Definition{Name: "ant-gateway", Stages: antGateway(deployed).Stages[:2]}, ID: w.id()})
	p := w.state.Pauses()
	assert.True(t, len(p) == 1 && p[0].Target == w.state.target, "without the stage these are paused: %+v", p)
	w.do(Delete{ID: w.id()})
	w.do(Define{Definition: antGateway(deployed), ID: w.id()})
	assert.Empty(t, w.state.Pauses(), "of a new pipeline these are paused")
}

// Former versions have no such events, and others may be of stages that there never were.
func TestAPauseOfSomethingElseChangesNothing(t *testing.T) {
	w := newAntGateway(t, deployed)
	for _, target := range []deploylog.Target{"stage/ant-gateway/nowhere", "host/ant-gateway/beta/antworker002"} {
		w.append(deploylog.Event{Deployment: w.id(), Target: target, Name: record.StagePaused, Attempt: 1, Data: json.RawMessage(`"garbage"`)})
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	assert.True(t, len(w.state.Pauses()) <= 0 && w.happened("v1", w.state.target, record.PipelineFinished),
		"paused are %v, and it went so:\n%s", w.state.Pauses(), strings.Join(w.story(), "\n"))
}

func TestADefinitionWithoutAStageEndsWhatHoldsIt(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.do(PausePipeline{ID: w.id()})
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann"})
	w.do(PausePipeline{Stage: "beta", ID: w.id()})
	d := antGateway(deployed)
	ends := w.state.Unheld(d)
	assert.True(t, len(ends) == 0, "of the same definition these end: %q", texts(ends))
	d.Stages[2].Name = "production"
	ends = w.state.Unheld(d)
	assert.True(t, len(ends) == 2 && ends[0].Actor == "ann" && ends[1].Code == reason.AwaitsFix && ends[1].Holder == "v1",
		"these end: %q", texts(ends))
}

// checkSkips finds an end of a host, host group or stage that would not tell which steps
// of the present definition it comes without, as the log alone shows.
func (w *world) checkSkips(steps []step.Step) string {
	for _, step := range steps {
		steps, in := w.ended(step)
		want := record.Skips{Nothing: len(in) > 0}
		for _, event := range steps {
			if slices.ContainsFunc(in, func(host string) bool { return !w.did(step.Deployment, host, event) }) {
				want.Steps = append(want.Steps, event)
			}
		}
		for _, e := range w.log {
			marker := e.Name == record.HostStarted || e.Name == record.HostFinished || record.IsFailure(e.Name)
			if e.Deployment == step.Deployment && slices.Contains(in, string(e.Target)) && !marker {
				want.Nothing = false
			}
		}
		want.Nothing = want.Nothing && len(want.Steps) > 0
		if !reflect.DeepEqual(step.Skipped, want) {
			return fmt.Sprintf("%s of %s would tell that it skipped %v, not %v", step.Event, step.Target, step.Skipped, want)
		}
	}
	return ""
}

func (w *world) ended(step step.Step) (steps, hosts []string) {
	for _, s := range w.oracle.definition.Stages {
		if s.Name != step.Stage || s.Deploy == nil {
			continue
		}
		steps = eventsOf(s.Deploy)
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				host := "host/p/" + g.Name + "/" + h
				if (step.Group == "" || step.Group == g.Name) && w.did(step.Deployment, host, record.HostFinished) {
					hosts = append(hosts, host)
				}
			}
		}
	}
	switch step.Event {
	case record.HostFinished:
		return steps, []string{string(step.Target)}
	case record.GroupFinished, record.StageFinished:
		return steps, hosts
	default:
		return nil, nil
	}
}

func (w *world) did(deployment, host, event string) bool {
	return slices.ContainsFunc(w.log, func(e deploylog.Event) bool {
		return e.Deployment == deployment && string(e.Target) == host && e.Name == event
	})
}

// An event that gets another name in mid-rollout is another step: the ends of what went
// without it tell, as checkSkips wants of all ends.
func TestARenamedStepIsKnownByItsManifest(t *testing.T) {
	const restarted, renamed = "host-restarted", "host-reloaded"
	before, d := antGateway(deployed, restarted), antGateway(deployed, renamed)
	for i := range d.Stages {
		if deploy := d.Stages[i].Deploy; deploy != nil {
			deploy.Steps[1].Manifest = restarted + ".yaml"
		}
	}
	assert.Equal(t, []deployment.Rename{
		{Stage: "beta", From: restarted, To: renamed, Manifest: restarted + ".yaml"}, {Stage: "prod", From: restarted, To: renamed, Manifest: restarted + ".yaml"},
	}, deployment.Renames(before, d))
}

func TestReferencesThatNoLogTakesAreRefusedAsMissingOnesAre(t *testing.T) {
	s := step.Step{Deployment: "d", Target: "stage/p/build", Event: record.StageApplied, Attempt: 1, Stage: "build", Manifest: "b.yaml", Artifacts: []string{"x86"}}
	for _, c := range []struct{ name, ref, want string }{
		{"one that is as long as may be", strings.Repeat("x", 4096), ""},
		{"an empty one", "", ""},
		{"one that is longer", strings.Repeat("x", 4097), "artifact x86 that manifest b.yaml of stage build made: its reference is 4097 bytes long, at most 4096 are allowed"},
		{"one with a line break", "a\nb", "its reference holds a control character at byte 1"},
		{"one that moves the cursor", "ab\x1b[2J", "its reference holds a control character at byte 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, err := s.Completed(map[string]string{"x86": c.ref})
			if c.want == "" && (err != nil || len(events) != 2) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || events != nil) {
				t.Errorf("it says %v, with %d events", err, len(events))
			}
		})
	}
}

func TestDecideLeavesOutWorkThatCannotBegin(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	idle := Can{Work: func(step.Step) bool { return false }}
	for steps := slices.Collect(w.state.Decide(noon, idle)); len(steps) > 0; steps = slices.Collect(w.state.Decide(noon, idle)) {
		for _, s := range steps {
			require.False(t, s.Work(), "%+v is yielded", s)
			events := must.Get(s.Completed(nil))(t)
			w.append(events...)
		}
	}
	assert.True(t, len(slices.Collect(w.state.Decide(noon, Can{}))) != 0, "nothing waits for work")
}

func TestTheNameOfAPipelineIsInAllOfItsTargets(t *testing.T) {
	for target, want := range map[deploylog.Target]string{
		"pipeline/p": "p", "stage/p/s": "p", "host-group/p/g": "p", "host/p/g/h": "p",
		"run/p": "", "resource/p": "", "action/p/create": "", "pipeline/": "", "stage": "",
	} {
		got, ok := record.NameOf(target)
		assert.True(t, got == want && ok == (want != ""), "%s is of %q, %v", target, got, ok)
	}
}
