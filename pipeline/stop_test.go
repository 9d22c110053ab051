package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
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
	if !w.happened("v1", prod, record.StageFailed) {
		t.Fatal("v1 did not fail")
	}
	delete(w.fails, string(onProd)+" "+deployed)
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	return w
}

func (w *tale) finished(revision string) {
	w.Helper()
	if !w.happened(revision, w.state.target, record.PipelineFinished) {
		w.Errorf("%s has not finished: %q", revision, texts(w.state.Explain(w.state.target)))
	}
}

func TestALaterRevisionDoesNotEnterAStageInWhichOneFailed(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	if !w.happened("v2", beta, record.StageFinished) || w.happened("v2", prod, record.StageStarted) {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
	why := w.state.Explain(prod)
	last := why[len(why)-1]
	if last.Revision != "v2" || last.Code != reason.AwaitsFix || last.Holder != "v1" || last.Seq != w.seq("v1", prod, record.StageFailed) || last.ByEvent != record.StageFailed || last.By != prod || !strings.Contains(last.Cause, "disk full") {
		t.Errorf("v2 does not enter it, because of %+v", last)
	}
	want := "deployster pipeline resume ant-gateway prod; a revision released as a fix (deployster pipeline release ant-gateway REVISION --fix); " +
		"or the success of revision v1, tried again (deployster pipeline retry ant-gateway v1)"
	if last.Change() != want {
		t.Errorf("it would be changed by %q", last.Change())
	}
	if !last.Blocking() || len(w.state.Stops()) != 1 {
		t.Error("status does not show it")
	}
}

func TestWhatLetsALaterRevisionFollowAFailure(t *testing.T) {
	off := false
	for name, then := range map[string]func(*tale){
		"a person resumes the stage":       func(w *tale) { w.do(ResumePipeline{Stage: "prod", ID: w.id(), By: "ann"}) },
		"the one that failed succeeds":     func(w *tale) { w.do(Retry{Revision: "v1"}) },
		"the stage is not to stop, anyway": func(w *tale) { w.state.definition.Stages[2].StopOnFailure = &off },
	} {
		t.Run(name, func(t *testing.T) {
			w := newBroken(t, antGateway(deployed))
			w.T = t
			then(w)
			w.idle()
			w.finished("v2")
			if v1, v2 := w.seq("v1", onProd, deployed), w.seq("v2", onProd, deployed); v1 > v2 {
				t.Error("v1 came after v2")
			}
		})
	}
	w := newBroken(t, antGateway(deployed))
	w.fails[string(onProd)+" "+deployed] = "disk full again"
	w.do(Retry{Revision: "v1"})
	w.idle()
	if w.happened("v2", prod, record.StageStarted) {
		t.Error("v2 followed although the retry of v1 failed")
	}
}

// A fix goes by those that wait, and these must not undo it.
func TestAFixGoesByThoseThatWait(t *testing.T) {
	for _, batches := range [][]definition.Batch{nil, {{From: "beta", To: "prod"}}} {
		d := antGateway(deployed)
		d.Batches = batches
		w := newBroken(t, d)
		if entered := w.happened("v2", beta, record.StageStarted); entered != (batches == nil) {
			t.Errorf("with the batches %v, v2 entered beta: %t", batches, entered)
		}
		w.do(Release{Revision: "v3", Fix: true, ID: w.id()})
		for _, kind := range []string{"x86", "aarch64", "raspbian"} {
			w.do(ReceiveArtifact{Revision: "v3", Kind: kind})
		}
		w.idle()
		w.finished("v3")
		if w.happened("v2", prod, record.StageStarted) || w.state.Registrations()[1].Status != deployment.PassedOver {
			t.Errorf("v2 is not passed over:\n%s", strings.Join(w.story(), "\n"))
		}
		i := slices.IndexFunc(w.log, func(e deploylog.Event) bool { return e.Name == record.PipelineSkipped })
		if got := record.Cause(w.log[i]); !strings.HasPrefix(got, "revision v3, a fix, went by it into stage ") {
			t.Errorf("v2 was cancelled because %q", got)
		}
		w.refused(Retry{Revision: "v2"}, TooLateToRetry)
		w.release("v4", "x86", "aarch64", "raspbian")
		w.idle()
		w.finished("v4")
		if !w.state.Registrations()[2].Fix || w.state.Registrations()[3].Fix {
			t.Errorf("the fixes are %+v", w.state.Registrations())
		}
	}
}

func TestAFixThatFailsStopsThoseAfterIt(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.fails[string(onProd)+" "+deployed] = "disk still full"
	w.do(Release{Revision: "v3", Fix: true, ID: w.id()})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: "v3", Kind: kind})
	}
	w.release("v4", "x86", "aarch64", "raspbian")
	w.idle()
	if stops := w.state.Stops(); len(stops) != 1 || stops[0].Holder != "v3" || w.happened("v4", prod, record.StageStarted) {
		t.Errorf("what stops others is %v", texts(stops))
	}
}

