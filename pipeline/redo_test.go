package pipeline

import (
	"slices"
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

// lenient is a pipeline whose hosts h1 to h4 may fail, with an approval behind them that the batch reaches to.
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
	assert.Equal(t, []string{
		"again pipeline/p pipeline-started", "again stage/p/eu/prod stage-started", "again host-group/p/all host-group-started",
		"again h2 host-started", "again h2 host-deployed", "again h2 host-finished-successfully",
		"again h3 host-started", "again h3 host-deployed", "again h3 host-finished-successfully",
		"again host-group/p/all host-group-finished-successfully", "again stage/p/eu/prod stage-finished-successfully", "again pipeline/p pipeline-finished-successfully",
	}, w.since(n))
	r := w.state.revisions[1]
	require.NotNil(t, r.Redo)
	assert.Equal(t, []any{record.Repair, "disks are bigger", "ann"}, []any{r.Redo.What, r.Redo.Reason, r.Redo.By})
	w.says(w.refused(Repair{Stage: "prod"}, NothingToRepair), "stage eu/prod has nothing to repair: revision 1 failed on none of its hosts")
	w.explains(onHost("h2"), "") // nor does its release, which is under way, say that it failed there
	for _, row := range w.state.Status() {
		assert.True(t, row.Host == "" || row.Progress != HasFailure, "it has failed: %+v", row)
	}
}

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

// A repair waits while its stage is paused, but not for what the rollback paused whose hosts it repairs.
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

const atProd = deploylog.Target("host/p/all/h")

// production is a pipeline that deploys to one host, and says afterwards that it did.
func production(steps ...string) *definition.Definition {
	return &definition.Definition{Name: "p", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}},
		deployTo("eu/prod", []string{"build"}, "all", steps...), run("announce", "eu/prod"),
	}}
}

func (w *tale) releaseCarrying(revision string, carries record.Files) {
	w.do(Release{Revision: revision, ID: w.id(), Carries: carries})
	w.do(ReceiveArtifact{Revision: revision, Kind: "x86", Ref: "x-" + revision})
}

func files(revision string) record.Files {
	return record.Files{"host-deployed.yaml": revision, "announce.yaml": revision}
}

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

func (w *tale) back(i int, to, replaces string, ended deployment.Status) {
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
	assert.True(t, len(steps) == 1 && steps[0].Environment == "gateway/prod" &&
		steps[0].Original == w.state.revisions[0].Deployment && steps[0].Deployment == "back", "it does %+v", steps)
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

// A rollback that failed is not done on the rest of the hosts either, once another revision has been there.
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
