package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// gated is a pipeline with a stage of each kind.
func gated() *definition.Definition {
	d := antGateway(deployed)
	d.Stages = append(d.Stages[:2:2],
		definition.Stage{Name: "approve", After: []string{"beta"}, Approval: &definition.Approval{}},
		definition.Stage{Name: "announce", After: []string{"approve"}, Run: &definition.Run{Manifest: "announce.yaml", Retries: 2}},
		d.Stages[2])
	d.Stages[4].After = []string{"announce"}
	return d
}

func TestCommandsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.fails[string(record.StageTarget("ant-gateway", "announce"))+" "+record.StageApplied] = "no network"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86")
	w.idle()
	w.release("v3")
	w.do(Cancel{Revision: "v3", Reason: "a mistake"})
	for _, c := range []struct {
		name    string
		command Command
		code    refusal.Code
		want    string
		is      error
	}{
		{"a definition of another pipeline", Define{Definition: &definition.Definition{Name: "other"}}, OtherPipeline, "of pipeline other, not of ant-gateway", nil},
		{"a definition without stages", Define{Definition: &definition.Definition{Name: "ant-gateway"}}, NoStages, "has no stages", nil},
		{"members of no group", SetMembers{Members: map[string][]string{"ant-gateway/bet": nil}}, UnknownGroup, `unknown host group "ant-gateway/bet" of pipeline ant-gateway: did you mean ant-gateway/beta?`, ErrUnknown},
		{"a revision again", Release{Revision: "v1"}, AlreadyReleased, "revision v1 of pipeline ant-gateway is already released (event 4) and running: release another revision", ErrRepeated},
		{"a cancelled revision again", Release{Revision: "v3"}, AlreadyReleased, "and cancelled: retry it, or release another revision", ErrRepeated},
		{"an artifact of no revision", ReceiveArtifact{Revision: "v9", Kind: "x86"}, UnknownRevision, `unknown revision "v9" of pipeline ant-gateway: did you mean v1?`, ErrUnknown},
		{"an artifact of no kind", ReceiveArtifact{Revision: "v2", Kind: "riscv"}, UnknownArtifact, `unknown artifact kind "riscv" of pipeline ant-gateway: it has x86, aarch64, raspbian`, ErrUnknown},
		{"an artifact again", ReceiveArtifact{Revision: "v1", Kind: "x86"}, AlreadyReceived, "artifact x86 of revision v1 was already received (event 5): what others may have used does not change", ErrRepeated},
		{"an artifact of what was cancelled", ReceiveArtifact{Revision: "v3", Kind: "x86"}, NotRunning, "cannot receive an artifact: it is cancelled since event", nil},
		{"approval of no stage", Approve{Revision: "v1", Stage: "aprove"}, UnknownStage, `unknown stage "aprove" of pipeline ant-gateway: did you mean approve?`, ErrUnknown},
		{"approval of another kind of stage", Approve{Revision: "v1", Stage: "beta"}, NoApprovalNeeded, "stage beta does not wait for approval: it is a deploy stage", nil},
		{"approval before its time", Approve{Revision: "v2", Stage: "approve"}, NotReached, "does not wait for approval yet: revision v2 has not reached it (waits for stage beta: stage build: waiting for artifact aarch64)", nil},
		{"cancelling what is cancelled", Cancel{Revision: "v3"}, NotRunning, "cannot be cancelled: it is cancelled since event", nil},
		{"retrying what is running", Retry{Revision: "v1"}, NothingToRetry, "only what failed, was cancelled or was skipped can be retried", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *w
			w.T = t
			err := w.refused(c.command, c.code)
			w.says(err, c.want)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
		})
	}

	w.do(Approve{Revision: "v1", Stage: "approve", By: "ann"})
	w.says(w.refused(Approve{Revision: "v1", Stage: "approve"}, AlreadyApproved), "already approved at stage approve")
	w.idle()
	w.refused(ReceiveArtifact{Revision: "v1", Kind: "x86"}, NotRunning)
	w.fails = nil
	w.do(Retry{Revision: "v1"})
	w.idle()
	w.refused(Retry{Revision: "v1"}, NothingToRetry)
	w.refused(Cancel{Revision: "v1"}, NotRunning)
}

