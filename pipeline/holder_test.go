package pipeline

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// sentence returns what a revision waits for at a target, and what ends that.
func (w *tale) sentence(revision string, t deploylog.Target) string {
	w.Helper()
	for _, r := range w.state.Explain(t) {
		if r.Revision == revision && r.Target == t {
			return r.Message() + " → " + r.Change()
		}
	}
	w.Fatalf("nothing is said of %s at %s: %v", revision, t, texts(w.state.Explain(t)))
	return ""
}

// newQueue is a gated pipeline with one batch after the build, in which v1 waits for approval, and v2 and v3 behind it.
func newQueue(t *testing.T) *tale {
	t.Helper()
	d := gated()
	d.Batches = []definition.Batch{{From: "beta", To: "announce"}}
	w := newTale(t, d, antHosts)
	for _, revision := range []string{"v1", "v2", "v3"} {
		w.release(revision, "x86", "aarch64", "raspbian")
		w.idle()
	}
	return w
}

func TestWhoWaitsForABatchHearsWhatItsHolderWaitsFor(t *testing.T) {
	w := newQueue(t)
	approve := record.StageTarget("ant-gateway", "approve")
	cancel := "; or the end of revision v1: deployster pipeline cancel ant-gateway v1"
	at := w.seq("v1", approve, record.StageStarted)
	for _, revision := range []string{"v2", "v3"} {
		assert.Equal(t, fmt.Sprintf("waits for revision v1, at stage approve, to leave stage announce (event %d): approval missing → stage-approved: deployster pipeline approve ant-gateway approve v1", at)+cancel, w.sentence(revision, beta))
	}

	// Between two stages it is at the one that it cannot enter.
	w.do(PausePipeline{Stage: "announce", ID: w.id(), By: "ann", Reason: "freeze"})
	w.do(Approve{Stage: "approve", Revision: "v1", By: "ann"})
	w.idle()
	assert.Contains(t, w.sentence("v2", beta), "waits for revision v1 to leave stage announce: paused by ann: freeze")
	assert.Contains(t, w.sentence("v2", beta), " → stage-resumed: deployster pipeline resume ant-gateway announce"+cancel)
}

func TestAChainOfRevisionsIsFollowedToTheOneThatHoldsThemAll(t *testing.T) {
	d := gated()
	d.Batches = []definition.Batch{{From: "beta", To: "approve"}, {From: "approve", To: "prod"}}
	w := newTale(t, d, antHosts)
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann"})
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Approve{Stage: "approve", Revision: "v1", By: "ann"})
	for _, revision := range []string{"v2", "v3"} {
		w.release(revision, "x86", "aarch64", "raspbian")
		w.idle()
	}
	w.explains(beta, "v3 stage-started: awaits-batch approve approve v2 stage/ant-gateway/approve")
	says := w.sentence("v3", beta)
	assert.Contains(t, says, "waits for revision v2 to leave stage approve: it waits for revision v1: stage prod: paused by ann")
	assert.Contains(t, says, " → stage-resumed: deployster pipeline resume ant-gateway prod; or the end of revision v2: deployster pipeline cancel ant-gateway v2")
	why := w.state.Explain(beta)
	assert.Equal(t, []any{reason.IsPaused, "v1", prod}, []any{why[0].Root.Code, why[0].Root.Revision, why[0].Root.Target})

	// A stage that is not asked for is named where the revision itself stands.
	assert.Contains(t, w.sentence("v2", prod), "waits for stage announce: it waits for revision v1: stage prod: paused by ann")
}

func TestAStageBesideABatchDoesNotHoldIt(t *testing.T) {
	d := gated()
	d.Stages[3].After = []string{"build"} // announce, between beta and approve in no order
	d.Stages[4].After = []string{"approve", "announce"}
	d.Stages[2], d.Stages[3] = d.Stages[3], d.Stages[2]
	d.Batches = []definition.Batch{{From: "beta", To: "approve"}}
	w := newTale(t, d, antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	assert.Contains(t, w.sentence("v2", beta), "waits for revision v1 to leave stage approve (event ")
}

func TestWhoIsKeptOutHearsWhetherTheFailureIsTriedAgain(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	assert.Contains(t, w.sentence("v2", prod), "or the success of revision v1, tried again (deployster pipeline retry ant-gateway v1)")
	w.do(PausePipeline{Stage: "prod", ID: w.id(), By: "ann"})
	w.do(Retry{Revision: "v1"})
	says := w.sentence("v2", prod)
	assert.Contains(t, says, "kept out: revision v1 failed in stage prod")
	assert.Contains(t, says, "paused by ann")
	assert.Contains(t, says, "→ the success of revision v1 (stage-resumed: deployster pipeline resume ant-gateway prod); or deployster pipeline resume ant-gateway prod")
	assert.NotContains(t, says, "pipeline retry")
}

func TestWhoWaitsForAHostInFlightHearsWhich(t *testing.T) {
	w := newFleet(t, "a", "b")
	w.state.definition.Stages[1].Deploy.HostGroups[0].MaxInFlight = &budget.Budget{Count: 1}
	w.release("v1", "x86", "aarch64", "raspbian")
	a, b := record.HostTarget("ant-gateway", "beta", "a"), record.HostTarget("ant-gateway", "beta", "b")
	w.until("v1", a, record.HostStarted)
	says := w.sentence("v1", b)
	assert.Contains(t, says, "waits for host a: 1 of 2, and max_in_flight lets 1")
	assert.Contains(t, says, "→ host-finished-successfully or host-failed of "+string(a))
}

func TestWhatIsDoneAgainIsNamedByItsDeployment(t *testing.T) {
	w := failing(t, "1")
	w.do(Repair{Stage: "prod", ID: "again", By: "ann"})
	w.do(Release{Revision: "2", ID: w.id(), Carries: lenientFiles("2")})
	last := func() reason.Reason {
		why := w.state.Explain(record.StageTarget("p", "eu/prod"))
		require.NotEmpty(t, why)
		return why[len(why)-1]
	}
	assert.Contains(t, last().Change(), "the end of revision 1: deployster pipeline cancel p again", "its revision is under way twice")
	w.do(Approve{Revision: "1", Stage: "approve", By: "ann"})
	w.until("1", w.state.target, record.PipelineFinished)
	assert.Equal(t, []any{reason.AwaitsBatch, "1", "again", ""}, []any{last().Code, last().Holder, last().HeldBy, last().Called})
}
