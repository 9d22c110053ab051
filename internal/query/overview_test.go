package query

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
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
	for target, want := range map[deploylog.Target]struct {
		deployed, failed           string
		deployedEvent, failedEvent int64
	}{
		"stage/p/s": {"r1", "r5", 5, 7}, "stage/p/t": {"r9", "", 9, 0}, "pipeline/p": {}, "resource/p": {},
	} {
		got := o.latest[target]
		if got.Deployed != want.deployed || got.Failed != want.failed || got.DeployedEvent != want.deployedEvent || got.FailedEvent != want.failedEvent {
			t.Errorf("the latest of %s is %+v", target, got)
		}
	}
	if at := o.released["B"].at; !at.Equal(noon.Add(2 * time.Minute)) {
		t.Errorf("B was released at %v", at)
	}
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
		if got := o.latest[target]; got.Deployed != want || got.Failed != "" {
			t.Errorf("the latest of %s is %+v", target, got)
		}
	}
	if !o.released["A"].at.IsZero() || o.released["B"].at.IsZero() || o.released["C"].at.IsZero() {
		t.Errorf("A, B and C were released at %v, %v, %v", o.released["A"], o.released["B"], o.released["C"])
	}
	if w, ok := o.failed[step{"A", "host/p/g/h", "host-deployed"}]; ok {
		t.Errorf("what was deleted failed as %+v", w)
	}
}

