package pipeline

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

const atProd = deploylog.Target("host/p/all/h")

// production is a pipeline that deploys to one host, and says afterwards that it did.
func production(steps ...string) *definition.Definition {
	return &definition.Definition{Name: "p", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}},
		deployTo("eu/prod", []string{"build"}, "all", steps...), run("announce", "eu/prod"),
	}}
}

func (w *tale) releaseCarrying(revision string, carries record.Files) {
	w.Helper()
	w.do(Release{Revision: revision, ID: w.id(), Carries: carries})
	w.do(ReceiveArtifact{Revision: revision, Kind: "x86", Ref: "x-" + revision})
}

func files(revision string) record.Files {
	return record.Files{"host-deployed.yaml": revision, "announce.yaml": revision}
}

// inProduction has released these revisions one after the other.
func inProduction(t *testing.T, revisions ...string) *tale {
	t.Helper()
	w := newTale(t, production(deployed), map[string][]string{"all": {"h"}})
	for _, revision := range revisions {
		w.releaseCarrying(revision, files(revision))
		w.idle()
	}
	return w
}

func TestAStageIsRolledBackToTheLastGoodRevisionAndHeld(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.releaseCarrying("4", files("4"))
	w.until("4", stageOf("build"), record.StageFinished)
	w.do(Rollback{Stage: "prod", ID: "back", By: "ann", Reason: "drops sessions"})
	w.mayDo("2 stage-started stage/eu/prod") // 4 is held
	assert.Equal(t, "x-2", w.state.Artifacts("back")["x86"], "its artifact")
	w.idle()
	w.back(4, "2", "3", deployment.Finished)
	assert.Equal(t, "eu/prod", w.state.revisions[4].Rollback.Stage)
	assert.Equal(t, files("2"), w.state.revisions[4].Carries)
	w.explains(stageOf("eu/prod"), "4 stage-started: paused eu/prod stage-paused stage/p/eu/prod rolled back to revision 2: drops sessions #52")

	// A second one goes further back, and never to what was rolled back.
	w.do(Rollback{Stage: "eu/prod", ID: "further"})
	w.idle()
	w.back(5, "1", "2", deployment.Finished)
	w.says(w.refused(Rollback{Stage: "prod"}, NothingToRollBack), "no good revision finished it before 1; name one (--revision)")
	w.do(Rollback{Stage: "prod", Revision: "3", ID: "forward"}) // by name
	w.idle()
	w.do(ResumePipeline{Stage: "prod", ID: "resume"})
	w.idle()
	w.wantEnded("4", deployment.Finished, "", "")
	w.do(Rollback{Stage: "prod", ID: "again"})
	assert.Equal(t, "3", w.state.revisions[7].Revision, "of 4 it goes back to")
}

// back wants a deployment to roll its stage back.
func (w *tale) back(i int, to, replaces string, ended deployment.Status) {
	w.Helper()
	r := w.state.revisions[i]
	require.NotNil(w, r.Rollback)
	assert.Equal(w, []any{to, replaces, ended}, []any{r.Revision, r.Rollback.Replaces, r.Status})
}

