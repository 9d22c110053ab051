package pipeline

import (
	"maps"
	"slices"
	"strings"
	"testing"

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
	for step := range w.state.Decide(noon, Can{}) {
		if step.Deployment == "again" && step.Manifest != "" && !maps.Equal(step.Files, lenientFiles("1")) {
			t.Errorf("it applies %+v", step)
		}
	}
	w.idle()
	want := []string{
		"again pipeline/p pipeline-started", "again stage/p/eu/prod stage-started", "again host-group/p/all host-group-started",
		"again h2 host-started", "again h2 host-deployed", "again h2 host-finished-successfully",
		"again h3 host-started", "again h3 host-deployed", "again h3 host-finished-successfully",
		"again host-group/p/all host-group-finished-successfully", "again stage/p/eu/prod stage-finished-successfully", "again pipeline/p pipeline-finished-successfully",
	}
	if got := w.since(n); !slices.Equal(got, want) {
		t.Errorf("it does\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r := w.state.revisions[1]
	if r.Status != deployment.Finished || r.Redo == nil || r.Redo.What != record.Repair || r.Redo.Reason != "disks are bigger" || r.Redo.By != "ann" {
		t.Errorf("it is %+v", r)
	}
	w.says(w.refused(Repair{Stage: "prod"}, NothingToRepair), "stage eu/prod has nothing to repair: revision 1 failed on none of its hosts")
	w.explains(onHost("h2"), "") // nor does its release, which is under way, say that it failed there
	for _, row := range w.state.Status() {
		if row.Host != "" && row.Progress == HasFailure {
			t.Errorf("it has failed: %+v", row)
		}
	}
	w.do(Approve{Revision: "1", Stage: "approve"}) // it still waits there
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
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
	if got := changes(onHost("h2")); got != repair {
		t.Errorf("what helps is %q", got)
	}
	w.do(Cancel{Revision: "1"})
	if got := changes(onHost("h2")); got != record.PipelineRetried+": deployster pipeline retry p 1|"+repair { // of the pipeline, too
		t.Errorf("of one that was cancelled what helps is %q", got)
	}
	w = newTale(t, lenient(deployed), map[string][]string{"all": {"h1", "h2", "h3"}})
	for _, h := range []string{"h1", "h2", "h3"} {
		w.fails[string(onHost(h))+" "+deployed] = "disk full"
	}
	w.do(Release{Revision: "1", ID: w.id(), Carries: lenientFiles("1")})
	w.idle()
	if got := changes(onHost("h2")); strings.Contains(got, "repair") {
		t.Errorf("beyond the budget what helps is %q", got)
	}
}

func TestOneHostIsRepairedByItsName(t *testing.T) {
	w := failing(t, "1")
	w.says(w.refused(Repair{Stage: "prod", Hosts: []string{"h1"}}, NothingToRepair), "host h1 is not repaired: revision 1 has not failed there in stage eu/prod, but on h2, h3")
	w.says(w.refused(Repair{Stage: "prod", Hosts: []string{"h2", "h33"}}, UnknownHost), `unknown host "h33" of stage eu/prod of pipeline p: revision 1 failed there on h2, h3; did you mean h3?`)
	w.fails[string(onHost("h2"))+" "+deployed] = "disk full"
	w.do(Repair{Stage: "prod", Hosts: []string{"h2"}, ID: "fails"})
	w.idle()
	if r := w.state.revisions[1]; r.Status != deployment.Finished {
		t.Errorf("within the budget it is %+v", r)
	}
	clear(w.fails)
	w.do(Repair{Stage: "prod", Hosts: []string{"h3"}, ID: "one"})
	w.idle()
	w.do(Repair{Stage: "prod", ID: "rest"})
	if r := w.state.revisions[3]; !slices.Equal(r.Redo.Hosts, []deploylog.Target{onHost("h2")}) || r.Redo.Of != w.state.revisions[0].Deployment {
		t.Errorf("left are %+v", r.Redo)
	}
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
	if r := w.state.revisions[1]; r.Status != deployment.Finished {
		t.Errorf("the repair is %+v", r)
	}
}

// Where a newer revision has come, that has overtaken what is to be repaired.
func TestWhatIsOvertakenIsNotRepaired(t *testing.T) {
	w := failing(t, "1", "2")
	w.do(Repair{Stage: "prod", ID: "again"})
	if r := w.state.revisions[2]; r.Revision != "2" {
		t.Errorf("it repairs %+v", r)
	}
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

// A revision behind the batch waits for what is done again in it.
func TestWhatIsDoneAgainKeepsOthersOutOfItsBatches(t *testing.T) {
	w := failing(t, "1")
	w.do(Release{Revision: "2", ID: "second", Carries: lenientFiles("2")})
	w.do(Rerun{Stage: "smoke", Revision: "1", ID: "again"})
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.until("1", w.state.target, record.PipelineFinished)
	w.mayDo("1 stage-manifest-applied stage/smoke")
	w.explains(stageOf("eu/prod"), "2 stage-started: awaits-batch smoke smoke 1 stage-started stage/p/smoke #26")
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	if !w.happened("2", stageOf("eu/prod"), record.StageStarted) {
		t.Error("revision 2 never follows")
	}
}

func TestAStageIsDoneAgain(t *testing.T) {
	w := failing(t, "1")
	n := len(w.log)
	w.do(Rerun{Stage: "smoke", Revision: "1", ID: "tests", By: "ann"})
	w.idle()
	want := []string{"tests pipeline/p pipeline-started", "tests stage/p/smoke stage-started", "tests stage/p/smoke stage-manifest-applied", "tests stage/p/smoke stage-finished-successfully", "tests pipeline/p pipeline-finished-successfully"}
	if got := w.since(n); !slices.Equal(got, want) {
		t.Errorf("it does\n%s", strings.Join(got, "\n"))
	}
	w.says(w.refused(Rerun{Stage: "approve", Revision: "1"}, NothingToRerun), "nothing is done there, it is a approval stage")
	w.refused(Rerun{Stage: "smoke", Revision: "9"}, UnknownRevision)
	w.fails[string(onHost("h1"))+" "+deployed] = "disk full"
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "all"})
	w.idle()
	clear(w.fails)
	w.do(Repair{Stage: "prod", ID: "repair"})
	if r := w.state.revisions[3]; !slices.Equal(r.Redo.Hosts, []deploylog.Target{onHost("h1")}) {
		t.Errorf("left is %+v", r.Redo)
	}
	w.idle()
	for _, h := range []string{"h1", "h2", "h3"} {
		w.fails[string(onHost(h))+" "+deployed] = "disk full"
	}
	w.do(Release{Revision: "2", ID: "second", Carries: lenientFiles("2")})
	w.do(Rerun{Stage: "prod", Revision: "1", ID: "fails"})
	w.idle()
	clear(w.fails)
	if r := w.state.revisions[5]; r.Status != deployment.Failed {
		t.Errorf("beyond the budget it is %+v", r)
	}
	w.says(w.refused(Repair{Stage: "prod"}, NothingToRepair), "it was done again with revision 1, and has not finished (event ")
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.idle()
	if w.happened("2", stageOf("eu/prod"), record.StageStarted) {
		t.Error("revision 2 enters a stage in which hosts just failed")
	}
	w.do(Retry{Revision: "fails"})
	w.idle()
	if !w.happened("2", stageOf("eu/prod"), record.StageStarted) {
		t.Error("revision 2 never enters")
	}
}

// Hosts that are repaired get what the others have, not what came later.
func TestWhatIsDoneAgainLeavesOutStepsThatItWasDoneWithout(t *testing.T) {
	w := failing(t, "1")
	d := lenient(copied, deployed)
	w.do(Define{Definition: d, ID: "later", Carries: record.Files{copied + ".yaml": "later", "host-deployed.yaml": "later", "smoke.yaml": "later"}})
	n := len(w.log)
	w.do(Repair{Stage: "prod", ID: "again"})
	w.until("1", w.state.target, record.PipelineStarted)
	for len(w.log) < n+12 {
		w.step()
	}
	for _, line := range w.since(n) {
		if strings.Contains(line, copied) {
			t.Errorf("it does %s", line)
		}
	}
	if last := w.log[len(w.log)-1]; last.Deployment != "again" || last.Name != record.PipelineFinished {
		t.Errorf("it ends with %+v", last)
	}
}

// A repair waits while the stage or the pipeline is paused, but not for what the rollback
// paused whose hosts it repairs.
func TestARepairWaitsForPauses(t *testing.T) {
	w := failing(t, "1", "2")
	w.do(Approve{Revision: "2", Stage: "approve"})
	w.idle()
	w.do(PausePipeline{Stage: "prod", ID: "freeze", By: "ann"})
	w.do(Repair{Stage: "prod", ID: "again"})
	w.mayDo()
	w.do(ResumePipeline{Stage: "prod", ID: "thaw"})
	w.idle()
	w.fails[string(onHost("h4"))+" "+deployed] = "disk full"
	w.do(Rollback{Stage: "prod", ID: "back"})
	w.idle()
	clear(w.fails)
	w.do(Repair{Stage: "prod", ID: "of it"})
	r := w.state.revisions[4]
	if r.Revision != "1" || r.Redo.Of != "back" || !slices.Equal(r.Redo.Hosts, []deploylog.Target{onHost("h4")}) {
		t.Errorf("it is %+v of %+v", r, r.Redo)
	}
	w.do(PausePipeline{ID: "all", By: "ann"})
	w.mayDo()
	w.do(ResumePipeline{ID: "all on"})
	w.idle()
	if r := w.state.revisions[4]; r.Status != deployment.Finished {
		t.Errorf("the repair is %+v: %v", r, texts(w.state.Explain(w.state.target)))
	}
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
	if r := w.state.revisions[1]; r.Status != deployment.Finished {
		t.Errorf("the repair is %+v", r)
	}
}

// What a repair did is known from what is kept of a log, too, while its release is under way.
func TestARepairIsKnownFromWhatIsNeededOfTheLog(t *testing.T) {
	w := failing(t, "1")
	w.do(Repair{Stage: "prod", Hosts: []string{"h2"}, ID: "again"})
	w.idle()
	folded := New("p")
	for _, e := range neededOf(w.state, w.log) {
		folded.Apply(e)
	}
	for _, s := range []*State{w.state, folded} {
		if failed := s.visits[stageOf("eu/prod")].ending.Failed; len(failed) != 1 || failed[onHost("h3")].Seq == 0 {
			t.Errorf("failed are %v", failed)
		}
	}
}
