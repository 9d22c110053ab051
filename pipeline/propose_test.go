package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

func gated() *definition.Definition {
	d := antGateway(deployed)
	d.Stages = append(d.Stages[:2:2],
		definition.Stage{Name: "approve", After: []string{"beta"}, Approval: &definition.Approval{}},
		definition.Stage{Name: "announce", After: []string{"approve"}, Run: &definition.Run{Manifest: "announce.yaml", Retries: 2}},
		d.Stages[2])
	d.Stages[4].After = []string{"announce"}
	return d
}

func TestCommandsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.fails[string(record.StageTarget("ant-gateway", "announce"))+" "+record.StageApplied] = "no network"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86")
	w.idle()
	w.release("v3")
	w.do(Cancel{Revision: "v3", Reason: "a mistake"})
	for _, c := range []struct {
		name    string
		command Command
		code    refusal.Code
		want    string
		is      error
	}{
		{"a definition of another pipeline", Define{Definition: &definition.Definition{Name: "other"}}, OtherPipeline, "of pipeline other, not of ant-gateway", nil},
		{"a definition without stages", Define{Definition: &definition.Definition{Name: "ant-gateway"}}, NoStages, "has no stages", nil},
		{"members of no group", SetMembers{Members: map[string][]string{"ant-gateway/bet": nil}}, UnknownGroup, `unknown host group "ant-gateway/bet" of pipeline ant-gateway: did you mean ant-gateway/beta?`, ErrUnknown},
		{"a revision again", Release{Revision: "v1"}, AlreadyReleased, "revision v1 of pipeline ant-gateway is already released (event 4) and running: release another revision", ErrRepeated},
		{"a cancelled revision again", Release{Revision: "v3"}, AlreadyReleased, "and cancelled: retry it, or release another revision", ErrRepeated},
		{"an artifact of no revision", ReceiveArtifact{Revision: "v9", Kind: "x86"}, UnknownRevision, `unknown revision "v9" of pipeline ant-gateway: did you mean v1?`, ErrUnknown},
		{"an artifact of no kind", ReceiveArtifact{Revision: "v2", Kind: "riscv"}, UnknownArtifact, `unknown artifact kind "riscv" of pipeline ant-gateway: it has x86, aarch64, raspbian`, ErrUnknown},
		{"an artifact again", ReceiveArtifact{Revision: "v1", Kind: "x86"}, AlreadyReceived, "artifact x86 of revision v1 was already received (event 5): what others may have used does not change", ErrRepeated},
		{"an artifact of what was cancelled", ReceiveArtifact{Revision: "v3", Kind: "x86"}, NotRunning, "cannot receive an artifact: it is cancelled since event", nil},
		{"approval of no stage", Approve{Revision: "v1", Stage: "aprove"}, UnknownStage, `unknown stage "aprove" of pipeline ant-gateway: did you mean approve?`, ErrUnknown},
		{"approval of another kind of stage", Approve{Revision: "v1", Stage: "beta"}, NoApprovalNeeded, "stage beta does not wait for approval: it is a deploy stage", nil},
		{"approval before its time", Approve{Revision: "v2", Stage: "approve"}, NotReached, "does not wait for approval yet: revision v2 has not reached it (waits for stage beta: stage build: waiting for artifact aarch64)", nil},
		{"cancelling what is cancelled", Cancel{Revision: "v3"}, NotRunning, "cannot be cancelled: it is cancelled since event", nil},
		{"retrying what is running", Retry{Revision: "v1"}, NothingToRetry, "only what failed, was cancelled or was skipped can be retried", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *w
			w.T = t
			err := w.refused(c.command, c.code)
			w.says(err, c.want)
			assert.True(t, c.is == nil || errors.Is(err, c.is), "%v is not %v", err, c.is)
		})
	}
	w.do(Approve{Revision: "v1", Stage: "approve", By: "ann"})
	w.says(w.refused(Approve{Revision: "v1", Stage: "approve"}, AlreadyApproved), "already approved at stage approve")
	w.idle()
	w.refused(ReceiveArtifact{Revision: "v1", Kind: "x86"}, NotRunning)
	w.fails = nil
	w.do(Retry{Revision: "v1"})
	w.idle()
	w.refused(Retry{Revision: "v1"}, NothingToRetry)
	w.refused(Cancel{Revision: "v1"}, NotRunning)
}

func TestBeforeItsDefinitionAPipelineIsUnknown(t *testing.T) {
	s := New("p")
	for _, c := range []Command{
		Release{Revision: "1"}, ReceiveArtifact{Revision: "1", Kind: "x86"}, Approve{Revision: "1", Stage: "a"},
		Cancel{Revision: "1"}, Retry{Revision: "1"}, SetMembers{Members: map[string][]string{"g": nil}},
	} {
		events, err := s.Propose(c, noon)
		assert.ErrorIs(t, err, ErrUnknown, "%#v gives %v, %v", c, events, err)
	}
	for range s.Decide(noon, Can{}) {
		t.Error("there is something to do")
	}
	assert.True(t, len(s.Status()) <= 0 && len(s.Explain("stage/p/a")) == 1, "there is something to tell")
}

