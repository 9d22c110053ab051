package pipeline

import (
	"testing"
)

func TestARollbackThatFailedAndIsGivenAgainHasTheSameAim(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.fails[string(atProd)+" "+deployed] = "away"
	for i, id := range []string{"back", "again", "more"} {
		w.do(Rollback{Stage: "prod", ID: id})
		w.idle()
		if r := w.state.revisions[3+i]; r.Revision != "2" || r.Status != Failed || r.Rollback.Replaces != "3" {
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
	if r := w.state.revisions[2]; r.Status != Failed || r.Cause != "stage eu/prod is not in the pipeline any more: roll back a stage that is" {
		t.Errorf("it is %+v", r)
	}
}
