package pipeline

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/refusal"
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
	if r := w.registered(revision); r.Status != as || r.EndedBy != by || r.Cause != cause {
		w.Errorf("revision %s is %s by %q: %q, want %s by %q: %q", revision, r.Status, r.EndedBy, r.Cause, as, by, cause)
	}
}

// gate is a pipeline whose second stage has a person in it.
func gate() *definition.Definition {
	return &definition.Definition{Name: "p", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}},
		{Name: "approve", After: []string{"build"}, Approval: &definition.Approval{}},
		run("announce", "approve"),
	}}
}

func TestARevisionThatWaitsIsSkippedAndLaterOnesProceed(t *testing.T) {
	w := newTale(t, gate(), nil)
	w.release("1", "x86")
	w.idle()
	w.release("2", "x86")
	w.idle()
	w.do(Skip{Revision: "1", By: "ann", Reason: "not wanted"})
	w.wantEnded("1", deployment.PassedOver, "ann", "not wanted")
	w.explains(stageOf("announce"), "1 pipeline-finished-successfully: skipped pipeline-skipped pipeline/p not wanted #11\n"+
		"2 stage-started: awaits-stage approve stage/p/approve")
	w.mayDo("2 stage-started stage/approve")
	w.idle()
	w.do(Skip{Revision: "2"}) // at the approval
	w.release("3")
	w.idle()
	w.do(Skip{Revision: "3"}) // while its artifact is missing
	w.release("4")
	w.do(Skip{Revision: "4"}) // before anything of it has begun
	w.mayDo()
	w.do(Retry{Revision: "4"})
	w.wantEnded("4", deployment.Running, "", "")
	w.mayDo("4 stage-started stage/build")
}

func TestOnlyWhatWaitsIsSkipped(t *testing.T) {
	w := newTale(t, gate(), nil)
	for _, revision := range []string{"finished", "failed", "cancelled", "skipped", "works"} {
		w.release(revision, "x86")
		w.until(revision, stageOf("approve"), record.StageStarted)
		switch revision {
		case "failed":
			w.do(Reject{Revision: revision, Stage: "approve"})
			continue
		case "cancelled":
			w.do(Cancel{Revision: revision})
			continue
		case "skipped":
			w.do(Skip{Revision: revision})
			continue
		}
		w.do(Approve{Revision: revision, Stage: "approve"})
		switch revision {
		case "finished":
			w.idle()
		default:
			w.until(revision, stageOf("announce"), record.StageStarted)
		}
	}
	for revision, c := range map[string]struct {
		code refusal.Code
		want string
	}{
		"finished":  {NotRunning, "cannot be skipped: it is finished since event"},
		"failed":    {NotRunning, "cannot be skipped: it is failed since event"},
		"cancelled": {NotRunning, "cannot be skipped: it is cancelled since event"},
		"skipped":   {NotRunning, "cannot be skipped: it is skipped since event"},
		"works":     {NotWaiting, "cannot be skipped: it is at work in stage announce (event "},
		"unknown":   {UnknownRevision, `unknown revision "unknown"`},
	} {
		w.says(w.refused(Skip{Revision: revision}, c.code), c.want)
	}
	w.until("works", stageOf("announce"), record.StageFinished)
	w.says(w.refused(Skip{Revision: "works"}, NotWaiting), "cannot be skipped: it has passed every stage")
	w.do(Delete{ID: "d", Cancel: true})
	w.refused(Skip{Revision: "works"}, UnknownPipeline)
	w.refused(Reject{Revision: "works", Stage: "approve"}, UnknownPipeline)
	w.refused(FailArtifact{Revision: "works", Kind: "x86"}, UnknownPipeline)
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
	w.mayDo()
	w.explains(stageOf("approve"), "1 stage-approved: awaits-approval approve\n"+
		"2 stage-started: awaits-batch approve approve 1 stage-started stage/p/approve #6")
	w.do(Reject{Revision: "1", Stage: "approve", By: "bob"})
	w.do(Retry{Revision: "1"})
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.refused(Reject{Revision: "1", Stage: "approve"}, AlreadyApproved)
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
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
	w.mayDo()
	w.do(FailArtifact{Revision: "1", Kind: "arm"})
	w.do(Retry{Revision: "1"})
	w.do(ReceiveArtifact{Revision: "1", Kind: "arm"})
	w.refused(FailArtifact{Revision: "1", Kind: "arm"}, AlreadyReceived)
	w.mayDo("1 stage-finished-successfully stage/build")
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
		if err != nil {
			t.Fatal(err)
		}
		w.append(events[:n]...)
		w.idle()
		if r := w.registered("1"); n == 2 && r.Status != deployment.Failed || n == 1 && r.Status != deployment.Running {
			t.Errorf("after %d events it is %s", n, r.Status)
		}
	}
}