// A build that fails is of one revision; others are to be built.
func TestABuildThatFailsStopsNobody(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}, Manifest: "build.yaml"}}, run("test", "build"),
	}}, nil)
	build := record.StageTarget("p", "build")
	w.fails[string(build)+" "+record.StageApplied] = "syntax error"
	w.release("v1")
	w.idle()
	w.fails = map[string]string{string(stageOf("test")) + " " + record.StageApplied: "2 of 3 tests failed"}
	w.release("v2")
	w.idle()
	w.release("v3")
	w.idle()
	if !w.happened("v2", stageOf("test"), record.StageFailed) || w.happened("v3", stageOf("test"), record.StageStarted) || !w.happened("v3", build, record.StageFinished) {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
}

// A log of a former version, in which v2 followed although v1 had failed, folds as it was;
// what fails last in it keeps out who comes later.
func TestAFailureInTheLogOfAFormerVersion(t *testing.T) {
	off := false
	d := antGateway(deployed)
	d.Stages[2].StopOnFailure = &off
	w := newBroken(t, d)
	w.finished("v2")
	now := fold("ant-gateway", w.log)
	now.definition.Stages[2].StopOnFailure = nil
	if stops := now.Stops(); len(stops) > 0 {
		t.Errorf("v2 went through, and these stop: %q", texts(stops))
	}
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v3", "x86", "aarch64", "raspbian")
	w.idle()
	now = fold("ant-gateway", w.log)
	now.definition.Stages[2].StopOnFailure = nil
	if stops := now.Stops(); len(stops) != 1 || stops[0].Holder != "v3" {
		t.Errorf("v3 failed, and these stop: %q", texts(stops))
	}
}

// What a fix goes by finishes what it has begun, and enters nothing more.
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
	for !w.happened("3", b, record.StageStarted) {
		for _, step := range slices.Collect(w.state.Decide(noon, Can{})) {
			if step.Revision == "3" {
				w.complete("3", step.Target, step.Event)
				break
			}
		}
	}
	w.do(ResumePipeline{Stage: "c", ID: w.id()})
	w.mayDo("2 stage-manifest-applied stage/a", "3 stage-manifest-applied stage/b", "3 stage-started stage/c")
	why := w.state.Explain(stageOf("c"))
	i := slices.IndexFunc(why, func(r reason.Reason) bool { return r.Revision == "2" })
	if i < 0 || why[i].Code != reason.AwaitsSkip || why[i].Holder != "3" || why[i].Seq != w.seq("3", b, record.StageStarted) {
		t.Errorf("2 does not enter c, because of %q", texts(why))
	}
	w.idle()
	w.finished("3")
	if !w.happened("2", stageOf("a"), record.StageFinished) || w.happened("2", stageOf("c"), record.StageStarted) || w.state.Registrations()[1].Status != deployment.PassedOver {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
}

// Where the newest revision wins, it must not win over the fix for which it would wait.
func TestAFixIsNotSupersededByWhatWaitsForIt(t *testing.T) {
	d := antGateway(deployed)
	d.Supersede = true
	w := newBroken(t, d)
	kinds := []string{"x86", "aarch64", "raspbian"}
	w.do(Release{Revision: "v3", Fix: true, ID: w.id()})
	w.do(PausePipeline{Stage: "beta", ID: w.id()})
	for _, kind := range kinds {
		w.do(ReceiveArtifact{Revision: "v3", Kind: kind})
	}
	w.idle()
	w.release("v4", kinds...)
	w.idle()
	w.do(ResumePipeline{Stage: "beta", ID: w.id()})
	w.idle()
	w.finished("v3")
	w.finished("v4")

	// A newer fix wins over it, and when nothing stops any more, so does every newer one.
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v5", kinds...)
	w.idle()
	w.fails = nil
	w.do(PausePipeline{Stage: "beta", ID: w.id()})
	for _, revision := range []string{"v6", "v7"} {
		w.do(Release{Revision: revision, Fix: true, ID: w.id()})
		for _, kind := range kinds {
			w.do(ReceiveArtifact{Revision: revision, Kind: kind})
		}
	}
	w.idle()
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.release("v8", kinds...)
	w.idle()
	if r := w.state.Registrations(); r[5].SupersededBy != "v7" || r[6].SupersededBy != "v8" {
		t.Errorf("v6 and v7 are %+v", r[5:7])
	}
}

// Who could not go on to the end of a batch does not enter it, also where that is because of
// another batch that overlaps it.
func TestBatchesThatOverlapLeaveTheWayFreeForAFix(t *testing.T) {
	d := &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("c", "b"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}},
	}
	w := newTale(t, d, nil)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	w.release("1")
	w.idle()
	w.fails = nil
	w.release("2")
	w.mayDo()
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	w.idle()
	w.finished("3")
	if w.happened("2", stageOf("a"), record.StageStarted) || w.state.Registrations()[1].Status != deployment.PassedOver {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
}