func TestBeforeItsDefinitionAPipelineIsUnknown(t *testing.T) {
	s := New("p")
	for _, c := range []Command{
		Release{Revision: "1"}, ReceiveArtifact{Revision: "1", Kind: "x86"}, Approve{Revision: "1", Stage: "a"},
		Cancel{Revision: "1"}, Retry{Revision: "1"}, SetMembers{Members: map[string][]string{"g": nil}},
	} {
		events, err := s.Propose(c, noon)
		assert.ErrorIs(t, err, ErrUnknown, "%#v gives %v, %v", c, events, err)
	}
	for range s.Decide(noon, Can{}) {
		t.Error("there is something to do")
	}
	assert.True(t, len(s.Status()) <= 0 && len(s.Explain("stage/p/a")) == 1, "there is something to tell")
}

func TestWhatIsSoAlreadyNeedsNoEvent(t *testing.T) {
	w := newAntGateway(t, deployed)
	for _, c := range []Command{Define{Definition: antGateway(deployed)}, SetMembers{Members: antHosts}} {
		events, err := w.state.Propose(c, noon)
		assert.True(t, err == nil && len(events) == 0, "%#v gives %v, %v", c, events, err)
	}
}

func TestADefinitionIsRecordedWithItsIntroductions(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1")
	w.release("v2")
	d := antGateway(deployed, tested)
	d.Stages[0].Build.Artifacts = append(d.Stages[0].Build.Artifacts, "riscv")
	w.do(Define{Definition: d, ID: "fresh", By: "ada"})
	e := w.log[len(w.log)-1]
	var data struct {
		Version    int                    `json:"version"`
		Definition *definition.Definition `json:"definition"`
		Introduced map[string]int         `json:"introduced"`
		Latest     string                 `json:"latest_revision"`
		By         string                 `json:"by"`
	}
	require.NoError(t, json.Unmarshal(e.Data, &data))
	want := map[string]int{"step/beta/host-tested": 2, "step/prod/host-tested": 2, "artifact/build/riscv": 2}
	if e.Deployment != "fresh" || data.Version != 2 || data.Latest != "v2" || data.By != "ada" || !reflect.DeepEqual(data.Introduced, want) || !reflect.DeepEqual(data.Definition, d) {
		t.Errorf("recorded %s", e.Data)
	}
}

func TestARevisionThatWouldOverwriteANewerOneIsNotRetried(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86", "aarch64", "raspbian")
	w.until("v2", beta, record.StageFinished)
	_, err := w.state.Propose(Retry{Revision: "v1"}, noon)
	assert.NoError(t, err, "v2 has not come to prod, and v1 cannot be retried")
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.until("v2", onProd, record.HostStarted)
	w.says(w.refused(Retry{Revision: "v1"}, NewerIsAhead), "cannot be retried: the newer revision v2 is at or past stage prod, and it would overwrite it")
	w.fails = nil
	w.idle()
	w.says(w.refused(Retry{Revision: "v1"}, TooLateToRetry), "cannot be retried any more")
}

func TestARevisionIsNotRetriedIntoABatchThatAnotherIsIn(t *testing.T) {
	d := antGateway(deployed)
	d.Batches = []definition.Batch{{From: "beta", To: "prod"}}
	w := newTale(t, d, antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onProd, record.HostStarted)
	w.do(Cancel{Revision: "v1"})
	w.release("v2", "x86", "aarch64", "raspbian")
	w.until("v2", onBeta, record.HostStarted)
	w.do(Cancel{Revision: "v2"})
	w.do(Retry{Revision: "v1"})
	w.says(w.refused(Retry{Revision: "v2"}, BatchIsHeld), "cannot be retried yet: revision v1 is in the batch of stages beta to prod; retry when it has passed prod")
}

func TestOnlyTheLastThatFailedAreKept(t *testing.T) {
	w, stops := newAntGateway(t, deployed), false
	w.state.definition.Stages[1].StopOnFailure = &stops
	w.fails[string(onBeta)+" "+deployed] = "disk full"
	for i := range keptEnded + 5 {
		w.release(fmt.Sprint("v", i), "x86", "aarch64", "raspbian")
		w.idle()
	}
	n := len(w.state.deployments)
	assert.True(t, n == keptEnded && len(w.state.byID) == n, "%d deployments are kept", n)
	w.refused(Retry{Revision: "v4"}, TooLateToRetry)
	assert.True(t, w.state.byID[w.state.revisions[5].Deployment] != nil, "v5 is not kept")
}
