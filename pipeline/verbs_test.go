package pipeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// last is the registration of a revision.
func (w *tale) registered(revision string) Registration {
	return w.state.revisions[w.state.byRevision[revision]]
}

func (w *tale) wantEnded(revision string, as deployment.Status, by, cause string) {
	w.Helper()
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
		events, err := w.state.Propose(Reject{Revision: "1", Stage: "approve", By: "ann"}, noon)
		require.NoError(t, err)
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
