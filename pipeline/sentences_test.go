package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

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
		assert.Equal(t, want, c.Message(), "it says")
	}
}