func TestRollbacksThatMakeNoSenseAreRefused(t *testing.T) {
	w := inProduction(t)
	w.says(w.refused(Rollback{Stage: "prod"}, NothingToRollBack), "no revision has come to it")
	w.says(w.refused(Rollback{Stage: "prd"}, UnknownStage), "did you mean eu/prod?")
	w.says(w.refused(Rollback{Stage: "build"}, NothingToRollBack), "it is a build stage")
	w.releaseCarrying("1", nil) // as a former version did
	w.idle()
	w.releaseCarrying("2", files("2"))
	w.idle()
	w.says(w.refused(Rollback{Stage: "prod"}, NothingToRollBack), "revision 1: that does not carry manifest host-deployed.yaml, for an older version of Deployster released it; release it again under another name")
	w.says(w.refused(Rollback{Stage: "prod", Revision: "2"}, NothingToRollBack), "stage eu/prod has revision 2 already")
	w.refused(Rollback{Stage: "prod", Revision: "9"}, UnknownRevision)
	w.releaseCarrying("3", files("3"))
	w.until("3", atProd, record.HostStarted)
	w.says(w.refused(Rollback{Stage: "prod"}, BatchIsHeld), "deployster pipeline cancel p 3")
	w.says(w.refused(Rollback{Stage: "prod", Revision: "3"}, BatchIsHeld), "revision 3 is in it")
	w.do(Cancel{Revision: "3"})
	w.says(w.refused(Rollback{Stage: "prod", Revision: "3"}, NothingToRollBack), "that has not finished it")
	w.do(Rollback{Stage: "prod", ID: "back"}) // to 2, which finished last
	w.says(w.refused(Rollback{Stage: "prod"}, RollbackRunning), "already being rolled back to revision 2")
	w.fails[string(atProd)+" "+deployed] = "disk full"
	w.idle()
	w.explains(atProd, " stage-resumed: paused eu/prod stage-paused stage/p/eu/prod rolled back to revision 2 #41\n"+
		"3 pipeline-finished-successfully: cancelled pipeline-cancelled pipeline/p #40\n"+
		"2 pipeline-finished-successfully: failed pipeline-failed pipeline/p stage eu/prod failed: host group all failed: 1 of 1 hosts failed, 0 may: h: host-deployed failed: disk full #50\n"+
		"2 stage-finished-successfully: failed stage-failed stage/p/eu/prod stage failed: host group all failed: 1 of 1 hosts failed, 0 may: h: host-deployed failed: disk full #49\n"+
		"2 host-group-finished-successfully: failed host-group-failed host-group/p/all host-group failed: 1 of 1 hosts failed, 0 may: h: host-deployed failed: disk full #48\n"+
		"2 host-finished-successfully: failed host-deployed-failed host/p/all/h host-deployed failed: disk full #46")
	w.fails = nil
	w.do(Retry{Revision: "2"}) // the rollback
	w.do(Cancel{Revision: "2"})
	w.do(Retry{Revision: "2"})
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[3].Status, "the rollback")
	w.says(w.refused(Retry{Revision: "3"}, NewerIsAhead), "a rollback to revision 2 has entered stage eu/prod since (event 43)") // it is not forgotten either
	w.mayDo()
	w.do(Delete{ID: "d", Cancel: true})
	w.refused(Rollback{Stage: "prod"}, UnknownPipeline)
}

func TestARollbackOfAnEnvironmentNamesTheDeploymentThatItGoesBackTo(t *testing.T) {
	d := production(deployed)
	d.Stages[1].Deploy, d.Stages[1].Environment = nil, "gateway/prod"
	w := newTale(t, d, nil)
	for _, revision := range []string{"1", "2"} {
		w.releaseCarrying(revision, files(revision))
		w.idle()
	}
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.step()
	steps := slices.Collect(w.state.Decide(noon, Can{}))
	if len(steps) != 1 || steps[0].Environment != "gateway/prod" || steps[0].Original != w.state.revisions[0].Deployment || steps[0].Deployment != "back" {
		t.Errorf("it does %+v", steps)
	}
}

// What a revision did before the rollback is gone from the hosts that it was done with.
func TestWhatWasRolledBackHalfwayIsNotRetried(t *testing.T) {
	d := production(deployed)
	one := budget.Budget{Count: 1}
	d.Stages[1].Deploy.HostGroups[0].MaxInFlight = &one
	w := newTale(t, d, map[string][]string{"all": {"h1", "h2", "h3"}})
	w.releaseCarrying("41", files("41"))
	w.idle()
	w.releaseCarrying("42", files("42"))
	w.fails["host/p/all/h2 "+deployed] = "disk full"
	w.until("42", w.state.target, record.PipelineFailed)
	w.do(Rollback{Stage: "prod", ID: "back"})
	clear(w.fails)
	w.idle()
	w.says(w.refused(Retry{Revision: "42"}, NewerIsAhead), "a rollback to revision 41 has entered stage eu/prod since")
	w.says(w.refused(Retry{Revision: "42"}, NewerIsAhead), "release it again under another name, or release a newer one")
}

// A rollback that failed is not done on the rest of the hosts either, once another revision
// has been there.
func TestARollbackIsNotRetriedOnceAnotherRevisionCame(t *testing.T) {
	w := inProduction(t, "1", "2")
	w.releaseCarrying("3", files("3"))
	w.until("3", stageOf("build"), record.StageFinished)
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.fails[string(atProd)+" "+deployed] = "disk full"
	w.idle()
	clear(w.fails)
	w.do(ResumePipeline{Stage: "prod", ID: "resume"})
	w.idle()
	w.wantEnded("3", deployment.Finished, "", "")
	w.says(w.refused(Retry{Revision: "1"}, NewerIsAhead), "roll the stage back again (deployster pipeline rollback p eu/prod --revision 1)")
}