func TestEventsOfVerbsEndWhatIsInProgress(t *testing.T) {
	for _, name := range []string{record.PipelineSkipped, record.PipelineCancelled, record.PipelineFailed} {
		u := record.InProgress{}
		u.Apply(deploylog.Event{Deployment: "d", Name: record.PipelineStarted})
		u.Apply(deploylog.Event{Deployment: "d", Name: name})
		if u["d"] {
			t.Errorf("after %s it is in progress", name)
		}
	}
	if all := strings.Join(record.EventNames(), " "); !strings.Contains(all, record.PipelineSkipped) || !strings.Contains(all, record.StageRejected) {
		t.Error("their names are not known")
	}
}

func TestWhereTheNewestWinsOlderOnesThatWaitArePassedOver(t *testing.T) {
	d := gate()
	d.Supersede = true
	w := newTale(t, d, nil)
	for _, revision := range []string{"1", "2", "3"} {
		w.release(revision, "x86")
	}
	w.mayDo("1 pipeline-superseded pipeline", "2 pipeline-superseded pipeline", "3 stage-started stage/build")
	w.explains(stageOf("build"), "1 pipeline-superseded: ready 3 superseded by revision 3\n2 pipeline-superseded: ready 3 superseded by revision 3\n3 stage-started: ready")
	w.idle()
	w.wantEnded("1", deployment.Superseded, "", "")
	if r := w.registered("2"); r.SupersededBy != "3" {
		t.Errorf("2 is %+v", r)
	}
	w.says(w.refused(Retry{Revision: "2"}, WasOvertaken), "it was superseded by 3")
	w.says(w.refused(Release{Revision: "2"}, AlreadyReleased), "and superseded: release another revision")
	w.says(w.refused(Cancel{Revision: "2"}, NotRunning), "it is superseded since event")

	// A change that makes it so says whom it passes over.
	takesTurns := newTale(t, gate(), nil)
	for _, revision := range []string{"1", "2"} {
		takesTurns.release(revision, "x86")
	}
	if got := takesTurns.changes(d, nil); !slices.Equal(got, []string{"1: pipeline-superseded of pipeline/p runs: ready 2 superseded by revision 2"}) {
		t.Errorf("it would change %q", got)
	}

	// One that has begun a stage is not passed over in it, nor one that no newer one has caught up with.
	w.release("4", "x86")
	w.idle()
	w.release("5")
	w.until("5", stageOf("build"), record.StageStarted)
	w.mayDo()
	w.do(ReceiveArtifact{Revision: "5", Kind: "x86"})
	w.idle()
	w.wantEnded("4", deployment.Superseded, "", "")
	w.wantEnded("3", deployment.Running, "", "")
	w.do(Reject{Revision: "3", Stage: "approve"})
	w.idle()
	w.do(Approve{Revision: "5", Stage: "approve"})
	w.idle()
	w.wantEnded("5", deployment.Finished, "", "")
	w.refused(Retry{Revision: "3"}, TooLateToRetry)
}

func TestArtifactsThatDoNotComeInTimeFailTheirStage(t *testing.T) {
	d := gate()
	d.Stages[0].Build.Timeout = duration.Duration(5 * time.Minute)
	w := newTale(t, d, nil)
	at := noon
	later := func(by time.Duration, want ...string) {
		t.Helper()
		at = at.Add(by)
		var got []string
		for s := range w.state.Decide(at, Can{}) {
			got = append(got, s.Revision+" "+s.Event+": "+s.Cause)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %s it may do %q, not %q", at.Format(time.TimeOnly), got, want)
		}
	}
	happens := func(event string, attempt int) {
		target := stageOf("build")
		if strings.HasPrefix(event, "pipeline-") {
			target = w.state.target
		}
		w.append(deploylog.Event{Deployment: "d", Target: target, Revision: "1", Name: event, Attempt: attempt, CreatedAt: at})
	}
	happens(record.PipelineStarted, 1)
	at = at.Add(time.Hour) // it waits for its turn without end
	happens(record.StageStarted, 1)
	if wake := w.state.Wake(); !wake.Equal(at.Add(5*time.Minute)) || !w.state.Deadline(at).Equal(wake) || !w.state.Rests(at).IsZero() {
		t.Errorf("it wakes at %s", wake)
	}
	w.says(errors.New(w.state.Explain(stageOf("build"))[0].Message()), "waiting for artifact x86, until 20")
	later(5*time.Minute - 1)
	late := "1 stage-failed: artifact x86 was not received within 5m"
	later(1, late)
	later(-time.Hour) // the clock is set back
	later(2*time.Hour, late)
	if !w.state.Deadline(at).IsZero() {
		t.Error("a time that has passed is waited for")
	}
	happens(record.StageFailed, 1)
	later(-time.Hour, "1 pipeline-failed: stage build failed: ") // it is recorded once, whatever the clock says
	happens(record.PipelineFailed, 1)
	at = at.Add(3 * time.Hour)
	happens(record.PipelineRetried, 2)
	later(4 * time.Minute) // a retry waits as long again
	later(time.Minute, late)
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	later(0, "1 stage-finished-successfully: ")
	if !w.state.Wake().IsZero() {
		t.Error("it wakes for what was received")
	}
}
