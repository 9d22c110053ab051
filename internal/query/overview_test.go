package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/runner/report"
)

// The order of revisions is that of their registration: neither that of their
// names nor that in which they came somewhere.
func TestTheLatestRevisionIsTheOneRegisteredLast(t *testing.T) {
	o := newOverview()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, e := range []struct{ deployment, revision, target, name string }{
		{"", "", "pipeline/p", "pipeline-defined"},
		{"A", "r9", "pipeline/p", "pipeline-started"},
		{"B", "r1", "pipeline/p", "pipeline-started"},
		{"C", "r5", "pipeline/p", "pipeline-started"},
		{"B", "r1", "stage/p/s", "stage-finished-successfully"},
		{"A", "r9", "stage/p/s", "stage-finished-successfully"},
		{"C", "r5", "stage/p/s", "stage-failed"},
		{"A", "r9", "stage/p/s", "stage-failed"},
		{"A", "r9", "stage/p/t", "stage-finished-successfully"},
		{"X", "", "resource/p", "resource-failed"},
	} {
		o.receive(deploylog.Event{
			Seq: int64(i + 1), Deployment: e.deployment, Revision: e.revision, Target: deploylog.Target(e.target), Name: e.name,
			CreatedAt: noon.Add(time.Duration(i) * time.Minute),
		})
	}
	for target, want := range map[deploylog.Target]string{
		"stage/p/s": "r1 5, r5 7", "stage/p/t": "r9 9,  0", "pipeline/p": " 0,  0", "resource/p": " 0,  0",
	} {
		got := o.latest[target]
		assert.Equal(t, want, fmt.Sprintf("%s %d, %s %d", got.Deployed, got.DeployedEvent, got.Failed, got.FailedEvent), target)
	}
	assert.Equal(t, noon.Add(2*time.Minute), o.released["B"].at)
}

func TestADeletedPipelineLeavesNothingToOneOfItsName(t *testing.T) {
	o := newOverview()
	run := func(name string) deploylog.Event {
		return deploylog.Event{Deployment: "R", Target: "run/m", Name: name, Data: json.RawMessage(`{"details":{"deployment":"A","target":"host/p/g/h","event":"host-deployed"}}`)}
	}
	for i, e := range []deploylog.Event{
		{Target: "pipeline/p", Name: "pipeline-defined"},
		{Deployment: "A", Revision: "r1", Target: "pipeline/p", Name: "pipeline-started"},
		{Deployment: "B", Revision: "r2", Target: "pipeline/other", Name: "pipeline-started"},
		run("run-started"),
		run("run-failed"),
		{Deployment: "A", Revision: "r1", Target: "stage/p/s", Name: "stage-finished-successfully"},
		{Deployment: "x", Target: "pipeline/p", Name: "pipeline-deleted"},
		{Target: "pipeline/p", Name: "pipeline-defined"},
		{Deployment: "A", Revision: "r1", Target: "stage/p/s", Name: "stage-finished-successfully"},
		{Deployment: "A", Revision: "r1", Target: "host-group/p/g", Name: "host-group-failed"},
		{Deployment: "A", Revision: "r1", Target: "host/p/g/h", Name: "host-finished-successfully"},
		{Deployment: "C", Revision: "r3", Target: "pipeline/p", Name: "pipeline-started"},
		{Deployment: "C", Revision: "r3", Target: "stage/p/t", Name: "stage-finished-successfully"},
		{Deployment: "B", Revision: "r2", Target: "stage/other/s", Name: "stage-finished-successfully"},
	} {
		e.Seq, e.CreatedAt = int64(i+1), time.Unix(int64(i), 0)
		o.receive(e)
	}
	for target, want := range map[deploylog.Target]string{"stage/p/s": "", "host-group/p/g": "", "host/p/g/h": "", "stage/p/t": "r3", "stage/other/s": "r2"} {
		assert.Equal(t, want, o.latest[target].Deployed, target)
		assert.Empty(t, o.latest[target].Failed, target)
	}
	for deployment, released := range map[string]bool{"A": false, "B": true, "C": true} {
		assert.Equal(t, released, !o.released[deployment].at.IsZero(), "%s is released", deployment)
	}
	assert.NotContains(t, o.failed, step{"A", "host/p/g/h", "host-deployed"}, "what was deleted")
}

