package pipeline

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// pauseOrResume lets a person pause or resume the pipeline or one of its stages.
func (w *world) pauseOrResume() {
	stage := ""
	if d := w.state.Definition(); w.n(3, "stage") > 0 {
		stage = d.Stages[w.n(len(d.Stages), "which")].Name
	}
	var c Command = PausePipeline{Stage: stage, ID: w.id(), By: "ann"}
	if w.n(3, "resume") > 0 {
		c = ResumePipeline{Stage: stage, ID: w.id(), By: "bob"}
	}
	rolling := slices.ContainsFunc(w.oracle.revisions, func(r *revision) bool { return !r.over && r.only == stage && stage != "" })
	var refused *refusal.Error
	switch err := w.propose(c); {
	case errors.As(err, &refused) && refused.Code == RollbackRunning && rolling:
	case err != nil:
		w.Fatal(err)
	}
}

func TestInAPausedPipelineNothingBeginsAndWhatRunsEnds(t *testing.T) {
	w := newFleet(t, "a", "b")
	a, b := record.HostTarget("ant-gateway", "beta", "a"), record.HostTarget("ant-gateway", "beta", "b")
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", betaGroup, record.GroupStarted)
	w.complete("v1", a, record.HostStarted)
	w.complete("v1", b, record.HostStarted)
	busy := slices.Collect(w.state.Decide(noon, Can{}))
	w.do(PausePipeline{ID: w.id(), By: "ann", Reason: "the network is being rebuilt"})
	paused := len(w.log)
	w.mayDo()
	events, err := busy[0].Completed(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	w.mayDo("v1 host-finished-successfully host/beta/a")
	w.append(busy[1].Failed("disk full", ""))
	w.idle()
	if !w.happened("v1", a, record.HostFinished) || !w.happened("v1", b, record.HostFailed) || !w.happened("v1", w.state.target, record.PipelineFailed) {
		t.Errorf("what ended is not recorded:\n%s", strings.Join(w.story(), "\n"))
	}
	w.release("v2", "x86", "aarch64", "raspbian")
	w.mayDo()
	w.do(Retry{Revision: "v1"})
	w.mayDo()
	w.do(ResumePipeline{ID: w.id(), By: "bob"})
	w.idle()
	if !w.happened("v2", w.state.target, record.PipelineFinished) {
		t.Errorf("after it was resumed: %q", texts(w.state.Explain(w.state.target)))
	}
	var p record.Payload
	if err := json.Unmarshal(w.log[paused-1].Data, &p); err != nil || p.By != "ann" || p.Reason != "the network is being rebuilt" || w.log[paused-1].Target != w.state.target {
		t.Errorf("recorded is %s of %s with %s", w.log[paused-1].Name, w.log[paused-1].Target, w.log[paused-1].Data)
	}
}

func TestAPausedStageIsNotEnteredAndTheOthersGoOn(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann", Reason: "freeze"})
	w.release("v1", "x86", "aarch64", "raspbian")
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	if !w.happened("v2", beta, record.StageFinished) || w.happened("v1", prod, record.StageStarted) {
		t.Errorf("it went so:\n%s", strings.Join(w.story(), "\n"))
	}
	w.explains(prod, "v1 stage-started: paused prod stage-paused stage/ant-gateway/prod freeze #4\n"+
		"v2 stage-started: paused prod stage-paused stage/ant-gateway/prod freeze #4")
	w.explains(beta, "")
	if rows := w.state.Status(); rows[5].Stage != "prod" || rows[5].Progress != IsWaiting {
		t.Errorf("the rows are %+v", rows)
	}
	w.do(ResumePipeline{Stage: "ant-gateway/prod", ID: w.id()})
	w.idle()
	if !w.happened("v2", w.state.target, record.PipelineFinished) {
		t.Errorf("after it was resumed: %q", texts(w.state.Explain(w.state.target)))
	}
}

func TestExplainNamesWhoPausedWhatHasBegun(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	w.do(PausePipeline{ID: w.id(), By: "ann"})
	n := len(w.log)
	why := w.state.Explain(onBeta)
	if len(why) != 2 || why[1].Actor != "ann" || why[1].Seq != int64(n) || why[1].Revision != "v1" || why[1].Target != beta || why[1].Event != record.StageFinished {
		t.Errorf("it gives %+v", why)
	}
	if got, want := why[1].Message(), "paused by ann (event 13)"; got != want {
		t.Errorf("it says %q, not %q", got, want)
	}
	if got, want := why[1].Change(), "pipeline-resumed: deployster pipeline resume ant-gateway"; got != want {
		t.Errorf("it says %q, not %q", got, want)
	}
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
	if p := w.state.Pauses(); len(p) != 2 || p[0].Stage != "" || p[1].Stage != "beta" || p[0].By != "ann" || p[0].Seq != 4 {
		t.Errorf("the pauses are %+v", p)
	}
	w.do(ResumePipeline{ID: w.id()})
	if p := w.state.Pauses(); len(p) != 1 || p[0].Stage != "beta" {
		t.Errorf("when the pipeline is resumed, these are paused: %+v", p)
	}
}

// nothing wants a command to be carried out by no event.
func (w *tale) nothing(c Command) {
	w.Helper()
	if events, err := w.state.Propose(c, noon); err != nil || len(events) > 0 {
		w.Errorf("%#v gives %v, %v", c, events, err)
	}
}

func TestAPauseSurvivesAChangeAndEndsWithThePipeline(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.do(PausePipeline{ID: w.id()})
	w.do(PausePipeline{Stage: "prod", ID: w.id()})
	w.do(Define{Definition: antGateway(deployed, tested), ID: w.id()})
	if p := w.state.Pauses(); len(p) != 2 {
		t.Errorf("after a change these are paused: %+v", p)
	}
	w.do(Define{Definition: &definition.Definition{Name: "ant-gateway", Stages: antGateway(deployed).Stages[:2]}, ID: w.id()})
	if p := w.state.Pauses(); len(p) != 1 || p[0].Target != w.state.target {
		t.Errorf("without the stage these are paused: %+v", p)
	}
	w.do(Delete{ID: w.id()})
	w.do(Define{Definition: antGateway(deployed), ID: w.id()})
	if p := w.state.Pauses(); len(p) > 0 {
		t.Errorf("of a new pipeline these are paused: %+v", p)
	}
}

// Former versions have no such events, and others may be of stages that there never were.
func TestAPauseOfSomethingElseChangesNothing(t *testing.T) {
	w := newAntGateway(t, deployed)
	for _, target := range []deploylog.Target{"stage/ant-gateway/nowhere", "host/ant-gateway/beta/antworker002"} {
		w.append(deploylog.Event{Deployment: w.id(), Target: target, Name: record.StagePaused, Attempt: 1, Data: json.RawMessage(`"garbage"`)})
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	if len(w.state.Pauses()) > 0 || !w.happened("v1", w.state.target, record.PipelineFinished) {
		t.Errorf("paused are %v, and it went so:\n%s", w.state.Pauses(), strings.Join(w.story(), "\n"))
	}
}

func TestADefinitionWithoutAStageEndsWhatHoldsIt(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.do(PausePipeline{ID: w.id()})
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann"})
	w.do(PausePipeline{Stage: "beta", ID: w.id()})
	d := antGateway(deployed)
	if ends := w.state.Unheld(d); len(ends) > 0 {
		t.Errorf("of the same definition these end: %q", texts(ends))
	}
	d.Stages[2].Name = "production"
	if ends := w.state.Unheld(d); len(ends) != 2 || ends[0].Actor != "ann" || ends[1].Code != reason.AwaitsFix || ends[1].Holder != "v1" {
		t.Errorf("these end: %q", texts(ends))
	}
}
