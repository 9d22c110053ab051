package pipeline

import (
	"slices"
	"strings"
	"testing"
	"time"

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
			if got := r.Message(); got != want {
				w.Errorf("it waits: %s\nnot: %s", got, want)
			}
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
	for _, e := range w.log {
		if info := record.ApprovalOf(e); e.Name == record.StageApproved && !slices.Equal(info.Others, []string{"ann"}) {
			t.Errorf("the last approval names %q beside who gave it", info.Others)
		}
	}
}

// One approval, as it always was, is one event; what it is of is in it.
func TestOneApprovalIsOfWhatTheRevisionCarries(t *testing.T) {
	w := asked(t, 0)
	w.waits("approval missing")
	carries := w.state.byID[w.state.Registrations()[0].Deployment].Carried()
	w.says(w.refused(Approve{Revision: "1", Stage: "approve", By: "ann", Carries: "sha256:other"}, CarriesOther), "does not carry what is approved at stage approve: that has the hash sha256:other, and it carries "+carries)
	w.do(Approve{Revision: "1", Stage: "approve", By: "ann", Reason: "tested", Carries: carries})
	e := w.log[len(w.log)-1]
	if info := record.ApprovalOf(e); e.Name != record.StageApproved || info.Carries != carries || record.Cause(e) != "tested" {
		t.Errorf("the approval is %s %s", e.Name, e.Data)
	}
	other := asked(t, 0)
	if same := other.state.byID[other.state.Registrations()[0].Deployment].Carried(); same != carries {
		t.Errorf("a pipeline that carries the same has the hash %s, not %s", same, carries)
	}
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

// A definition that brings a step which the revision did not have changes what was approved.
func TestANewStepMakesApprovalsVoid(t *testing.T) {
	w := asked(t, 2)
	w.approve("ann")
	d := cloneDefinition(w.state.Definition())
	d.Stages = append(d.Stages, run("late", "announce"))
	w.do(Define{Definition: d, ID: w.id(), Carries: record.Files{"announce.yaml": "as released", "late.yaml": "new"}})
	w.waits("approval missing: 2, by different people or keys; the approval by ann (event 7) is void: what the revision carries has changed since")
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

func TestWhereFewerApprovalsAreNeededThoseThatAreThereCount(t *testing.T) {
	w := asked(t, 3)
	w.approve("ann")
	w.approve("bob")
	w.mayDo()
	d := cloneDefinition(w.state.Definition())
	d.Stages[1].Approval.Approvals = 2
	w.do(Define{Definition: d, ID: w.id()})
	w.mayDo("1 stage-approved stage/approve")
	w.idle()
	w.wantEnded("1", deployment.Finished, "", "")
}

// The stage began at an hour, which the log says; nobody needs to be there when it expires.
func TestAnApprovalThatDoesNotComeInTimeFailsTheStage(t *testing.T) {
	w := asked(t, 2)
	d := cloneDefinition(w.state.Definition())
	d.Stages[1].Approval.Expires = duration.Duration(time.Hour)
	w.do(Define{Definition: d, ID: w.id()})
	began := time.Time{} // of the stage: the tale's log has no times
	early := Approve{Revision: "1", Stage: "approve", By: "ann", ID: w.id()}
	events, err := w.state.Propose(early, began.Add(time.Hour-1))
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	if wake := w.state.Wake(); !wake.Equal(began.Add(time.Hour)) {
		t.Errorf("it wakes at %v", wake)
	}
	if text := texts(w.state.Explain(stageOf("approve"))); !strings.Contains(strings.Join(text, "\n"), "awaits-approval") {
		t.Errorf("it is explained by %v", text)
	}
	for s := range w.state.Decide(began.Add(time.Hour-1), Can{}) {
		t.Errorf("before its time it may do %s", s.Event)
	}
	_, err = w.state.Propose(Approve{Revision: "1", Stage: "approve", By: "bob", ID: w.id()}, began.Add(time.Hour))
	w.says(err, "revision 1 cannot be approved at stage approve any more: nobody did so within 1h; retry it to ask again")
	for s := range w.state.Decide(began.Add(time.Hour), Can{}) {
		events, err := s.Completed(nil)
		if err != nil || s.Event != record.StageFailed {
			t.Fatalf("it expires by %s (%v)", s.Event, err)
		}
		w.append(events...)
	}
	w.idle()
	w.wantEnded("1", deployment.Failed, "", "stage approve failed: it was not approved within 1h")
}

// What no version of the program records is ignored.
func TestApprovalsOfNothingAreIgnored(t *testing.T) {
	w := asked(t, 2)
	for i, data := range []string{``, `{}`, `{"by":"ann"}`, `{"by":"ann","approval":{}}`, `{"by":"ann","approval":{"deployment":"other","carries":"x"}}`, `[]`} {
		w.append(deploylog.Event{Deployment: w.id(), Target: stageOf("approve"), Name: record.StageApprovalGiven, Attempt: 1, Data: []byte(data)})
		if got := w.state.Explain(stageOf("approve")); got[0].Code != reason.AwaitsApproval || len(got[0].Approval.By) > 0 {
			t.Errorf("%d: %v", i, texts(got))
		}
	}
}