func TestWhatIsSoAlreadyNeedsNoEvent(t *testing.T) {
	w := newAntGateway(t, deployed)
	for _, c := range []Command{Define{Definition: antGateway(deployed)}, SetMembers{Members: antHosts}} {
		events := must.Get(w.state.Propose(c, noon))(t)
		assert.Empty(t, events, "%#v gives %v", c, events)
	}
}

func TestADefinitionIsRecordedWithItsIntroductions(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1")
	w.release("v2")
	d := antGateway(deployed, tested)
	d.Stages[0].Build.Artifacts = append(d.Stages[0].Build.Artifacts, "riscv")
	w.do(Define{Definition: d, ID: "fresh", By: "ada"})
	e := w.log[len(w.log)-1]
	var data struct {
		Version    int                    `json:"version"`
		Definition *definition.Definition `json:"definition"`
		Introduced map[string]int         `json:"introduced"`
		Latest     string                 `json:"latest_revision"`
		By         string                 `json:"by"`
	}
	require.NoError(t, json.Unmarshal(e.Data, &data))
	want := map[string]int{"step/beta/host-tested": 2, "step/prod/host-tested": 2, "artifact/build/riscv": 2}
	assert.True(t, e.Deployment == "fresh" && data.Version == 2 && data.Latest == "v2" && data.By == "ada" &&
		reflect.DeepEqual(data.Introduced, want) && reflect.DeepEqual(data.Definition, d), "recorded %s", e.Data)
}

func TestARevisionThatWouldOverwriteANewerOneIsNotRetried(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86", "aarch64", "raspbian")
	w.until("v2", beta, record.StageFinished)
	_, err := w.state.Propose(Retry{Revision: "v1"}, noon)
	assert.NoError(t, err, "v2 has not come to prod, and v1 cannot be retried")
	w.do(ResumePipeline{Stage: "prod", ID: w.id()})
	w.until("v2", onProd, record.HostStarted)
	w.says(w.refused(Retry{Revision: "v1"}, NewerIsAhead), "cannot be retried: the newer revision v2 is at or past stage prod, and it would overwrite it")
	w.fails = nil
	w.idle()
	w.says(w.refused(Retry{Revision: "v1"}, TooLateToRetry), "cannot be retried any more")
}

func TestARevisionIsNotRetriedIntoABatchThatAnotherIsIn(t *testing.T) {
	d := antGateway(deployed)
	d.Batches = []definition.Batch{{From: "beta", To: "prod"}}
	w := newTale(t, d, antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onProd, record.HostStarted)
	w.do(Cancel{Revision: "v1"})
	w.release("v2", "x86", "aarch64", "raspbian")
	w.until("v2", onBeta, record.HostStarted)
	w.do(Cancel{Revision: "v2"})
	w.do(Retry{Revision: "v1"})
	w.says(w.refused(Retry{Revision: "v2"}, BatchIsHeld), "cannot be retried yet: revision v1 is in the batch of stages beta to prod; retry when it has passed prod")
}

func TestOnlyTheLastThatFailedAreKept(t *testing.T) {
	w, stops := newAntGateway(t, deployed), false
	w.state.definition.Stages[1].StopOnFailure = &stops
	w.fails[string(onBeta)+" "+deployed] = "disk full"
	for i := range keptEnded + 5 {
		w.release(fmt.Sprint("v", i), "x86", "aarch64", "raspbian")
		w.idle()
	}
	n := len(w.state.deployments)
	assert.True(t, n == keptEnded && len(w.state.byID) == n, "%d deployments are kept", n)
	w.refused(Retry{Revision: "v4"}, TooLateToRetry)
	assert.True(t, w.state.byID[w.state.revisions[5].Deployment] != nil, "v5 is not kept")
}

// drift finds what of the derived state is not what a fresh derivation gives.
func (s *State) drift() string {
	if s.currentLayout() == nil {
		return ""
	}
	fresh := s.clone()
	fresh.currentLayout()
	for i, d := range s.deployments {
		if got, want := derived(d), derived(fresh.deployments[i]); got != want {
			return fmt.Sprintf("deployment %s has become\n%s, derived anew it is\n%s", d.ID, got, want)
		}
	}
	return ""
}