// What is worked on is what runs say of themselves.
func TestARunTellsWhichStepItWorksOn(t *testing.T) {
	log := logOf(t)
	all := NewPipelines(log, time.Now)
	o := all.overview
	workOn := func(at step) []stepRun { return all.working(func(s step) bool { return s == at }) }
	begin := func(id string) *runs.Run {
		r, err := runs.Begin(t.Context(), runs.Options{
			Log: log, Engine: &enginetest.Fake{}, ID: id, Target: "run/web.yaml", Revision: "1", OrphanTimeout: time.Minute, Notice: func(string) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	record := func(r *runs.Run, e report.Event) {
		if err := r.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := all.Follow(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	details := map[string]string{"deployment": "D", "target": "host/p/g/h1", "event": "host-deployed"}
	r, other := begin("R"), begin("other")
	defer r.End()
	defer other.End()
	record(r, report.Event{Kind: report.RunStarted, Data: details})
	record(other, report.Event{Kind: report.RunStarted}) // not a pipeline's

	at := step{"D", "host/p/g/h1", "host-deployed"}
	if w := workOn(at); len(w) != 1 || w[0].run != "R" || w[0].seq != 1 {
		t.Errorf("it is worked on by %+v", w)
	}
	for _, c := range []step{{"E", at.target, at.event}, {"D", "host/p/g/h2", at.event}, {"D", at.target, "host-tested"}} {
		if w := workOn(c); len(w) > 0 {
			t.Errorf("%+v is worked on by %+v", c, w)
		}
	}
	for target, want := range map[deploylog.Target]int{"host/q/other/h1": 1, "host/p/g/h2": 0, "host/p/g/xh1": 0} {
		if busy := all.working(func(s step) bool { return s.onHostOf(target) }); len(busy) != want {
			t.Errorf("%s is busy with %+v", target, busy)
		}
	}
	record(r, report.Event{Kind: report.RunFailed})
	if w := all.working(func(s step) bool { return s == at || s.onHostOf(at.target) }); len(w) > 0 {
		t.Errorf("it is still worked on by %+v", w)
	}

	// Until it is tried again or given up, it is known that it failed.
	if w, ok := o.failed[at]; !ok || w.run != "R" || w.seq != 3 {
		t.Errorf("it failed as %+v, %v", w, ok)
	}
	again := begin("again")
	defer again.End()
	record(again, report.Event{Kind: report.RunStarted, Data: details})
	if w, ok := o.failed[at]; ok {
		t.Errorf("it is tried again, and failed as %+v", w)
	}
	record(again, report.Event{Kind: report.RunFailed})
	o.receive(deploylog.Event{Seq: 6, Deployment: "D", Target: at.target, Name: "host-deployed-failed"})
	if w, ok := o.failed[at]; ok {
		t.Errorf("it was given up, and failed as %+v", w)
	}
}

// Of a long history of runs nearly all have ended: what those say of themselves is not read.
func TestRunsThatHaveEndedAreNotRead(t *testing.T) {
	started := deploylog.Event{Seq: 1, Deployment: "R", Target: "run/m", Name: "run-started", Data: json.RawMessage(`{"details":{"deployment":"A","target":"host/p/g/h","event":"host-deployed"}}`)}
	finished := deploylog.Event{Seq: 2, Deployment: "R", Target: "run/m", Name: "run-finished-successfully"}
	const most = 6 // names of events are made of targets
	o := newOverview()
	allocations := testing.AllocsPerRun(100, func() {
		o.receive(started)
		o.receive(finished)
	})
	if allocations > most {
		t.Errorf("a run takes %.0f allocations, more than %d", allocations, most)
	}
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

// A revision that was released before a rollback and comes after it is what is there.
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
		log, o := logOf(t, history[:upTo]...), newOverview()
		for e, err := range log.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			e.Revision = e.Deployment
			o.receive(e)
		}
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
		log, o := logOf(t, history[:upTo]...), newOverview()
		for e, err := range log.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			e.Revision = e.Deployment
			o.receive(e)
		}
		if _, failed := o.failedHosts(group, hosts); !slices.Equal(failed, want.failed) {
			t.Errorf("after %d events %v failed, want %v", upTo, failed, want.failed)
		}
		for target, want := range map[deploylog.Target]string{"stage/p/s": want.stage, "host/p/g/a": want.host, "pipeline/p": want.pipeline} {
			if got := o.latest[target]; got.Deployed != want {
				t.Errorf("after %d events the latest of %s is %+v, want %s", upTo, target, got, want)
			}
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
			if err := p.Follow(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			latest, err := LatestOf(t.Context(), log, "pipeline/p")
			if err != nil || (latest.Failed == nil) != (c.failed == "") || c.failed != "" && latest.Failed.Deployment != c.failed {
				t.Errorf("after %q the latest is %+v, %v, want %q", c.history, latest, err, c.failed)
				continue
			}
			want := int64(0)
			if latest.Failed != nil {
				want = latest.Failed.Seq
			}
			if l := p.overview.latestOf("pipeline/p"); l.FailedEvent != want {
				t.Errorf("after %q the list is of %+v, want the failure at %d", c.history, l, want)
			}
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
		if got := (Release{Registration: r}).Why(); got != want {
			t.Errorf("%+v ended %q, want %q", r, got, want)
		}
	}
}

func TestAHostThatFailedAfterARollbackIsNamed(t *testing.T) {
	o := newOverview()
	group, host := pipeline.Place{Target: "host-group/p/g", Stage: "s", Group: "g"}, pipeline.Place{Target: "host/p/g/a", Stage: "s", Group: "g", Host: "a"}
	for i, e := range []deploylog.Event{
		{Deployment: "43", Target: "pipeline/p", Name: "pipeline-started"},
		{Deployment: "back", Target: "pipeline/p", Name: "pipeline-started", Data: json.RawMessage(`{"rollback":{"original":"41"}}`)},
		{Deployment: "back", Target: "host/p/g/a", Name: "host-finished-successfully"},
		{Deployment: "back", Target: "host-group/p/g", Name: "host-group-finished-successfully"},
		{Deployment: "43", Target: "host/p/g/a", Name: "host-failed"},
		{Deployment: "43", Target: "host-group/p/g", Name: "host-group-finished-successfully"},
	} {
		e.Seq, e.Revision = int64(i+1), e.Deployment
		o.receive(e)
	}
	if hosts, failed := o.failedHosts(group, []pipeline.Place{host}); hosts != 1 || !slices.Equal(failed, []string{"a"}) {
		t.Errorf("of %d hosts %v failed", hosts, failed)
	}
}

func TestTheHostsThatFailedWithinTheBudgetOfTheirGroup(t *testing.T) {
	o := newOverview()
	places := []pipeline.Place{
		{Target: "host-group/p/g", Stage: "s", Group: "g"}, {Target: "host/p/g/a", Stage: "s", Group: "g", Host: "a"}, {Target: "host/p/g/b", Stage: "s", Group: "g", Host: "b"},
		{Target: "host-group/p/o", Stage: "s", Group: "o"}, {Target: "host/p/o/c", Stage: "s", Group: "o", Host: "c"},
	}
	seq := int64(0)
	for _, test := range []struct {
		deployment, target, name string
		failed                   []string
	}{
		{"A", "pipeline/p", "pipeline-started", nil},
		{"A", "host/p/g/a", "host-failed", nil},
		{"A", "host/p/o/c", "host-failed", nil},
		{"A", "host/p/g/b", "host-finished-successfully", nil},
		{"A", "host-group/p/g", "host-group-finished-successfully", []string{"a"}},
		{"B", "pipeline/p", "pipeline-started", []string{"a"}},
		{"B", "host/p/g/b", "host-failed", []string{"a"}},
		{"B", "host/p/g/a", "host-finished-successfully", nil},
		{"B", "host-group/p/g", "host-group-finished-successfully", []string{"b"}},
		{"B", "host/p/g/b", "host-finished-successfully", nil}, // it was tried again
	} {
		seq++
		o.receive(deploylog.Event{Seq: seq, Deployment: test.deployment, Revision: test.deployment, Target: deploylog.Target(test.target), Name: test.name})
		if hosts, failed := o.failedHosts(places[0], places[1:]); hosts != 2 || !slices.Equal(failed, test.failed) {
			t.Errorf("after %s of %s, %d hosts failed: %v, want %v", test.name, test.target, hosts, failed, test.failed)
		}
	}
}