func TestARunTellsWhichStepItWorksOn(t *testing.T) {
	log := logOf(t)
	all := NewPipelines(log, time.Now)
	o := all.overview
	workOn := func(at step) []stepRun { return all.working(func(s step) bool { return s == at }) }
	begin := func(id string) *runs.Run {
		r := must.Get(runs.Begin(t.Context(), runs.Options{
			Log: log, Engine: &enginetest.Fake{}, ID: id, Target: "run/web.yaml", Revision: "1", OrphanTimeout: time.Minute, Notice: func(string) {},
		}))(t)
		return r
	}
	record := func(r *runs.Run, e report.Event) {
		require.NoError(t, r.Record(t.Context(), e))
		require.NoError(t, all.Follow(t.Context(), 0))
	}
	details := map[string]string{"deployment": "D", "target": "host/p/g/h1", "event": "host-deployed"}
	r, other := begin("R"), begin("other")
	defer r.End()
	defer other.End()
	record(r, report.Event{Kind: report.RunStarted, Data: details})
	record(other, report.Event{Kind: report.RunStarted}) // not a pipeline's

	at := step{"D", "host/p/g/h1", "host-deployed"}
	w := workOn(at)
	assert.True(t, len(w) == 1 && w[0].run == "R" && w[0].seq == 1, "it is worked on by %+v", w)
	for _, c := range []step{{"E", at.target, at.event}, {"D", "host/p/g/h2", at.event}, {"D", at.target, "host-tested"}} {
		assert.Empty(t, workOn(c), "%+v", c)
	}
	for target, want := range map[deploylog.Target]int{"host/q/other/h1": 1, "host/p/g/h2": 0, "host/p/g/xh1": 0} {
		assert.Len(t, all.working(func(s step) bool { return s.onHostOf(target) }), want, "what %s is busy with", target)
	}
	record(r, report.Event{Kind: report.RunFailed})
	assert.Empty(t, all.working(func(s step) bool { return s == at || s.onHostOf(at.target) }), "it is still worked on")

	// Until it is tried again or given up, it is known that it failed.
	if w, ok := o.failed[at]; !ok || w.run != "R" || w.seq != 3 {
		t.Errorf("it failed as %+v, %v", w, ok)
	}
	again := begin("again")
	defer again.End()
	record(again, report.Event{Kind: report.RunStarted, Data: details})
	assert.NotContains(t, o.failed, at, "it is tried again")
	record(again, report.Event{Kind: report.RunFailed})
	o.receive(deploylog.Event{Seq: 6, Deployment: "D", Target: at.target, Name: "host-deployed-failed"})
	assert.NotContains(t, o.failed, at, "it was given up")
}

// Of a long history of runs nearly all have ended: what those say of themselves is not read.
func TestRunsThatHaveEndedAreNotRead(t *testing.T) {
	started := deploylog.Event{Seq: 1, Deployment: "R", Target: "run/m", Name: "run-started", Data: json.RawMessage(`{"details":{"deployment":"A","target":"host/p/g/h","event":"host-deployed"}}`)}
	finished := deploylog.Event{Seq: 2, Deployment: "R", Target: "run/m", Name: "run-finished-successfully"}
	o := newOverview()
	allocations := testing.AllocsPerRun(100, func() {
		o.receive(started)
		o.receive(finished)
	})
	assert.LessOrEqual(t, allocations, 6.0, "allocations for a run: names of events are made of targets")
}

// What was applied is the revision that did something there: with the steps that it skipped,
// or without those of a newer one that did nothing.
func TestTheLatestRevisionIsOneThatWasApplied(t *testing.T) {
	o, seq := newOverview(), int64(0)
	receive := func(revision, target, name, data string) {
		seq++
		o.receive(deploylog.Event{Seq: seq, Deployment: revision, Revision: revision, Target: deploylog.Target(target), Name: name, Data: json.RawMessage(data)})
	}
	receive("", "pipeline/p", "pipeline-defined", "")
	for _, revision := range []string{"1", "2", "3", "4"} {
		receive(revision, "pipeline/p", "pipeline-started", "")
	}
	want := func(deployed, complete, passed string, skipped ...string) {
		t.Helper()
		got := o.latest["host/p/g/h"]
		if got.Deployed != deployed || got.Complete != complete || got.Passed != passed || !slices.Equal(got.Skipped, skipped) {
			t.Errorf("after event %d it is %+v", seq, got)
		}
	}
	finish := func(revision, data string) { receive(revision, "host/p/g/h", "host-finished-successfully", data) }
	finish("1", "")
	want("1", "1", "")
	finish("2", `{"version":1,"skipped":["host-restarted"]}`)
	want("2", "1", "", "host-restarted")
	finish("3", `{"version":1,"skipped":["host-deployed","host-restarted"],"nothing_applied":true}`)
	want("2", "1", "3", "host-restarted")
	finish("4", "")
	want("4", "4", "")
}