// derived is everything that lay finds, as text.
func derived(d *deployment.Deployment) string {
	text := fmt.Appendf(nil, "left %d without %v\n", d.Left, d.Skipped)
	for i := range d.Stages {
		run := &d.Stages[i]
		text = fmt.Appendf(text, "%d begun %t passed %t %v\n", i, run.Begun, run.Passed, allOf(run.Marks))
		for g := range run.Groups {
			group := &run.Groups[g]
			text = fmt.Appendf(text, "  %d begun %t finished %t failed %d beside %d open %d in flight %d again %d %v:", g, group.Begun, group.Finished, group.Failed, group.Beside, group.Open, group.InFlight, group.Reopened, allOf(group.Marks))
			for h := group.Head; h != deployment.None; h = group.Hosts[h].Next {
				text = fmt.Appendf(text, " %d", h)
			}
			for h, host := range group.Hosts {
				text = fmt.Appendf(text, "\n    %d last %d broken %t failed %t closed %t %v", h, host.Last, host.StepFailed, host.Failed, host.Closed, allOf(host.Marks))
			}
		}
	}
	return string(text)
}

func allOf(m *record.Marks) []record.Mark {
	if m == nil {
		return nil
	}
	return *m
}

func TestAPipelineIsDeletedWhenNothingOfItIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.says(w.refused(Delete{ID: "late"}, DeploymentRunning), "pipeline ant-gateway cannot be deleted: v1 is in progress; wait for its end, or cancel it with the pipeline (--cancel)")
	w.do(Cancel{Revision: "v1"})
	w.do(Delete{ID: "deletion", By: "ann", Reason: "replaced"})
	last := w.log[len(w.log)-1]
	assert.True(t, last.Name == "pipeline-deleted" && last.Target == "pipeline/ant-gateway" && w.state.Deleted() == last.Seq,
		"the log ends with %+v, and the pipeline is deleted since %d", last, w.state.Deleted())
	assert.True(t, w.state.Definition() == nil && len(w.state.Registrations()) == 0, "it remembers what it was")
	for _, c := range []Command{
		Release{Revision: "2"}, ReceiveArtifact{Revision: "v1", Kind: "x86"}, Approve{Revision: "v1", Stage: "approve"},
		Cancel{Revision: "v1"}, Retry{Revision: "v1"}, SetMembers{}, Delete{ID: "again"},
	} {
		err := w.refused(c, UnknownPipeline)
		w.says(err, `pipeline "ant-gateway": it was deleted (event `)
		assert.ErrorIs(t, err, ErrUnknown)
	}
}

func TestADeletionMayCancelWhatIsUnderWay(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.release("v2")
	w.until("v1", onBeta, record.HostStarted)
	work := slices.Collect(w.state.Decide(noon, Can{}))[0] // is being done when the pipeline is deleted
	before := len(w.log)
	w.do(Delete{ID: "deletion", Cancel: true})
	var names []string
	for _, e := range w.log[before:] {
		names = append(names, e.Name+" "+e.Revision)
	}
	assert.Equal(t, []string{"pipeline-cancelled v1", "pipeline-cancelled v2", "pipeline-deleted "}, names, "recorded")
	w.mayDo()
	done := must.Get(work.Completed(nil))(t)
	w.append(done...) // it is recorded when it ends, and changes nothing
	assert.True(t, w.state.Definition() == nil && len(w.state.Registrations()) == 0, "the end of work brought the pipeline back")
}

// A pipeline that is defined after its deletion has nothing of the one before.
func TestADeletedPipelineIsMadeAnew(t *testing.T) {
	w := newTale(t, gated(), antHosts)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Delete{ID: "deletion", Cancel: true})
	w.do(Define{Definition: gated(), ID: "anew"})
	w.do(SetMembers{Members: antHosts, ID: "hosts-anew"})
	assert.True(t, w.state.Deleted() == 0, "it is still deleted")
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Approve{Revision: "v1", Stage: "approve"})
	w.idle()
	r := w.state.Registrations()
	assert.True(t, len(r) == 1 && r[0].Status == deployment.Finished, "the revisions are %+v", r)
	// What a log says of a deletion that there was nothing for is no news.
	s := New("ant-gateway")
	s.Apply(w.log[len(w.log)-1])
	for _, e := range w.log {
		if e.Name == record.PipelineDeleted {
			s.Apply(e)
		}
	}
	assert.True(t, s.Deleted() == 0, "what never was is deleted")
}

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
	w.do(Approve{Revision: "1", Stage: "approve", By: by, ID: w.id()})
}

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
	must.Get(w.state.Propose(Approve{Revision: "1", Stage: "approve", By: "ann", ID: w.id()}, began.Add(time.Hour-1)))(t)
	assert.Equal(t, began.Add(time.Hour), w.state.Wake())
	for _, step := range []struct {
		at   time.Duration
		late bool
	}{{time.Hour - 1, false}, {-5 * time.Hour, false}, {6 * time.Hour, true}, {-5 * time.Hour, false}, {time.Hour - 1, false}} { // the clock is set back, ahead, and right again
		assert.Equal(t, step.late, len(slices.Collect(w.state.Decide(began.Add(step.at), Can{}))) > 0, "at %s", step.at)
	}
	_, err := w.state.Propose(Approve{Revision: "1", Stage: "approve", By: "bob", ID: w.id()}, began.Add(time.Hour))
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
