package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

func (w *tale) codes(t deploylog.Target) string {
	var lines []string
	for _, r := range w.state.Explain(t) {
		lines = append(lines, r.Revision+" "+r.Event+": "+short(r))
	}
	return strings.Join(lines, "\n")
}

func short(r reason.Reason) string {
	text := string(r.Code)
	for _, detail := range []string{r.Name, r.To, r.Holder, r.ByEvent, string(r.By), r.Cause} {
		if detail != "" {
			text += " " + detail
		}
	}
	if r.Seq > 0 {
		text += fmt.Sprintf(" #%d", r.Seq)
	}
	return text
}

func (w *tale) explains(t deploylog.Target, want string) {
	got := w.codes(t)
	assert.True(w, got == want, "of %s it gives\n%s, not\n%s\nafter\n%s", t, got, want, strings.Join(w.story(), "\n"))
}

func TestExplainNamesTheReasonTheEventAndTheRemedy(t *testing.T) {
	build, approve, announce := record.StageTarget("ant-gateway", "build"), record.StageTarget("ant-gateway", "approve"), record.StageTarget("ant-gateway", "announce")
	d := gated()
	d.Batches = []definition.Batch{{From: "beta", To: "announce"}}
	w := newTale(t, d, antHosts)
	w.fails[string(announce)+" "+record.StageApplied] = "no network"
	w.release("v1", "x86", "aarch64")
	w.explains(build, "v1 stage-started: ready")
	w.idle()
	w.explains(build, "v1 build-stage-received-raspbian-artifact: awaits-artifact raspbian")
	w.explains(onBeta, "v1 stage-started: awaits-stage build stage/ant-gateway/build")
	w.do(ReceiveArtifact{Revision: "v1", Kind: "raspbian"})
	w.idle()
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	w.explains(approve, "v1 stage-approved: awaits-approval approve\n"+
		"v2 stage-started: awaits-stage beta stage/ant-gateway/beta")
	w.explains(beta, "v2 stage-started: awaits-batch approve announce v1 stage-started stage/ant-gateway/approve #17")
	w.do(Approve{Stage: "approve", Revision: "v1"})
	w.until("v1", announce, record.StageApplied+"-failed")
	w.explains(announce, "v1 stage-failed: ready no network\n"+
		"v2 stage-started: awaits-stage approve stage/ant-gateway/approve")
	w.until("v1", w.state.target, record.PipelineFailed)
	w.explains(announce, "v1 pipeline-finished-successfully: failed pipeline-failed pipeline/ant-gateway stage announce failed: no network #29\n"+
		"v1 stage-finished-successfully: failed stage-manifest-applied-failed stage/ant-gateway/announce stage-manifest-applied failed: no network #27\n"+
		"v2 stage-started: awaits-stage approve stage/ant-gateway/approve")
	w.do(Cancel{Revision: "v2", Reason: "too slow"})
	w.explains(w.state.target, "v1 pipeline-finished-successfully: failed pipeline-failed pipeline/ant-gateway stage announce failed: no network #29\n"+
		"v1 stage-finished-successfully: failed stage-manifest-applied-failed stage/ant-gateway/announce stage-manifest-applied failed: no network #27\n"+
		"v2 pipeline-finished-successfully: cancelled pipeline-cancelled pipeline/ant-gateway too slow #30")
}

func TestExplainTellsWhatIsNotNewByTheEventThatMakesItSo(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostFinished)
	d := antGateway(deployed, tested)
	d.Stages[0].Build.Artifacts = append(d.Stages[0].Build.Artifacts, "riscv")
	w.do(Define{Definition: d, ID: "d"})
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": {"antworker002", "late"}}, ID: "m"})
	w.explains(onBeta, "v1 host-tested: not-new host-finished-successfully host/ant-gateway/beta/antworker002 #14")
	w.explains(record.StageTarget("ant-gateway", "build"), "v1 build-stage-received-riscv-artifact: came-later riscv pipeline-defined pipeline/ant-gateway #15")
	w.until("v1", onProd, deployed)
	w.explains(onProd, "v1 host-finished-successfully: ready\n"+
		"v1 host-tested: left-out host-tested host-finished-successfully host/ant-gateway/beta/antworker002 #14")
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": {"antworker002", "late", "later"}}, ID: "n"})
	w.explains(record.HostTarget("ant-gateway", "ant-gateway/beta", "later"), "v1 host-started: not-new host-group-finished-successfully host-group/ant-gateway/beta #20")
}

