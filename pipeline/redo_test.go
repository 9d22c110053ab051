package pipeline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// lenient is a pipeline whose hosts h1 to h4 may fail, with an approval behind them that the
// batch reaches to.
func lenient(steps ...string) *definition.Definition {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{
		deployTo("eu/prod", nil, "all", steps...), run("smoke", "eu/prod"), {Name: "approve", After: []string{"smoke"}, Approval: &definition.Approval{}},
	}, Batches: []definition.Batch{{From: "eu/prod", To: "approve"}}}
	d.Stages[0].Deploy.HostGroups[0].MaxFailed = budget.Budget{Count: 2}
	return d
}

func lenientFiles(revision string) record.Files {
	return record.Files{"host-deployed.yaml": revision, copied + ".yaml": revision, "smoke.yaml": revision}
}

func onHost(name string) deploylog.Target { return record.HostTarget("p", "all", name) }

// failing has released revisions that fail on hosts h2 and h3, up to the approval of the last.
func failing(t *testing.T, revisions ...string) *tale {
	t.Helper()
	w := newTale(t, lenient(deployed), map[string][]string{"all": {"h1", "h2", "h3", "h4"}})
	for i, revision := range revisions {
		if i > 0 {
			w.do(Approve{Revision: revisions[i-1], Stage: "approve"})
		}
		w.do(Release{Revision: revision, ID: w.id(), Carries: lenientFiles(revision)})
		w.fails[string(onHost("h2"))+" "+deployed], w.fails[string(onHost("h3"))+" "+deployed] = "disk full", "disk full"
		w.idle()
	}
	clear(w.fails)
	return w
}

// since are the events behind one.
func (w *tale) since(seq int) (lines []string) {
	for _, e := range w.log[seq:] {
		lines = append(lines, e.Deployment+" "+strings.TrimPrefix(string(e.Target), "host/p/all/")+" "+e.Name)
	}
	return lines
}

func TestHostsThatFailedWithinTheBudgetAreRepaired(t *testing.T) {
	w := failing(t, "1")
	n := len(w.log)
	w.do(Repair{Stage: "prod", ID: "again", By: "ann", Reason: "disks are bigger"})
	w.idle()
	want := []string{
		"again pipeline/p pipeline-started", "again stage/p/eu/prod stage-started", "again host-group/p/all host-group-started",
		"again h2 host-started", "again h2 host-deployed", "again h2 host-finished-successfully",
		"again h3 host-started", "again h3 host-deployed", "again h3 host-finished-successfully",
		"again host-group/p/all host-group-finished-successfully", "again stage/p/eu/prod stage-finished-successfully", "again pipeline/p pipeline-finished-successfully",
	}
	assert.Equal(t, want, w.since(n))
	r := w.state.revisions[1]
	require.NotNil(t, r.Redo)
	assert.Equal(t, []any{record.Repair, "disks are bigger", "ann"}, []any{r.Redo.What, r.Redo.Reason, r.Redo.By})
	w.says(w.refused(Repair{Stage: "prod"}, NothingToRepair), "stage eu/prod has nothing to repair: revision 1 failed on none of its hosts")
	w.explains(onHost("h2"), "") // nor does its release, which is under way, say that it failed there
	for _, row := range w.state.Status() {
		if row.Host != "" && row.Progress == HasFailure {
			t.Errorf("it has failed: %+v", row)
		}
	}
}

