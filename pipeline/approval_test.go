package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// asked is a pipeline whose revision 1 waits for so many approvals.
func asked(t *testing.T, approvals int) *tale {
	t.Helper()
	d := gate()
	d.Stages[1].Approval = &definition.Approval{Approvals: approvals}
	w := newTale(t, d, nil)
	w.do(Release{Revision: "1", ID: w.id(), Carries: record.Files{"announce.yaml": "as released"}})
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x"})
	w.idle()
	return w
}

func (w *tale) approve(by string) {
	w.Helper()
	w.do(Approve{Revision: "1", Stage: "approve", By: by, ID: w.id()})
}

// waits wants to know what of the approval is missing.
func (w *tale) waits(want string) {
	w.Helper()
	for _, r := range w.state.Explain(stageOf("approve")) {
		if r.Code == reason.AwaitsApproval {
			assert.Equal(w, want, r.Message(), "it waits")
			return
		}
	}
	w.Errorf("it does not wait for approval: %v", texts(w.state.Explain(stageOf("approve"))))
}

func TestSeveralPeopleApproveAndEachCountsOnce(t *testing.T) {
	w := asked(t, 2)
	w.waits("approval missing: 2, by different people or keys")
	w.approve("ann")
	w.waits("approved by ann, 1 more of 2 by another")
	w.says(w.refused(Approve{Revision: "1", Stage: "approve", By: "ann", ID: w.id()}, AlreadyApproved), "is already approved at stage approve by ann, who counts once; 1 more of 2 by another")
	w.mayDo()
	w.approve("bob")
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
	last := w.log[w.seq("1", stageOf("approve"), record.StageApproved)-1]
	assert.Equal(t, []string{"ann"}, record.ApprovalOf(last).Others, "named beside who gave the last approval")
}

// One approval, as it always was, is one event; what it is of is in it.
func TestOneApprovalIsOfWhatTheRevisionCarries(t *testing.T) {
	w := asked(t, 0)
	w.waits("approval missing")
	carries := w.state.byID[w.state.Registrations()[0].Deployment].Carried()
	w.says(w.refused(Approve{Revision: "1", Stage: "approve", By: "ann", Carries: "sha256:other"}, CarriesOther), "does not carry what is approved at stage approve: that has the hash sha256:other, and it carries "+carries)
	w.do(Approve{Revision: "1", Stage: "approve", By: "ann", Reason: "tested", Carries: carries})
	e := w.log[len(w.log)-1]
	info := record.ApprovalOf(e)
	assert.True(t, e.Name == record.StageApproved && info.Carries == carries && record.Cause(e) == "tested",
		"the approval is %s %s", e.Name, e.Data)
	other := asked(t, 0)
	assert.Equal(t, carries, other.state.byID[other.state.Registrations()[0].Deployment].Carried(), "a pipeline that carries the same has the hash")
}

// An approval that former versions recorded counts as it did.
func TestAnApprovalWithoutAHashCounts(t *testing.T) {
	w := asked(t, 3)
	d := w.state.byID[w.state.Registrations()[0].Deployment]
	w.append(d.Event(stageOf("approve"), record.StageApproved, record.Payload{By: "ann"}))
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
}

func TestAnApprovalIsVoidWhenSomethingElseIsCarried(t *testing.T) {
	w := asked(t, 2)
	w.approve("ann")
	d := cloneDefinition(w.state.Definition())
	w.do(Define{Definition: d, ID: w.id(), Carries: record.Files{"announce.yaml": "changed"}, Adopt: []string{"1"}})
	w.waits("approval missing: 2, by different people or keys; the approval by ann (event 7) is void: what the revision carries has changed since")
	w.approve("bob")
	w.waits("approved by bob, 1 more of 2 by another; the approval by ann (event 7) is void: what the revision carries has changed since")
	w.mayDo()
	w.approve("ann")
	w.mayDo("1 stage-finished-successfully stage/approve")
	w.says(w.refused(Define{Definition: d, ID: w.id(), Carries: record.Files{"announce.yaml": "changed again"}, Adopt: []string{"1"}}, AlreadyApproved),
		"revision 1 cannot adopt a definition: it is already approved at stage approve (event 10), for what it carries; release another revision")
}

func TestARetryAsksForAllApprovalsAgain(t *testing.T) {
	w := asked(t, 2)
	w.approve("ann")
	w.do(Reject{Revision: "1", Stage: "approve", By: "bob", Reason: "no"})
	w.wantEnded("1", deployment.Failed, "", "stage approve failed: rejected by bob: no")
	w.refused(Approve{Revision: "1", Stage: "approve", By: "eve", ID: w.id()}, NotRunning)
	w.do(Retry{Revision: "1"})
	w.waits("approval missing: 2, by different people or keys; the approval by ann (event 7) is void: the revision was retried since")
	w.approve("bob")
	w.mayDo()
	w.approve("ann")
	w.mayDo("1 stage-finished-successfully stage/approve")
}

// The stage began at an hour, which the log says; nobody needs to be there when it expires.
func TestAnApprovalThatDoesNotComeInTimeFailsTheStage(t *testing.T) {
	w := asked(t, 2)
	d := cloneDefinition(w.state.Definition())
	d.Stages[1].Approval.Expires = duration.Duration(time.Hour)
	w.do(Define{Definition: d, ID: w.id()})
	began := time.Time{} // of the stage: the tale's log has no times
	_, err := w.state.Propose(Approve{Revision: "1", Stage: "approve", By: "ann", ID: w.id()}, began.Add(time.Hour-1))
	require.NoError(t, err)
	assert.Equal(t, began.Add(time.Hour), w.state.Wake())
	assert.Empty(t, slices.Collect(w.state.Decide(began.Add(time.Hour-1), Can{})), "before its time")
	_, err = w.state.Propose(Approve{Revision: "1", Stage: "approve", By: "bob", ID: w.id()}, began.Add(time.Hour))
	w.says(err, "revision 1 cannot be approved at stage approve any more: nobody did so within 1h; retry it to ask again")
	w.complete("1", stageOf("approve"), record.StageFailed)
	w.idle()
	w.wantEnded("1", deployment.Failed, "", "stage approve failed: it was not approved within 1h")
}

// What no version of the program records is ignored.
func TestApprovalsOfNothingAreIgnored(t *testing.T) {
	w := asked(t, 2)
	for i, data := range []string{``, `{}`, `{"by":"ann"}`, `{"by":"ann","approval":{}}`, `{"by":"ann","approval":{"deployment":"other","carries":"x"}}`, `[]`} {
		w.append(deploylog.Event{Deployment: w.id(), Target: stageOf("approve"), Name: record.StageApprovalGiven, Attempt: 1, Data: []byte(data)})
		got := w.state.Explain(stageOf("approve"))
		assert.True(t, got[0].Code == reason.AwaitsApproval && len(got[0].Approval.By) == 0, "%d: %v", i, texts(got))
	}
}
