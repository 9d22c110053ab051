package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
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
	assert.Equal(t, []string{"stage smoke is new; revision 1 finished before the stage was added: deployster pipeline rerun p smoke 1 brings it there"}, w.state.Behind())

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

// newAddedAfter is a pipeline of stage a alone, to which stages were added when revision 1 had finished.
func newAddedAfter(t *testing.T, added ...definition.Stage) *tale {
	t.Helper()
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{run("a")}}, nil)
	w.do(Release{Revision: "1", ID: w.id(), Carries: record.Files{"a.yaml": "1"}})
	w.idle()
	d := cloneDefinition(w.state.definition)
	d.Stages = append(d.Stages, added...)
	w.do(Define{Definition: d, ID: w.id()})
	return w
}

func enter(stage string) Rerun {
	return Rerun{Stage: stage, Revision: "1", ID: "enter-" + stage, Carries: record.Files{"a.yaml": "2", "b.yaml": "2", "c.yaml": "2"}}
}

func TestARevisionThatHasFinishedIsBroughtToAnEnvironment(t *testing.T) {
	w := newAddedAfter(t, definition.Stage{Name: "b", After: []string{"a"}, Environment: "shop/b"})
	assert.Equal(t, []string{"stage b is new; revision 1 finished before the stage was added: deployster pipeline rerun p b 1 brings it there"}, w.state.Behind())
	w.do(Rerun{Stage: "b", Revision: "1", ID: "enter"})
	s := w.theStep("b")
	assert.Equal(t, []any{"shop/b", w.state.revisions[0].Deployment, true}, []any{s.Environment, s.Original, s.First})
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[1].Status)
	assert.Empty(t, w.state.Behind())
	w.do(Rerun{Stage: "b", Revision: "1", ID: "again"})
	s = w.theStep("b")
	assert.Equal(t, []any{w.state.revisions[0].Deployment, false}, []any{s.Original, s.First})
}

func TestARevisionIsNotBroughtPastAnApproval(t *testing.T) {
	w := newAddedAfter(t, run("b", "a"), definition.Stage{Name: "approve", After: []string{"b"}, Approval: &definition.Approval{}}, run("c", "approve"))
	const refused = "revision 1 cannot be brought into stage c: it has not finished the approval stage approve, which comes before, and an approval is of all that a revision was released with, not of what is sent later; release it again under another name, or release a newer one"
	w.says(w.refused(enter("c"), NotReached), refused)
	w.do(enter("b"))
	w.idle()
	w.says(w.refused(enter("c"), NotReached), refused)
	assert.Empty(t, w.state.Behind())
}

func TestARevisionIsNotBroughtPastABuild(t *testing.T) {
	w := newAddedAfter(t, definition.Stage{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}}, run("b", "a", "build"))
	w.says(w.refused(enter("b"), NotReached), "it has not finished the build stage build, which comes before, and what others took from the revision is what it built before it finished; release it again")
	assert.Empty(t, w.state.Behind())
}

func TestARevisionIsBroughtIntoTheStagesThatWereAddedInTheirOrder(t *testing.T) {
	w := newAddedAfter(t, run("b", "a"), run("c", "b"), closing("clean", definition.Always, "c"))
	w.says(w.refused(enter("c"), NotReached), "it has not finished the run stage b, which comes before; deployster pipeline rerun p b 1 brings it there first")
	w.do(enter("b"))
	w.says(w.refused(enter("c"), NotReached), "wait until deployment enter-b has finished that, or retry it")
	w.fails["stage/p/b "+record.StageApplied] = "disk full"
	w.idle()
	clear(w.fails)
	w.says(w.refused(enter("c"), NotReached), "wait until deployment enter-b has finished that, or retry it")
	w.do(Retry{Revision: "enter-b"})
	w.idle()
	w.do(enter("c"))
	w.idle()
	assert.Equal(t, deployment.Finished, w.registered("1").Status)
	assert.Contains(t, w.since(0), "enter-c stage/p/c stage-finished-successfully")
	assert.Empty(t, w.state.Behind())
}

// Nobody approved what passed the stage before, and nothing was done by what was approved.
func TestAStageThatRevisionsPassedDoesNotBecomeAnApproval(t *testing.T) {
	gate := map[bool]definition.Stage{true: {Name: "gate", After: []string{"a"}, Approval: &definition.Approval{}}, false: run("gate", "a")}
	for becomes, why := range map[bool]string{
		true:  "stage gate cannot change from run to approval: revision 1 has passed it, which would count for the new stage; give that another name",
		false: "stage gate cannot change from approval to run: revision 1 has passed it",
	} {
		d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("a"), gate[!becomes], run("b", "gate")}}
		without, other := cloneDefinition(d), cloneDefinition(d)
		without.Stages, other.Stages[1] = without.Stages[:1], gate[becomes]
		w := newTale(t, d, nil)
		w.release("1")
		w.until("1", stageOf("gate"), record.StageStarted)
		w.do(Define{Definition: other, ID: w.id()}) // it waits for approval, or runs
		w.do(Define{Definition: d, ID: w.id()})
		if !becomes {
			w.do(Approve{Revision: "1", Stage: "gate", By: "ann"})
		}
		w.idle()
		w.wantEnded("1", deployment.Finished, "", "")
		w.says(w.refused(Define{Definition: other, ID: w.id()}, OtherStage), why)
		w.do(Define{Definition: without, ID: w.id()})
		w.says(w.refused(Define{Definition: other, ID: w.id()}, OtherStage), why)
		other.Stages[1].Name, other.Stages[2].After = "gate-2", []string{"gate-2"}
		w.do(Define{Definition: other, ID: w.id()})
		other = cloneDefinition(other)
		other.Stages = append(other.Stages, run("c", "b"))
		w.do(Define{Definition: other, ID: w.id()})
		w.says(w.refused(enter("c"), NotReached), "it has not finished the "+other.Stages[1].Kind()+" stage gate-2, which comes before")
	}
}

// An older version of the program let a stage become an approval that revisions had passed. Edits of other
// stages go on then, and so do those after which it is what it was when they passed it.
func TestAStageThatBecameAnApprovalLongAgoRefusesNoOtherEdit(t *testing.T) {
	for _, becomes := range []bool{true, false} {
		gate := map[bool]definition.Stage{true: {Name: "gate", After: []string{"a"}, Approval: &definition.Approval{}}, false: run("gate", "a")}
		d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("a"), gate[!becomes], run("b", "gate")}}
		w := newTale(t, d, nil)
		w.release("1")
		if !becomes {
			w.until("1", stageOf("gate"), record.StageStarted)
			w.do(Approve{Revision: "1", Stage: "gate", By: "ann"})
		}
		w.idle()
		w.wantEnded("1", deployment.Finished, "", "")
		other := cloneDefinition(d)
		other.Stages[1] = gate[becomes]
		w.append(deploylog.Event{Deployment: w.id(), Target: w.state.target, Name: record.PipelineDefined, Attempt: 1, Data: record.Payload{Version: record.KeepsManifests, Definition: cloneDefinition(other)}.Data()})
		edited := cloneDefinition(other)
		edited.Stages = append(edited.Stages, run("c", "b"))
		w.do(Define{Definition: edited, ID: w.id()})
		w.do(Define{Definition: other, ID: w.id()})
		w.do(Define{Definition: d, ID: w.id()})
		w.says(w.refused(Define{Definition: other, ID: w.id()}, OtherStage), "stage gate cannot change")
	}
}
