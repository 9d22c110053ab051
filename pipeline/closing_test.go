package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func closing(name string, when definition.When, after ...string) definition.Stage {
	stage := run(name, after...)
	stage.When = when
	return stage
}

// closed is a pipeline with a clean-up after the stages a, approve and b, and a ticket for failures.
func closed() *definition.Definition {
	return &definition.Definition{Name: "p", Stages: []definition.Stage{
		run("a"), {Name: "approve", After: []string{"a"}, Approval: &definition.Approval{}}, run("b", "approve"),
		closing("ticket", definition.WhenFailed, "b"), closing("clean", definition.Always, "ticket"),
	}, Batches: []definition.Batch{{From: "a", To: "b"}}}
}

// newClosed has revision 1 at work in stage b, or waiting for approval.
func newClosed(t *testing.T, approved bool) *tale {
	t.Helper()
	w := newTale(t, closed(), nil)
	w.release("1")
	w.until("1", stageOf("approve"), record.StageStarted)
	if approved {
		w.do(Approve{Revision: "1", Stage: "approve", By: "ann"})
		w.until("1", stageOf("b"), record.StageStarted)
	}
	return w
}

func (w *tale) did(revision, stage string) bool {
	return w.happened(revision, stageOf(stage), record.StageFinished)
}

func (w *tale) outcome(stage string) (o step.Outcome) {
	for s := range w.state.Decide(noon, Can{}) {
		if s.Stage == stage && s.Outcome != nil {
			o = *s.Outcome
		}
	}
	return o
}

func TestAfterSuccessOnlyWhatAlwaysRunsIsDone(t *testing.T) {
	w := newClosed(t, true)
	w.until("1", stageOf("clean"), record.StageStarted)
	assert.Equal(t, step.Outcome{Status: "succeeded"}, w.outcome("clean"))
	w.release("2")
	w.mayDo("1 stage-manifest-applied stage/clean", "2 stage-started stage/a")
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	assert.True(t, w.did("1", "clean"))
	assert.False(t, w.happened("1", stageOf("ticket"), record.StageStarted))
}

func TestAFailedRevisionClosesBeforeItEnds(t *testing.T) {
	w := newClosed(t, true)
	w.fails["stage/p/b "+record.StageApplied] = "disk full"
	w.release("2")
	w.until("1", stageOf("b"), record.StageFailed)
	clear(w.fails)
	w.mayDo("1 stage-started stage/ticket")
	assert.Contains(t, w.sentence("2", stageOf("a")), "kept out: revision 1 failed in stage b")
	w.until("1", stageOf("ticket"), record.StageStarted)
	assert.Equal(t, step.Outcome{Status: "failed", Stage: "b", Cause: "stage b failed: disk full"}, w.outcome("ticket"))
	w.explains(stageOf("clean"), "1 stage-started: awaits-stage ticket stage/p/ticket\n2 stage-started: awaits-stage b stage/p/b")
	w.until("1", w.state.target, record.PipelineFailed)
	assert.True(t, w.did("1", "ticket") && w.did("1", "clean"))
	w.wantEnded("1", deployment.Failed, "", "stage b failed: disk full")

	// What is tried again closes again, and does not count the failure that is over.
	w.do(Cancel{Revision: "2"})
	w.do(Retry{Revision: "1"})
	n := len(w.log)
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	var began []deploylog.Target
	for _, e := range w.log[n:] {
		if e.Name == record.StageStarted {
			began = append(began, e.Target)
		}
	}
	assert.Equal(t, []deploylog.Target{stageOf("clean")}, began, "of stage b only the manifest failed")
}

func TestACanceledRevisionClosesFirstUnlessItIsCanceledAgain(t *testing.T) {
	w := newClosed(t, false)
	w.do(Cancel{Revision: "1", By: "ann", Reason: "drops sessions"})
	w.wantEnded("1", deployment.Running, "", "")
	w.until("1", stageOf("clean"), record.StageStarted)
	assert.Equal(t, step.Outcome{Status: "cancelled", Cause: "drops sessions"}, w.outcome("clean"))
	w.idle()
	w.wantEnded("1", deployment.Cancelled, "ann", "drops sessions")
	assert.True(t, w.did("1", "clean"))
	assert.False(t, w.happened("1", stageOf("ticket"), record.StageStarted), "nothing failed")

	w.do(Retry{Revision: "1"})
	w.do(Cancel{Revision: "1", By: "ann"})
	w.do(Cancel{Revision: "1", By: "bob", Reason: "at once"})
	w.wantEnded("1", deployment.Cancelled, "bob", "at once")
	w.mayDo()
}

func TestARevisionThatIsToEndIsNeitherApprovedNorRejected(t *testing.T) {
	w := newClosed(t, false)
	w.do(Cancel{Revision: "1", By: "ann", Reason: "drops sessions"})
	const remedy = "it is to end as cancelled, once its stages for that have run; retry it then (deployster pipeline retry p 1)"
	w.says(w.refused(Reject{Revision: "1", Stage: "approve", By: "bob"}, NotRunning), remedy)
	w.says(w.refused(Approve{Revision: "1", Stage: "approve", By: "bob"}, NotRunning), remedy)
	w.idle()
	w.wantEnded("1", deployment.Cancelled, "ann", "drops sessions")
}