// overviewOf is a log of lines and its overview, in which each deployment is the revision of its name.
func overviewOf(t *testing.T, lines []string) (deploylog.Log, *overview) {
	log, o := logOf(t, lines...), newOverview()
	for e, err := range log.Read(t.Context(), deploylog.Filter{}) {
		require.NoError(t, err)
		e.Revision = e.Deployment
		o.receive(e)
	}
	return log, o
}

func TestWhatComesAfterARollbackIsTheLatest(t *testing.T) {
	const rollback = `{"rollback":{"stage":"s","target":"stage/p/s","original":"41"}}`
	history := []string{
		"41 pipeline/p pipeline-started", "41 stage/p/s stage-started", "41 host/p/g/h host-finished-successfully", "41 stage/p/s stage-finished-successfully", "41 pipeline/p pipeline-finished-successfully",
		"42 pipeline/p pipeline-started", "43 pipeline/p pipeline-started",
		"42 stage/p/s stage-started", "42 host/p/g/h host-finished-successfully", "42 stage/p/s stage-finished-successfully", "42 pipeline/p pipeline-finished-successfully",
		"back pipeline/p pipeline-started " + rollback, "back stage/p/s stage-started", "back host/p/g/h host-finished-successfully", "back stage/p/s stage-finished-successfully", "back pipeline/p pipeline-finished-successfully",
		"43 stage/p/s stage-started", "43 host/p/g/h host-finished-successfully", "43 host/p/g/other host-failed", "43 stage/p/s stage-finished-successfully",
		"44 pipeline/p pipeline-started", "44 stage/p/s stage-failed", "44 pipeline/p pipeline-failed",
		"again pipeline/p pipeline-started " + rollback, "again stage/p/s stage-failed", "again pipeline/p pipeline-failed",
		"43 stage/p/s stage-failed",
	}
	for upTo, want := range map[int]struct{ stage, host, pipeline, failed string }{
		11: {"42", "42", "42", ""}, 16: {"back", "back", "42", ""}, 20: {"43", "43", "42", ""}, 23: {"43", "43", "42", "44"}, 26: {"43", "43", "42", "again"}, 27: {"43", "43", "42", "43"},
	} {
		log, o := overviewOf(t, history[:upTo])
		for target, want := range map[deploylog.Target][2]string{"stage/p/s": {want.stage, want.failed}, "host/p/g/h": {want.host}, "pipeline/p": {want.pipeline}} {
			if got := o.latest[target]; got.Deployed != want[0] || want[1] != "" && got.Failed != want[1] {
				t.Errorf("after %d events the latest of %s is %+v, want %v", upTo, target, got, want)
			}
			latest, err := LatestOf(t.Context(), log, target)
			if err != nil || latest.Succeeded.Deployment != want[0] || want[1] != "" && latest.Failed.Deployment != want[1] {
				t.Errorf("after %d events the log's latest of %s is %+v, %v, want %v", upTo, target, latest, err, want)
			}
		}
	}
}