func TestExplainOfWhatIsNotThereTellsWhatMayBeMeant(t *testing.T) {
	w := newAntGateway(t, deployed)
	for target, want := range map[deploylog.Target]string{
		"stage/ant-gateway/bta":                    "no-target stage/ant-gateway/beta",
		"host-group/ant-gateway/prd":               "no-target host-group/ant-gateway/prod",
		"host/ant-gateway/beta/nobody":             "no-member ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2",
		"host/ant-gateway/nothing/nobody":          "no-target",
		"resource/db":                              "no-target",
		record.HostTarget("ant-gateway", "g", "h"): "no-target",
	} {
		got := w.state.Explain(target)
		assert.True(t, len(got) == 1 && short(got[0]) == want, "of %s it says %v", target, got)
	}
}

func (w *tale) changes(d *definition.Definition, members map[string][]string) []string {
	var define *Define
	if d != nil {
		define = &Define{Definition: d}
	}
	changes := must.Get(w.state.Preview(define, members))(w)
	var lines []string
	for _, c := range changes {
		text := fmt.Sprintf("%s: %s of %s %s", c.Revision, c.Event, c.Target, c.Effect)
		if c.Reason.Code != "" {
			text += ": " + short(c.Reason)
		}
		lines = append(lines, text)
	}
	return lines
}

func TestPreviewTellsWhatAChangeDoesToEachRevisionUnderWay(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostFinished)
	w.release("v2", "x86")
	d := antGateway(deployed, tested)
	d.Stages = append(d.Stages, definition.Stage{Name: "announce", After: []string{"prod"}, Run: &definition.Run{Manifest: "m"}})
	d.Stages[0].Build.Artifacts = []string{"x86", "aarch64", "riscv"}
	want := []string{
		"v1: build-stage-received-riscv-artifact of stage/ant-gateway/build is skipped: came-later riscv pipeline-defined pipeline/ant-gateway",
		"v1: host-tested of host/ant-gateway/beta/antworker002 is skipped: not-new host-finished-successfully host/ant-gateway/beta/antworker002 #14",
		"v1: host-tested of host/ant-gateway/prod/antworker001 is refused: left-out host-tested host-finished-successfully host/ant-gateway/beta/antworker002 #14",
		"v1: stage-started of stage/ant-gateway/announce runs",
		"v1: stage-manifest-applied of stage/ant-gateway/announce runs",
		"v1: stage-finished-successfully of stage/ant-gateway/announce runs",
		"v2: build-stage-received-riscv-artifact of stage/ant-gateway/build is skipped: came-later riscv pipeline-defined pipeline/ant-gateway",
		"v2: host-tested of host/ant-gateway/beta/antworker002 runs",
		"v2: host-tested of host/ant-gateway/prod/antworker001 runs",
		"v2: stage-started of stage/ant-gateway/announce runs",
		"v2: stage-manifest-applied of stage/ant-gateway/announce runs",
		"v2: stage-finished-successfully of stage/ant-gateway/announce runs",
		"v2: build-stage-received-raspbian-artifact of stage/ant-gateway/build no longer runs",
	}
	before := len(w.log)
	got := w.changes(d, nil)
	assert.True(t, slices.Equal(got, want), "it tells\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	assert.Len(t, w.log, before, "a preview changed the state")
	assert.Empty(t, w.changes(nil, nil))
	assert.Empty(t, w.state.drift())
	want = []string{
		"v1: host-started of host/ant-gateway/beta/antworker003 runs",
		"v1: host-deployed of host/ant-gateway/beta/antworker003 runs",
		"v1: host-finished-successfully of host/ant-gateway/beta/antworker003 runs",
	}
	members := map[string][]string{"ant-gateway/beta": {"antworker002", "antworker003"}}
	got = w.changes(nil, members)
	assert.True(t, slices.Equal(got[:3], want) && len(got) == 6, "of a host that joins it tells\n%s", strings.Join(got, "\n"))
	_, err := w.state.Preview(nil, map[string][]string{"nothing": nil})
	assert.Error(t, err, "a group that is not there was not refused")
}

func TestWhatThePreviewTellsComesTrue(t *testing.T) {
	for _, at := range []struct {
		target deploylog.Target
		event  string
	}{{beta, record.StageStarted}, {onBeta, deployed}, {onBeta, record.HostFinished}, {beta, record.StageFinished}, {onProd, deployed}} {
		w := newAntGateway(t, deployed)
		w.release("v1", "x86", "aarch64", "raspbian")
		w.until("v1", at.target, at.event)
		d := antGateway(deployed, tested)
		changes := must.Get(w.state.Preview(&Define{Definition: d}, nil))(t)
		require.Len(t, changes, 2)
		w.do(Define{Definition: d, ID: "d"})
		w.idle()
		for _, c := range changes {
			got := w.happened("v1", c.Target, c.Event)
			assert.True(t, got == (c.Effect == effect.Runs), "at %s of %s: %s; it came to pass: %t", at.event, at.target, c.Message(), got)
		}
	}
}