func TestARevisionThatFailedClosesUnlessItIsCanceledTwice(t *testing.T) {
	failed := func() *tale {
		w := newClosed(t, true)
		w.fails["stage/p/b "+record.StageApplied] = "disk full"
		w.until("1", stageOf("b"), record.StageFailed)
		clear(w.fails)
		w.do(Cancel{Revision: "1", By: "ann", Reason: "it is known"})
		w.wantEnded("1", deployment.Running, "", "")
		w.mayDo("1 stage-started stage/ticket")
		return w
	}
	w := failed()
	w.until("1", stageOf("ticket"), record.StageStarted)
	assert.Equal(t, step.Outcome{Status: "cancelled", Stage: "b", Cause: "it is known"}, w.outcome("ticket"))
	w.idle()
	w.wantEnded("1", deployment.Cancelled, "ann", "it is known")
	assert.True(t, w.did("1", "ticket") && w.did("1", "clean"))

	w = failed()
	w.do(Cancel{Revision: "1", By: "bob", Reason: "at once"})
	w.wantEnded("1", deployment.Cancelled, "bob", "at once")
	w.mayDo()
}

func TestTheFirstCancelWhileStagesThatAlwaysRunAreAtWorkEndsNothing(t *testing.T) {
	w := newClosed(t, true)
	w.fails["stage/p/b "+record.StageApplied] = "disk full"
	w.until("1", stageOf("clean"), record.StageStarted)
	clear(w.fails)
	w.do(Cancel{Revision: "1", By: "ann"})
	w.mayDo("1 stage-manifest-applied stage/clean")
	w.idle()
	w.wantEnded("1", deployment.Cancelled, "ann", "")
	assert.True(t, w.did("1", "clean"))
}

// Hosts are cleaned up as one manifest is, in each attempt anew.
func TestHostsAreCleanedUp(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("a"), deployTo("undrain", []string{"a"}, "all", "host-undrained")}}
	d.Stages[1].When = definition.Always
	w := newTale(t, d, map[string][]string{"all": {"h1", "h2"}})
	w.release("1")
	w.fails["stage/p/a "+record.StageApplied] = "disk full"
	w.fails[string(onHost("h2"))+" host-undrained"] = "no answer"
	w.until("1", onHost("h1"), record.HostStarted)
	assert.Equal(t, step.Outcome{Status: "failed", Stage: "a", Cause: "stage a failed: disk full"}, w.outcome("undrain"))
	w.idle()
	w.wantEnded("1", deployment.Failed, "", "stage a failed: disk full")
	assert.True(t, w.happened("1", onHost("h1"), "host-undrained") && w.happened("1", stageOf("undrain"), record.StageFailed))
	assert.Len(t, w.state.Stops(), 1, "of stage a")
	w.refused(Repair{Stage: "undrain", ID: "again"}, NothingToRepair)
	w.says(w.refused(Rollback{Stage: "undrain", ID: "back"}, NothingToRollBack), "it has when: always, and runs at the end of each attempt of a revision")

	clear(w.fails)
	w.do(Retry{Revision: "1"})
	n := len(w.log)
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	assert.Subset(t, w.since(n), []string{w.state.revisions[0].Deployment + " h1 host-undrained", w.state.revisions[0].Deployment + " h2 host-undrained"})

	w.release("2")
	w.until("2", stageOf("a"), record.StageStarted)
	w.do(Cancel{Revision: "2", By: "ann"})
	w.idle()
	w.wantEnded("2", deployment.Cancelled, "ann", "")
	assert.True(t, w.did("2", "undrain"))
}

func TestAStageThatRunsInAnyCaseIsNotDoneAgain(t *testing.T) {
	w := newTale(t, closed(), nil)
	w.do(Release{Revision: "1", ID: w.id(), Carries: record.Files{"a.yaml": "1", "b.yaml": "1", "ticket.yaml": "1", "clean.yaml": "1"}})
	w.until("1", stageOf("approve"), record.StageStarted)
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.fails["stage/p/b "+record.StageApplied] = "disk full"
	w.idle()
	require.True(t, w.did("1", "clean"))
	w.says(w.refused(Rerun{Stage: "clean", Revision: "1", ID: "again"}, NothingToRerun), "stage clean cannot be done again: it has when: always, and runs only at the end of a revision, whose outcome it is told")
	w.says(w.refused(Rerun{Stage: "ticket", Revision: "1", ID: "again"}, NothingToRerun), "stage ticket cannot be done again: it has when: failed, and runs")
	w.says(w.refused(Repair{Stage: "clean", ID: "again"}, NothingToRepair), "stage clean cannot be repaired: it has when: always, and runs at the end of each attempt of a revision")
}

func TestARevisionThatBeganNothingHasNothingToClose(t *testing.T) {
	w := newClosed(t, false)
	w.release("2")
	w.do(Skip{Revision: "2", By: "ann"})
	w.wantEnded("2", deployment.PassedOver, "ann", "")
	w.do(Skip{Revision: "1", By: "ann", Reason: "a typo"})
	w.idle()
	w.wantEnded("1", deployment.PassedOver, "ann", "a typo")
	assert.True(t, w.did("1", "clean"))
}