// What does a stage again counts as what it does again: revisions that were released in the
// meantime come after it.
func TestWhatIsDoneAgainIsTheLatestUntilTheNextRevision(t *testing.T) {
	history := []string{
		"42 pipeline/p pipeline-started", "42 stage/p/s stage-started", "42 host/p/g/a host-failed", "42 host/p/g/b host-finished-successfully", "42 host-group/p/g host-group-finished-successfully",
		"42 stage/p/s stage-finished-successfully", "42 pipeline/p pipeline-finished-successfully", "43 pipeline/p pipeline-started",
		`again pipeline/p pipeline-started {"redo":{"what":"repair","stage":"s","target":"stage/p/s","of":"42","hosts":["host/p/g/a"]}}`,
		"again stage/p/s stage-started", "again host/p/g/a host-finished-successfully", "again host-group/p/g host-group-finished-successfully", "again stage/p/s stage-finished-successfully",
		"again pipeline/p pipeline-finished-successfully",
		"43 stage/p/s stage-started", "43 host/p/g/a host-finished-successfully", "43 stage/p/s stage-finished-successfully", "43 pipeline/p pipeline-finished-successfully",
	}
	group, hosts := pipeline.Place{Target: "host-group/p/g", Stage: "s", Group: "g"}, []pipeline.Place{{Target: "host/p/g/a", Stage: "s", Group: "g", Host: "a"}, {Target: "host/p/g/b", Stage: "s", Group: "g", Host: "b"}}
	for upTo, want := range map[int]struct {
		stage, host, pipeline string
		failed                []string
	}{7: {"42", "", "42", []string{"a"}}, 14: {"again", "again", "42", nil}, 18: {"43", "43", "43", nil}} {
		log, o := overviewOf(t, history[:upTo])
		_, failed := o.failedHosts(group, hosts)
		assert.Equal(t, want.failed, failed, "after %d events", upTo)
		for target, want := range map[deploylog.Target]string{"stage/p/s": want.stage, "host/p/g/a": want.host, "pipeline/p": want.pipeline} {
			assert.Equal(t, want, o.latest[target].Deployed, "the latest of %s after %d events", target, upTo)
			latest, err := LatestOf(t.Context(), log, target)
			if err != nil || want != "" && (latest.Succeeded == nil || latest.Succeeded.Deployment != want) {
				t.Errorf("after %d events the log's latest of %s is %+v, %v, want %s", upTo, target, latest, err, want)
			}
		}
	}
}

// That the tests of what is deployed fail now is what a person looks for in the list.
func TestAFailureBesideThePipelineCountsUntilItsStageIsFinished(t *testing.T) {
	again := func(id, what string) []string {
		return []string{id + ` pipeline/p pipeline-started {"` + what + `":{"what":"rerun","stage":"s","target":"stage/p/s","of":"42","original":"42"}}`, id + " stage/p/s stage-started"}
	}
	fails := func(id string) []string {
		return []string{id + " stage/p/s stage-failed", id + " pipeline/p pipeline-failed"}
	}
	finishes := func(id string) []string {
		return []string{id + " stage/p/s stage-finished-successfully", id + " pipeline/p pipeline-finished-successfully"}
	}
	first := append([]string{`x pipeline/p pipeline-defined {"definition":{"pipeline":"p","stages":[{"name":"s","run":{"manifest":"m.yaml"}}]}}`, "42 pipeline/p pipeline-started", "42 stage/p/s stage-started"}, finishes("42")...)
	for _, what := range []string{"redo", "rollback"} {
		failed := slices.Concat(first, again("again", what), fails("again"))
		for _, c := range []struct {
			history []string
			failed  string
		}{
			{failed, "again"},
			{slices.Concat(failed, []string{"again/2 pipeline/p pipeline-retried"}), "again"},
			{slices.Concat(failed, []string{"again/2 pipeline/p pipeline-retried"}, finishes("again/2")), ""},
			{slices.Concat(failed, again("third", what), finishes("third")), ""},
			{slices.Concat(failed, []string{"43 pipeline/p pipeline-started", "43 stage/p/s stage-started"}, fails("43")), "43"},
			{slices.Concat(failed, []string{"43 pipeline/p pipeline-started", "43 stage/p/s stage-started"}, finishes("43")), ""},
		} {
			log := logOf(t, c.history...)
			p := NewPipelines(log, time.Now)
			require.NoError(t, p.Follow(t.Context(), 0))
			latest, err := LatestOf(t.Context(), log, "pipeline/p")
			if err != nil || (latest.Failed == nil) != (c.failed == "") || c.failed != "" && latest.Failed.Deployment != c.failed {
				t.Errorf("after %q the latest is %+v, %v, want %q", c.history, latest, err, c.failed)
				continue
			}
			want := int64(0)
			if latest.Failed != nil {
				want = latest.Failed.Seq
			}
			assert.Equal(t, want, p.overview.latestOf("pipeline/p").FailedEvent, "the failure that the list has after %q", c.history)
		}
	}
}