// inTheWay is a pipeline with batches that overlap. Revision 1 failed in d after 2 had begun
// a, so that 2 is in the batch from a to c and is kept out of b.
func inTheWay(t *testing.T, supersede bool) *tale {
	t.Helper()
	w := newTale(t, &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("c", "b"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}}, Supersede: supersede,
	}, nil)
	w.release("1")
	w.until("1", stageOf("d"), record.StageStarted)
	w.release("2")
	w.complete("2", stageOf("a"), record.StageStarted)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	return w
}

// A revision that is in a batch which a failure does not let it leave is skipped for the fix
// that waits for this batch.
func TestWhatCannotLeaveABatchIsSkippedForAFix(t *testing.T) {
	for _, supersede := range []bool{false, true} {
		w := inTheWay(t, supersede)
		w.idle()
		w.fails = nil
		if !w.happened("1", stageOf("d"), record.StageFailed) || !w.happened("2", stageOf("a"), record.StageFinished) || w.happened("2", stageOf("b"), record.StageStarted) {
			t.Fatalf("it went so:\n%s", strings.Join(w.story(), "\n"))
		}
		w.do(PausePipeline{Stage: "a", ID: w.id()}) // the fix does not wait for 2 then
		w.do(Release{Revision: "3", Fix: true, ID: w.id()})
		w.mayDo()
		w.do(ResumePipeline{Stage: "a", ID: w.id()})
		w.mayDo("2 pipeline-skipped pipeline")
		because := fmt.Sprintf("revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave: revision 1 failed in stage d (event %d)", w.seq("1", stageOf("d"), record.StageFailed))
		got := strings.Join(texts(w.state.Explain(w.state.target)), "\n")
		if !strings.Contains(got, because) || !strings.Contains(got, "3 stage/p/a stage-started: awaits-batch a c 2 ") {
			t.Errorf("explain says\n%s\nand not %q", got, because)
		}
		w.release("4")
		w.idle()
		w.finished("3")
		w.finished("4")
		if r := w.state.Registrations()[1]; r.Status != deployment.PassedOver || r.Cause != because {
			t.Errorf("2 is %s, because %q", r.Status, r.Cause)
		}
	}
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
	all := w.state.Explain(stageOf("y"))
	why := all[slices.IndexFunc(all, func(r reason.Reason) bool { return r.Revision == "2" })]
	failed := w.seq("1", stageOf("d"), record.StageFailed)
	if want := fmt.Sprintf("kept out: revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave because revision 1 failed in stage d, and it is skipped when what it has begun is done (event %d)", failed); why.Code != reason.AwaitsSkip || why.Message() != want {
		t.Errorf("2 does not enter y: %s, and not %s", why.Message(), want)
	}
	w.idle()
	w.finished("3")
	if !w.happened("2", stageOf("x"), record.StageFinished) || w.happened("2", stageOf("y"), record.StageStarted) || w.state.Registrations()[1].Status != deployment.PassedOver {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
}

// When a fix has come and nothing breaks any more, everything ends, whatever happened before.
func TestWithAFixEverythingEnds(t *testing.T) {
	cases(t, 3000, func(t *rapid.T) {
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
			if err := w.propose(Release{Revision: strconv.Itoa(revision), Fix: fix, ID: w.id()}); err != nil {
				w.Fatal(err)
			}
		}
		w.oracle.now = noon
		decide := func() []step.Step {
			steps := slices.Collect(w.state.Decide(noon, Can{}))
			if got, want := names(steps), w.oracle.names(); !slices.Equal(got, want) {
				w.Fatalf("the machine picks %q,\nthe seed %q, after\n%s", got, want, w.story())
			}
			return steps
		}
		release(false)
		for range w.n(60, "length") {
			steps := decide()
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
			steps := decide()
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

// Who ends a freeze need not know that a revision failed there.
func TestResumingEndsThePauseBeforeItLetsOthersFollowAFailure(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann", Reason: "freeze"})
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.idle()
	if len(w.state.Pauses()) > 0 || len(w.state.Stops()) != 1 || w.happened("v2", prod, record.StageStarted) {
		t.Errorf("v2 entered with the pauses %v and the stops %q", w.state.Pauses(), texts(w.state.Stops()))
	}
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.idle()
	w.finished("v2")
}

// The success of the revision that failed would let it go on: while that is tried again, it is
// not skipped for a fix, whichever of the two came first.
func TestWhatMayLeaveABatchAfterARetryIsNotSkipped(t *testing.T) {
	for _, first := range []string{"the fix", "the retry"} {
		w := inTheWay(t, false)
		w.idle()
		fix, retry := Release{Revision: "3", Fix: true, ID: w.id()}, Retry{Revision: "1"}
		if first == "the fix" {
			w.do(fix)
			w.do(retry)
		} else {
			w.do(retry)
			w.do(fix)
		}
		w.mayDo("1 stage-manifest-applied stage/d")
		w.idle() // which fails once more
		if !w.happened("3", stageOf("a"), record.StageStarted) {
			t.Errorf("with %s first, the fix is still kept out", first)
		}
		if r := w.state.Registrations()[1]; r.Status != deployment.PassedOver {
			t.Errorf("with %s first, 2 is %s after the retry has failed", first, r.Status)
		}
	}
}
