package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// newAdded is a pipeline to which the stage late with hosts was added when revision 1 had finished.
func newAdded(t *testing.T) *tale {
	t.Helper()
	w := newTale(t, closed(), nil)
	d := cloneDefinition(w.state.definition)
	d.Stages = d.Stages[:1]
	d.Batches = nil
	w.do(Define{Definition: d, ID: w.id()})
	w.do(Release{Revision: "1", ID: w.id(), Carries: record.Files{"a.yaml": "1"}})
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	d = cloneDefinition(d)
	d.Stages = append(d.Stages, deployTo("late", []string{"a"}, "all", deployed), run("smoke", "late"))
	w.do(Define{Definition: d, ID: w.id()})
	w.do(SetMembers{Members: map[string][]string{"all": {"h1", "h2"}}, ID: w.id()})
	return w
}

func TestARevisionThatHasFinishedIsBroughtIntoAStageThatWasAdded(t *testing.T) {
	w := newAdded(t)
	w.mayDo()
	assert.Equal(t, []string{
		"stage late is new; revision 1 finished before the stage was added: deployster pipeline rerun p late 1 brings it there",
		"stage smoke is new; revision 1 finished before the stage was added: deployster pipeline rerun p smoke 1 brings it there",
	}, w.state.Behind())
	w.says(w.refused(Rollback{Stage: "late"}, NothingToRollBack), "deployster pipeline rerun p late 1 brings it there")
	w.refused(Rerun{Stage: "late", Revision: "1", ID: "enter"}, CarriesNothing)
	files := record.Files{"host-deployed.yaml": "2", "smoke.yaml": "2", "a.yaml": "2"}
	w.do(Rerun{Stage: "late", Revision: "1", ID: "enter", Carries: files, By: "ann"})
	n := len(w.log)
	for s := range w.state.Decide(noon, Can{}) {
		assert.Equal(t, "late", s.Stage)
	}
	w.until("1", onHost("h2"), deployed)
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[1].Status)
	assert.Contains(t, w.since(n), "enter h1 "+deployed)
	assert.Len(t, w.state.Behind(), 1)

	// From then on it is done again as what it was released with.
	w.do(Rerun{Stage: "late", Revision: "1", ID: "again"})
	w.idle()
	assert.Contains(t, w.since(n), "again h1 "+deployed)
	assert.Equal(t, deployment.Finished, w.state.revisions[2].Status)
}

func TestARevisionIsNotBroughtIntoAStageThatANewerOneHasReached(t *testing.T) {
	w := newAdded(t)
	w.do(Release{Revision: "2", ID: w.id(), Carries: record.Files{"a.yaml": "2", "host-deployed.yaml": "2", "smoke.yaml": "2"}})
	w.until("2", stageOf("late"), record.StageStarted)
	require.Error(t, w.refused(Rerun{Stage: "late", Revision: "1", ID: "enter", Carries: record.Files{}}, NothingToRerun))
	w.refused(Rerun{Stage: "late", Revision: "2", ID: "enter", Carries: record.Files{}}, BatchIsHeld)
	w.refused(Rerun{Stage: "smoke", Revision: "9", ID: "enter"}, UnknownRevision)
	w.idle()
	assert.Empty(t, w.state.Behind())
}