func TestStatusHasARowForEachPlaceAndRevision(t *testing.T) {
	w := newTale(t, gated(), map[string][]string{"ant-gateway/beta": {"one", "two"}, "ant-gateway/prod": {"three"}})
	two := record.HostTarget("ant-gateway", "ant-gateway/beta", "two")
	w.fails[string(two)+" "+deployed] = "disk full"
	w.state.definition.Stages[1].Deploy.HostGroups[0].MaxFailed = budget.Budget{Count: 1}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.release("v2", "x86")
	w.idle()
	got := []string{}
	for _, r := range w.state.Status() {
		if r.Open+r.Failed+r.Hosts > 0 {
			got = append(got, r.Revision+" "+string(r.Target)+" "+string(r.Progress)+": "+strings.Repeat("open ", r.Open)+strings.Repeat("failed ", r.Failed)+"of "+strings.Repeat("|", r.Hosts))
			continue
		}
		got = append(got, r.Revision+" "+string(r.Target)+" "+string(r.Progress))
	}
	want := []string{
		"v1 pipeline/ant-gateway running",
		"v1 stage/ant-gateway/build finished",
		"v1 stage/ant-gateway/beta finished",
		"v1 host-group/ant-gateway/beta finished: failed of ||",
		"v1 host/ant-gateway/beta/one finished",
		"v1 host/ant-gateway/beta/two failed",
		"v1 stage/ant-gateway/approve waiting",
		"v1 stage/ant-gateway/announce pending",
		"v1 stage/ant-gateway/prod pending",
		"v1 host-group/ant-gateway/prod pending: open of |",
		"v1 host/ant-gateway/prod/three pending",
		"v2 pipeline/ant-gateway running",
		"v2 stage/ant-gateway/build waiting",
		"v2 stage/ant-gateway/beta pending",
		"v2 host-group/ant-gateway/beta pending: open open of ||",
		"v2 host/ant-gateway/beta/one pending",
		"v2 host/ant-gateway/beta/two pending",
		"v2 stage/ant-gateway/approve pending",
		"v2 stage/ant-gateway/announce pending",
		"v2 stage/ant-gateway/prod pending",
		"v2 host-group/ant-gateway/prod pending: open of |",
		"v2 host/ant-gateway/prod/three pending",
	}
	assert.True(t, slices.Equal(got, want), "the rows are\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	w.do(Cancel{Revision: "v1"})
	rows := w.state.Status()
	if rows[0].Progress != IsStopped || rows[0].Since != int64(len(w.log)) || rows[6].Progress != IsStopped || rows[7].Progress != IsSkipped {
		t.Errorf("after it was cancelled: %+v", rows[:8])
	}
}

// What people read of a reason is said here once; other tests want codes.
func TestTheSentencesOfReasons(t *testing.T) {
	for _, c := range []struct {
		reason          reason.Reason
		message, change string
	}{
		{reason.Reason{Code: reason.Ready}, "ready", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.Ready, Cause: "no network"}, "ready: no network", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.AwaitsStage, Name: "beta", By: "stage/p/beta"}, "waits for stage beta", "stage-finished-successfully of stage/p/beta"},
		{reason.Reason{Code: reason.AwaitsBatch, Name: "approve", To: "announce", Holder: "v1", Seq: 17}, "waits for revision v1, at stage approve, to leave stage announce (event 17)", "stage-finished-successfully of stage announce, or the end of revision v1: deployster pipeline cancel p v1"},
		{reason.Reason{Code: reason.AwaitsArtifact, Name: "x86"}, "waiting for artifact x86", "host-deployed: deployster pipeline artifact p v2 x86 --ref REFERENCE"},
		{reason.Reason{Code: reason.AwaitsApproval, Name: "approve"}, "approval missing", "stage-approved: deployster pipeline approve p approve v2"},
		{reason.Reason{Code: reason.AwaitsMembers, Name: "g"}, "the hosts of group g are not known yet", "host-group-members-changed of host group g"},
		{reason.Reason{Code: reason.NoHosts, Name: "g", Seq: 3}, "host group g holds: its query selects no host of the inventory (event 3)", "host-group-members-changed of host group g, with a host; or allow_empty: true in its definition"},
		{reason.Reason{Code: reason.AwaitsConfirmation, Name: "g", Cause: "2 of 3 hosts would leave it at once, and max_leaving lets 1 go: a, b", Seq: 3}, "host group g holds: 2 of 3 hosts would leave it at once, and max_leaving lets 1 go: a, b (event 3)", "host-group-members-changed of host group g: when the hosts are back, or by deployster pipeline confirm p g"},
		{reason.Reason{Code: reason.AwaitsFix, Name: "s", Holder: "v1", Called: "v1", By: "stage/p/s", Cause: "disk full", Seq: 5}, "kept out: revision v1 failed in stage s (event 5)",
			"deployster pipeline resume p s; a revision released as a fix (deployster pipeline release p REVISION --fix); or the success of revision v1, tried again (deployster pipeline retry p v1)"},
		{reason.Reason{Code: reason.AwaitsFlight, Name: "g", Cause: "2 of 4, and max_in_flight lets 2", By: "host/p/g/o", Seq: 5}, "waits for host o: 2 of 4, and max_in_flight lets 2 (event 5)", "host-finished-successfully or host-failed of host/p/g/o"},
		{reason.Reason{Code: reason.IsPaused, Actor: "ann", Since: time.Date(2026, 11, 22, 13, 5, 28, 0, time.Local), Cause: "freeze", By: "pipeline/p", Seq: 5}, "paused by ann since 2026-11-22 13:05:28: freeze (event 5)", "pipeline-resumed: deployster pipeline resume p"},
		{reason.Reason{Code: reason.IsPaused, Name: "s", By: "stage/p/s", Seq: 5}, "paused (event 5)", "stage-resumed: deployster pipeline resume p s"},
		{reason.Reason{Code: reason.NotNew, By: "host/p/g/h", ByEvent: "host-tested", Seq: 14}, "not new: host-tested already recorded by event 14", "none of this deployment: the next revision does it"},
		{reason.Reason{Code: reason.NotNew, By: "stage/p/s", ByEvent: "stage-started", Seq: 14}, "not new: stage-started of stage/p/s already recorded by event 14", "none of this deployment: the next revision does it"},
		{reason.Reason{Code: reason.LeftOut, By: "host/p/g/o", ByEvent: "host-tested", Seq: 14}, "left out: this revision is older than the step, and skipped it on host/p/g/o with host-tested (event 14)", "none of this deployment: the next revision does it"},
		{reason.Reason{Code: reason.CameLater, Name: "riscv", Seq: 15}, "left out: artifact riscv was introduced after this revision was registered (event 15)", "none of this deployment: the next revision does it"},
		{reason.Reason{Code: reason.HasFailed, Cause: "host-deployed failed: disk full", Seq: 9}, "failed: host-deployed failed: disk full (event 9)", "pipeline-retried: deployster pipeline retry p v2"},
		{reason.Reason{Code: reason.HasFailed, Name: "s", Cause: "host-deployed failed: disk full", Seq: 9}, "failed: host-deployed failed: disk full (event 9)", "host-finished-successfully of the host, once the stage has finished: deployster pipeline repair p s"},
		{reason.Reason{Code: reason.WasCancelled, Cause: "too slow", Seq: 30}, "cancelled: too slow (event 30)", "pipeline-retried: deployster pipeline retry p v2"},
		{reason.Reason{Code: reason.WasSkipped, Cause: "not wanted", Seq: 30}, "skipped: not wanted (event 30)", "pipeline-retried: deployster pipeline retry p v2"},
		{reason.Reason{Code: reason.WasSuperseded, Holder: "v3", Seq: 30}, "superseded by revision v3 (event 30)", "none: the newest revision wins in this pipeline"},
		{reason.Reason{Code: reason.NoMember, Name: "g", Seq: 2}, "the host is not a member of host group g (event 2)", "host-group-members-changed of host group g"},
		{reason.Reason{Code: reason.NoTarget}, "the pipeline has no such target", "pipeline-defined, with such a target"},
		{reason.Reason{Code: reason.NoTarget, Name: "stage/p/beta"}, "the pipeline has no such target; did you mean stage/p/beta?", "pipeline-defined, with such a target"},
		{reason.Reason{Code: reason.InRun, Run: "R1", Since: noon, Quiet: noon.Add(time.Minute), Seq: 40}, "being done by run R1 since 2030-01-01 12:00:00 UTC; nothing has come of it since 2030-01-01 12:01:00 UTC, and its engine may not answer (event 40)", "host-deployed, once the scheduler has done it; where it hangs, pipeline cancel of its revision frees its slots after a minute, and a second Ctrl-C ends its scheduler"},
		{reason.Reason{Code: reason.AwaitsWork, Work: "host-deployed", WorkTarget: "host/p/g/h", Holder: "41", Seq: 40}, "host-deployed of host/p/g/h is still being done for revision 41 (event 40)", "the end of that work; where it hangs, pipeline cancel of its revision frees its slots after a minute, and a second Ctrl-C ends its scheduler"},
		{reason.Reason{Code: reason.AwaitsWork, Work: "stage-deployed", WorkTarget: "stage/p/prod", Holder: "41", Seq: 40}, "stage-deployed of stage/p/prod is still being done for revision 41 (event 40)", "the end of that work"},
		{reason.Reason{Code: reason.InRun, Since: noon}, "being done since 2030-01-01 12:00:00 UTC; nothing of it has begun on its engine yet, which may not answer", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.InRun, Run: "R1", Seq: 40}, "being done by run R1 (event 40)", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.NoScheduler}, "ready, but no scheduler is running: deployster pipeline run", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.NoScheduler, Scheduler: "the scheduler, process 7 on h, serves q"}, "ready, but no scheduler serves it (the scheduler, process 7 on h, serves q): deployster pipeline run", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.SilentScheduler, Scheduler: "the scheduler, process 7 on h, has recorded no heartbeat for 40s"}, "ready, but the scheduler, process 7 on h, has recorded no heartbeat for 40s", "that scheduler going on, or its end: another one takes over then"},
		{reason.Reason{Code: reason.InRun, Run: "R1", Scheduler: "the scheduler, process 7 on h, has recorded no heartbeat for 40s"}, "being done by run R1, but the scheduler, process 7 on h, has recorded no heartbeat for 40s", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.AwaitsRetry, Run: "R1", Seq: 40, Try: 2, Of: 4, Until: noon, Cause: "exit code 7"}, "try 2 of 4, run R1, failed, next try at 12:00:00 UTC: exit code 7 (event 40)", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.AwaitsSlot}, "ready: waiting for a free slot of the scheduler (--parallelism)", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.AwaitsHost, ByEvent: "host-tested", By: "host/q/g/h", Run: "R1", Seq: 40}, "slot busy: host-tested of host/q/g/h is being done on the host by run R1 (event 40)", "the end of that run"},
		{reason.Reason{Code: reason.AwaitsSlot, ByEvent: "host-tested", By: "host/q/g/h", Run: "R1", Seq: 40}, "ready: waiting for a free slot of the scheduler (--parallelism); run R1 has one, for host-tested of host/q/g/h (event 40)", "host-deployed, once the scheduler has done it"},
		{reason.Reason{Code: reason.AwaitsHost, ByEvent: "host-tested", By: "host/q/g/h", Holder: "v7"}, "slot held: revision v7 has begun its steps as host/q/g/h, and host-tested comes next there", "host-finished-successfully or host-failed of host/q/g/h, or the end of its deployment: deployster pipeline cancel q v7"},
		{reason.Reason{Code: reason.AwaitsEnvironment, Name: "shop/prod"}, "waits until its deployment to environment shop/prod has finished: deployster explain environment/shop/prod", "host-deployed, once the scheduler has done it"},
	} {
		t.Run(string(c.reason.Code), func(t *testing.T) {
			r := c.reason
			r.Revision, r.Target, r.Event = "v2", "host/p/g/h", "host-deployed"
			assert.True(t, r.Message() == c.message && r.Change() == c.change,
				"it says\n  %s\n  → %s\nwant\n  %s\n  → %s", r.Message(), r.Change(), c.message, c.change)
		})
	}
}

func TestTheSentencesOfChanges(t *testing.T) {
	for want, c := range map[string]effect.Change{
		"stage-started of stage/p/s runs":                                               {Effect: effect.Runs},
		"stage-started of stage/p/s is skipped: not new: x already recorded by event 3": {Effect: effect.Skipped, Reason: reason.Reason{Code: reason.NotNew, Target: "stage/p/s", By: "stage/p/s", ByEvent: "x", Seq: 3}},
		"stage-started of stage/p/s no longer runs: no longer in the pipeline":          {Effect: effect.Ends},
	} {
		c.Target, c.Event = "stage/p/s", "stage-started"
		assert.Equal(t, want, c.Message())
	}
}

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
