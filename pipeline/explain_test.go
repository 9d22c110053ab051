package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// codes are the reasons that Explain gives of a target, in short.
func (w *tale) codes(t deploylog.Target) string {
	var lines []string
	for _, r := range w.state.Explain(t) {
		lines = append(lines, r.Revision+" "+r.Event+": "+short(r))
	}
	return strings.Join(lines, "\n")
}

// short is a reason without the sentences.
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
	w.Helper()
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
	w.Helper()
	var define *Define
	if d != nil {
		define = &Define{Definition: d}
	}
	changes, err := w.state.Preview(define, members)
	require.NoError(w, err)
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

// What a preview promises is what happens.
func TestWhatThePreviewTellsComesTrue(t *testing.T) {
	for _, at := range []struct {
		target deploylog.Target
		event  string
	}{{beta, record.StageStarted}, {onBeta, deployed}, {onBeta, record.HostFinished}, {beta, record.StageFinished}, {onProd, deployed}} {
		w := newAntGateway(t, deployed)
		w.release("v1", "x86", "aarch64", "raspbian")
		w.until("v1", at.target, at.event)
		d := antGateway(deployed, tested)
		changes, err := w.state.Preview(&Define{Definition: d}, nil)
		require.True(t, err == nil && len(changes) == 2, "%v, %v", changes, err)
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