// The deployment cannot be retried for a host that failed within the budget.
func TestOfAHostThatFailedWithinTheBudgetARepairIsNamed(t *testing.T) {
	w := failing(t, "1")
	changes := func(of deploylog.Target) string {
		var all []string
		for _, r := range w.state.Explain(of) {
			all = append(all, r.Change())
		}
		return strings.Join(all, "|")
	}
	const repair = "host-finished-successfully of the host, once the stage has finished: deployster pipeline repair p eu/prod"
	assert.Equal(t, repair, changes(onHost("h2")), "what helps")
	w.do(Cancel{Revision: "1"})
	assert.Equal(t, record.PipelineRetried+": deployster pipeline retry p 1|"+repair, changes(onHost("h2"))) // of the pipeline, too
	w = newTale(t, lenient(deployed), map[string][]string{"all": {"h1", "h2", "h3"}})
	for _, h := range []string{"h1", "h2", "h3"} {
		w.fails[string(onHost(h))+" "+deployed] = "disk full"
	}
	w.do(Release{Revision: "1", ID: w.id(), Carries: lenientFiles("1")})
	w.idle()
	assert.NotContains(t, changes(onHost("h2")), "repair", "beyond the budget")
}

func TestOneHostIsRepairedByItsName(t *testing.T) {
	w := failing(t, "1")
	w.says(w.refused(Repair{Stage: "prod", Hosts: []string{"h1"}}, NothingToRepair), "host h1 is not repaired: revision 1 has not failed there in stage eu/prod, but on h2, h3")
	w.says(w.refused(Repair{Stage: "prod", Hosts: []string{"h2", "h33"}}, UnknownHost), `unknown host "h33" of stage eu/prod of pipeline p: revision 1 failed there on h2, h3; did you mean h3?`)
	w.fails[string(onHost("h2"))+" "+deployed] = "disk full"
	w.do(Repair{Stage: "prod", Hosts: []string{"h2"}, ID: "fails"})
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[1].Status, "within the budget it")
	clear(w.fails)
	w.do(Repair{Stage: "prod", Hosts: []string{"h3"}, ID: "one"})
	w.idle()
	w.do(Repair{Stage: "prod", ID: "rest"})
	assert.Equal(t, []deploylog.Target{onHost("h2")}, w.state.revisions[3].Redo.Hosts, "left")
	assert.Equal(t, w.state.revisions[0].Deployment, w.state.revisions[3].Redo.Of)
}

func TestRepairsThatMakeNoSenseAreRefused(t *testing.T) {
	w := failing(t)
	w.says(w.refused(Repair{Stage: "prod"}, NotReached), "no revision has come to it")
	w.says(w.refused(Repair{Stage: "prd"}, UnknownStage), "did you mean eu/prod?")
	w.do(Release{Revision: "1", ID: "first", Carries: lenientFiles("1")})
	w.fails[string(onHost("h2"))+" "+deployed] = "disk full"
	w.until("1", onHost("h2"), record.HostFailed)
	w.says(w.refused(Repair{Stage: "prod"}, BatchIsHeld), "revision 1 is in it, or in a batch that it belongs to; wait for its end, or cancel it (deployster pipeline cancel p 1)")
	w.do(Cancel{Revision: "1"})
	w.says(w.refused(Repair{Stage: "prod"}, NotReached), "revision 1 has not finished it, but is cancelled (event ")
	w.do(Retry{Revision: "1"})
	w.idle()
	w.says(w.refused(Repair{Stage: "smoke"}, NothingToRepair), "it is a run stage; deployster pipeline rerun p smoke 1 does it again")
	w.do(Repair{Stage: "prod", ID: "again"})
	w.says(w.refused(Repair{Stage: "prod"}, BatchIsHeld), "revision 1 is in it")
	w.says(w.refused(Repair{Stage: "prod"}, BatchIsHeld), "deployster pipeline cancel p again")
	w.do(Cancel{Revision: "again"})
	w.do(Retry{Revision: "1"}) // which only the repair can be
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[1].Status, "the repair")
}