func TestWhyARollbackEndedSaysThatItIsOne(t *testing.T) {
	repair := &record.RedoInfo{What: record.Repair, Stage: "prod", Hosts: []deploylog.Target{"host/p/g/h7", "host/p/g/h9"}, By: "ann", Reason: "more disk space"}
	back := &record.RollbackInfo{Stage: "prod", Replaces: "43", By: "ann", Reason: "drops sessions"}
	for want, r := range map[string]pipeline.Registration{
		"":                        {Status: deployment.Finished},
		"by bob: no":              {Status: deployment.Cancelled, EndedBy: "bob", Cause: "no"},
		"by 44":                   {Status: deployment.Superseded, SupersededBy: "44"},
		"stage prod failed: away": {Status: deployment.Failed, Cause: "stage prod failed: away"},
		"repair of prod on h7, h9 by ann: more disk space; by bob: no": {Status: deployment.Cancelled, EndedBy: "bob", Cause: "no", Redo: repair},
		"rerun of prod": {Status: deployment.Finished, Redo: &record.RedoInfo{What: record.Rerun, Stage: "prod"}},
		"rollback of prod from 43 by ann: drops sessions":                          {Status: deployment.Finished, Rollback: back},
		"rollback of prod from 43 by ann: drops sessions; by bob: no":              {Status: deployment.Cancelled, EndedBy: "bob", Cause: "no", Rollback: back},
		"rollback of prod from 43 by ann: drops sessions; stage prod failed: away": {Status: deployment.Failed, Cause: "stage prod failed: away", Rollback: back},
	} {
		assert.Equal(t, want, (Release{Registration: r}).Why())
	}
}

// Hosts that failed within the budget of their group are named, also after a rollback.
func TestTheHostsThatFailedWithinTheBudgetOfTheirGroup(t *testing.T) {
	type event struct {
		deployment, target, name, data string
		failed                         []string
	}
	const original = `{"rollback":{"original":"41"}}`
	for _, history := range [][]event{{
		{"A", "pipeline/p", "pipeline-started", "", nil},
		{"A", "host/p/g/a", "host-failed", "", nil},
		{"A", "host/p/o/c", "host-failed", "", nil},
		{"A", "host/p/g/b", "host-finished-successfully", "", nil},
		{"A", "host-group/p/g", "host-group-finished-successfully", "", []string{"a"}},
		{"B", "pipeline/p", "pipeline-started", "", []string{"a"}},
		{"B", "host/p/g/b", "host-failed", "", []string{"a"}},
		{"B", "host/p/g/a", "host-finished-successfully", "", nil},
		{"B", "host-group/p/g", "host-group-finished-successfully", "", []string{"b"}},
		{"B", "host/p/g/b", "host-finished-successfully", "", nil}, // it was tried again
	}, {
		{"43", "pipeline/p", "pipeline-started", "", nil},
		{"back", "pipeline/p", "pipeline-started", original, nil},
		{"back", "host/p/g/a", "host-finished-successfully", "", nil},
		{"back", "host-group/p/g", "host-group-finished-successfully", "", nil},
		{"43", "host/p/g/a", "host-failed", "", nil},
		{"43", "host-group/p/g", "host-group-finished-successfully", "", []string{"a"}},
	}} {
		o := newOverview()
		group := pipeline.Place{Target: "host-group/p/g", Stage: "s", Group: "g"}
		hosts := []pipeline.Place{
			{Target: "host/p/g/a", Stage: "s", Group: "g", Host: "a"}, {Target: "host/p/g/b", Stage: "s", Group: "g", Host: "b"},
			{Target: "host-group/p/o", Stage: "s", Group: "o"}, {Target: "host/p/o/c", Stage: "s", Group: "o", Host: "c"},
		}
		for i, e := range history {
			o.receive(deploylog.Event{
				Seq: int64(i + 1), Deployment: e.deployment, Revision: e.deployment, Target: deploylog.Target(e.target), Name: e.name, Data: json.RawMessage(e.data),
			})
			n, failed := o.failedHosts(group, hosts)
			assert.Equal(t, 2, n)
			assert.ElementsMatch(t, e.failed, failed, "after %s of %s", e.name, e.target)
		}
	}
}