func TestARejectedRevisionOpensATicketOnlyBehindItsStage(t *testing.T) {
	d := closed()
	d.Stages = append(d.Stages, closing("early", definition.WhenFailed, "a"))
	w := newTale(t, d, nil)
	w.release("1")
	w.until("1", stageOf("approve"), record.StageStarted)
	w.do(Reject{Revision: "1", Stage: "approve", By: "ann", Reason: "no"})
	w.idle()
	w.wantEnded("1", deployment.Failed, "", "stage approve failed: rejected by ann: no")
	assert.True(t, w.did("1", "ticket") && w.did("1", "clean"))
	assert.False(t, w.happened("1", stageOf("early"), record.StageStarted), "stage a has not failed")
}

func TestARevisionThatFailsAtAStageThatItHasNotBegunNamesIt(t *testing.T) {
	d := closed()
	d.Batches = nil
	d.Stages = append(d.Stages, definition.Stage{Name: "build", After: []string{"a"}, Build: &definition.Build{Artifacts: []string{"x86"}}},
		closing("early", definition.WhenFailed, "a"), closing("unbuilt", definition.WhenFailed, "build"))
	w := newTale(t, d, nil)
	w.release("1")
	w.until("1", stageOf("a"), record.StageStarted)
	w.do(FailArtifact{Revision: "1", Kind: "x86", By: "ci"})
	w.until("1", stageOf("unbuilt"), record.StageStarted)
	const cause = "stage build failed: artifact x86 was not built, as ci reports"
	assert.Equal(t, step.Outcome{Status: "failed", Stage: "build", Cause: cause}, w.outcome("unbuilt"))
	w.idle()
	w.wantEnded("1", deployment.Failed, "", cause)
	assert.False(t, w.happened("1", stageOf("early"), record.StageStarted) || w.happened("1", stageOf("ticket"), record.StageStarted), "stage build is not before them")
}

func TestAClosingStageThatFailsFailsTheRevisionAndKeepsNobodyOut(t *testing.T) {
	w := newClosed(t, true)
	w.fails["stage/p/clean "+record.StageApplied] = "busy"
	w.idle()
	w.wantEnded("1", deployment.Failed, "", "stage clean failed: busy")
	assert.Empty(t, w.state.Stops())
	assert.False(t, w.happened("1", stageOf("ticket"), record.StageStarted), "it does not come after clean")

	w.release("2")
	w.until("2", stageOf("approve"), record.StageStarted)
	w.do(Cancel{Revision: "2", By: "ann"})
	w.idle()
	w.wantEnded("2", deployment.Cancelled, "ann", "")
	assert.True(t, w.happened("2", stageOf("clean"), record.StageFailed))
}

func TestASupersededRevisionThatBeganSomethingCloses(t *testing.T) {
	d := closed()
	d.Supersede = true
	w := newTale(t, d, nil)
	w.do(PausePipeline{Stage: "approve", ID: w.id()})
	w.release("1")
	w.idle()
	w.release("2")
	w.do(Cancel{Revision: "2"})
	require.False(t, w.did("1", "clean"))
	d = cloneDefinition(d)
	d.Batches = nil
	w.do(Define{Definition: d, ID: w.id()})
	w.release("3")
	w.idle()
	w.wantEnded("1", deployment.Superseded, "", "")
	assert.True(t, w.did("1", "clean"))
	assert.Equal(t, "3", w.registered("1").SupersededBy)
}

func TestClosingWaitsForAPauseAndForWhatIsAtWork(t *testing.T) {
	w := newClosed(t, true)
	w.append(w.state.Begun(w.id(), []step.Step{w.theStep("b")}))
	w.do(Cancel{Revision: "1", By: "ann"})
	w.mayDo()
	w.do(PausePipeline{Stage: "clean", ID: w.id(), By: "ann"})
	events, err := w.theStepDone("b")
	require.NoError(t, err)
	w.append(events...)
	w.mayDo()
	why := w.state.Explain(stageOf("clean"))
	assert.Equal(t, reason.IsPaused, why[len(why)-1].Code)
	w.do(ResumePipeline{Stage: "clean", ID: w.id()})
	w.idle()
	w.wantEnded("1", deployment.Cancelled, "ann", "")
	assert.False(t, w.did("1", "b"), "its end is not begun any more")
}

// theStep is the work of a stage that may be done now.
func (w *tale) theStep(stage string) (found step.Step) {
	for s := range w.state.Decide(noon, Can{}) {
		if s.Stage == stage {
			found = s
		}
	}
	require.Equal(w, stage, found.Stage)
	return found
}

// theStepDone returns the events of the work of a stage that has ended.
func (w *tale) theStepDone(stage string) ([]deploylog.Event, error) {
	d := w.state.deployments[0]
	return step.Step{Deployment: d.ID, Revision: d.Revision, Target: stageOf(stage), Event: record.StageApplied, Attempt: d.Attempt}.Completed(nil)
}
