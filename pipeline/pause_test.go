package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

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
	w.Helper()
	events, err := w.state.Propose(c, noon)
	assert.True(w, err == nil && len(events) == 0, "%#v gives %v, %v", c, events, err)
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