// Where a newer revision has come, that has overtaken what is to be repaired.
func TestWhatIsOvertakenIsNotRepaired(t *testing.T) {
	w := failing(t, "1", "2")
	w.do(Repair{Stage: "prod", ID: "again"})
	assert.Equal(t, "2", w.state.revisions[2].Revision, "it repairs")
	w.says(w.refused(Rerun{Stage: "smoke", Revision: "1"}, NewerIsAhead), "revision 2 has come to it since (event ")
	w.says(w.refused(Rerun{Stage: "prod", Revision: "1"}, NewerIsAhead), "deployster pipeline rollback p eu/prod --revision 1 goes back to it")
	w.do(Cancel{Revision: "again"})
	w.do(Approve{Revision: "2", Stage: "approve"})
	w.do(Release{Revision: "3", ID: "third", Carries: lenientFiles("3")})
	w.until("3", onHost("h1"), record.HostStarted)
	w.says(w.refused(Retry{Revision: "again"}, BatchIsHeld), "revision 3 is in the batch of stages eu/prod to eu/prod")
	w.do(Cancel{Revision: "3"})
	w.says(w.refused(Retry{Revision: "again"}, NewerIsAhead), "revision 3 has entered stage eu/prod since")
	w.says(w.refused(Repair{Stage: "prod"}, NotReached), "revision 3 has not finished it, but is cancelled")
}

func TestAStageIsDoneAgain(t *testing.T) {
	w := failing(t, "1")
	n := len(w.log)
	w.do(Rerun{Stage: "smoke", Revision: "1", ID: "tests", By: "ann"})
	w.idle()
	assert.Len(t, w.since(n), 5)
	assert.Contains(t, w.since(n), "tests stage/p/smoke stage-manifest-applied")
	w.says(w.refused(Rerun{Stage: "approve", Revision: "1"}, NothingToRerun), "nothing is done there, it is a approval stage")
	w.refused(Rerun{Stage: "smoke", Revision: "9"}, UnknownRevision)
	w.fails[string(onHost("h1"))+" "+deployed] = "disk full"
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "all"})
	w.idle()
	clear(w.fails)
	w.do(Repair{Stage: "prod", ID: "repair"})
	assert.Equal(t, []deploylog.Target{onHost("h1")}, w.state.revisions[3].Redo.Hosts, "left")
	w.idle()
	for _, h := range []string{"h1", "h2", "h3"} {
		w.fails[string(onHost(h))+" "+deployed] = "disk full"
	}
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "fails"})
	w.idle()
	clear(w.fails)
	assert.Equal(t, deployment.Failed, w.state.revisions[4].Status, "beyond the budget it")
	w.says(w.refused(Repair{Stage: "prod"}, NothingToRepair), "it was done again with revision 1, and has not finished (event ")
}

// A repair waits while its stage is paused, but not for what the rollback paused whose hosts
// it repairs.
func TestARepairOfWhatWasRolledBackGoesOn(t *testing.T) {
	w := failing(t, "1", "2")
	w.do(Approve{Revision: "2", Stage: "approve"})
	w.idle()
	w.fails[string(onHost("h4"))+" "+deployed] = "disk full"
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.idle()
	clear(w.fails)
	w.do(Repair{Stage: "prod", ID: "of it"})
	w.idle()
	r := w.state.revisions[3]
	assert.Equal(t, []any{"1", deployment.Finished, "back", []deploylog.Target{onHost("h4")}}, []any{r.Revision, r.Status, r.Redo.Of, r.Redo.Hosts})
}

// Approval and artifacts are of the release of a revision, whatever else is done with it.
func TestANameMeansTheReleaseWhereNothingElseCanBeMeant(t *testing.T) {
	w := failing(t, "1")
	w.do(Repair{Stage: "prod", ID: "again"})
	w.says(w.refused(Approve{Revision: "again", Stage: "approve"}, NotWaiting), "deployment again cannot be approved: it is the repair of stage eu/prod alone")
	w.says(w.refused(Cancel{Revision: "1"}, AmbiguousName), "(its release) or again (the repair of stage eu/prod)")
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.do(Cancel{Revision: w.state.revisions[0].Deployment})
	w.do(Cancel{Revision: "again"})
	w.says(w.refused(Retry{Revision: "1"}, AmbiguousName), "it may be tried again more than once; give the deployment instead of the revision: ")
	w.do(Retry{Revision: "again"})
	w.idle()
	assert.Equal(t, deployment.Finished, w.state.revisions[1].Status, "the repair")
}