// The end of a freeze is not the end of what a rollback holds.
func TestARollbackHoldsAStageThatIsPausedAlready(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.do(PausePipeline{Stage: "prod", ID: "freeze", By: "ann", Reason: "freeze"})
	w.releaseCarrying("4", files("4"))
	w.do(Rollback{Stage: "prod", ID: "back"})
	p := w.state.Pauses()
	assert.True(t, len(p) == 2 && p[0].Reason == "freeze" && p[1].Stage == "eu/prod" && p[1].Reason == "rolled back to revision 2",
		"the pauses are %+v", p)
	w.says(w.refused(ResumePipeline{Stage: "prod"}, RollbackRunning), "which would overwrite whoever enters before; wait for its end, or cancel it (deployster pipeline cancel p 2)")
}

func TestARollbackThatFailedAndIsGivenAgainHasTheSameAim(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.fails[string(atProd)+" "+deployed] = "away"
	for i, id := range []string{"back", "again", "more"} {
		w.do(Rollback{Stage: "prod", ID: id})
		w.idle()
		w.back(3+i, "2", "3", deployment.Failed)
	}
	clear(w.fails)
	w.do(Rollback{Stage: "prod", ID: "last"})
	w.idle()
	w.do(Rollback{Stage: "prod", ID: "further"})
	w.back(7, "1", "2", deployment.Running)
}

func TestARollbackOfAStageThatLeavesThePipelineFails(t *testing.T) {
	w := inProduction(t, "1", "2")
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.step()
	renamed := production(deployed)
	renamed.Stages[1].Name, renamed.Stages[2].After = "us/prod", []string{"us/prod"}
	w.do(Define{Definition: renamed, ID: "renamed"})
	w.idle()
	r := w.state.revisions[2]
	assert.True(t, r.Status == deployment.Failed && r.Cause == "stage eu/prod is not in the pipeline any more: roll back a stage that is",
		"it is %+v", r)
}

// A revision that waits behind the stage may be what the stage is rolled back to.
func TestARollbackToARevisionUnderWayIsNamedByItsDeployment(t *testing.T) {
	d := production(deployed)
	d.Stages[2] = definition.Stage{Name: "announce", After: []string{"eu/prod"}, Approval: &definition.Approval{}}
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	for _, revision := range []string{"1", "2"} {
		w.releaseCarrying(revision, files(revision))
		w.idle()
		if revision == "1" {
			w.do(Approve{Revision: "1", Stage: "announce"})
			w.until("1", stageOf("announce"), record.StageFinished)
			w.idle()
		}
	}
	w.releaseCarrying("3", files("3"))
	w.until("3", stageOf("eu/prod"), record.StageFinished)
	w.do(Rollback{Stage: "prod", ID: "back"}) // to 2, which waits
	first := w.state.revisions[1].Deployment
	for _, c := range []Command{Cancel{Revision: "2"}, Skip{Revision: "2"}, Retry{Revision: "2"}} {
		w.says(w.refused(c, AmbiguousName), "give the deployment instead of the revision: "+first+" (its release) or back (the rollback of stage eu/prod)")
	}
	w.do(Cancel{Revision: "back"})
	assert.Equal(t, [2]deployment.Status{deployment.Running, deployment.Cancelled}, [2]deployment.Status{w.state.revisions[1].Status, w.state.revisions[3].Status})
	w.do(Retry{Revision: "2"}) // which only the rollback can be
	assert.Equal(t, deployment.Running, w.state.revisions[3].Status, "the rollback")
	w.do(Cancel{Revision: first})
	assert.Equal(t, [2]deployment.Status{deployment.Cancelled, deployment.Running}, [2]deployment.Status{w.state.revisions[1].Status, w.state.revisions[3].Status})
}

// A host group in which a rollback began moves to the stage behind the one that is rolled
// back: the rollback has begun nothing there, and still finishes its own stage.
func TestARollbackOfWhichAHostGroupMovesFinishesItsStage(t *testing.T) {
	w := inProduction(t, "1", "2")
	w.do(Rollback{Stage: "prod", ID: "back"})
	for last := ""; last != record.GroupStarted; last = w.log[len(w.log)-1].Name {
		w.step()
	}
	moved := production(deployed)
	moved.Stages[1].Deploy.HostGroups = nil
	moved.Stages[2] = deployTo("announce", []string{"eu/prod"}, "all", deployed)
	w.do(Define{ID: "moved", Definition: moved})
	w.mayDo("1 stage-finished-successfully stage/eu/prod")
	w.idle()
	w.back(2, "1", "2", deployment.Finished)
}
