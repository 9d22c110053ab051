package pipeline

import (
	"slices"
	"testing"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

func TestARollbackThatFailedAndIsGivenAgainHasTheSameAim(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.fails[string(atProd)+" "+deployed] = "away"
	for i, id := range []string{"back", "again", "more"} {
		w.do(Rollback{Stage: "prod", ID: id})
		w.idle()
		if r := w.state.revisions[3+i]; r.Revision != "2" || r.Status != deployment.Failed || r.Rollback.Replaces != "3" {
			t.Errorf("%s is %+v of %+v", id, r, r.Rollback)
		}
	}
	clear(w.fails)
	w.do(Rollback{Stage: "prod", ID: "last"})
	w.idle()
	w.do(Rollback{Stage: "prod", ID: "further"})
	if r := w.state.revisions[7]; r.Revision != "1" || r.Rollback.Replaces != "2" {
		t.Errorf("from 2 it goes to %+v of %+v", r, r.Rollback)
	}
}

func TestARollbackOfAStageThatLeavesThePipelineFails(t *testing.T) {
	w := inProduction(t, "1", "2")
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.step()
	renamed := production(deployed)
	renamed.Stages[1].Name, renamed.Stages[2].After = "us/prod", []string{"us/prod"}
	w.do(Define{Definition: renamed, ID: "renamed"})
	w.idle()
	if r := w.state.revisions[2]; r.Status != deployment.Failed || r.Cause != "stage eu/prod is not in the pipeline any more: roll back a stage that is" {
		t.Errorf("it is %+v", r)
	}
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
	if got := []deployment.Status{w.state.revisions[1].Status, w.state.revisions[3].Status}; !slices.Equal(got, []deployment.Status{deployment.Running, deployment.Cancelled}) {
		t.Errorf("they are %v", got)
	}
	w.do(Retry{Revision: "2"}) // which only the rollback can be
	if r := w.state.revisions[3]; r.Status != deployment.Running {
		t.Errorf("the rollback is %+v", r)
	}
	w.do(Cancel{Revision: first})
	if got := []deployment.Status{w.state.revisions[1].Status, w.state.revisions[3].Status}; !slices.Equal(got, []deployment.Status{deployment.Cancelled, deployment.Running}) {
		t.Errorf("they are %v", got)
	}
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
	if r := w.state.revisions[2]; r.Status != deployment.Finished {
		t.Errorf("the rollback is %+v", r)
	}
}
