package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
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
