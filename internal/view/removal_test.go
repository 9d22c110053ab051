package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
)

// removed is a destroy of front-net, db and api, of which db was gone already.
func removed() []runner.Event {
	remove := &protocol.Action{Name: "remove-container", Description: `remove container "api"`}
	return []runner.Event{
		started("destroy"),
		{Kind: runner.Working, Time: at(0), Resource: "db", Action: "state"},
		{Kind: runner.StateRead, Time: at(.2), Resource: "db"},
		{Kind: runner.ResourceSkipped, Time: at(.2), Resource: "smoke", Error: "only observed: left alone"},
		{Kind: runner.ResourceStarted, Time: at(.3), Resource: "api"},
		{Kind: runner.ResourceResolved, Time: at(.5), Resource: "api", Status: runner.Present, Actions: []string{"remove-container"}},
		{Kind: runner.ActionStarted, Time: at(.5), Resource: "api", Action: "remove-container", Attempt: 1, Plan: remove},
		{Kind: runner.ActionFinished, Time: at(1.5), Resource: "api", Action: "remove-container", Attempt: 1, Exit: code(0), Duration: span(1)},
		{Kind: runner.ResourceDestroyed, Time: at(1.6), Resource: "api", Status: runner.Absent},
		{Kind: runner.ResourceFinished, Time: at(1.6), Resource: "api", Status: runner.Destroyed, Duration: span(1.3)},
		{Kind: runner.ResourceResolved, Time: at(1.7), Resource: "db", Status: runner.Absent, Data: map[string]string{"by": "log"}},
		{Kind: runner.ResourceFinished, Time: at(1.7), Resource: "db", Status: runner.Absent, Duration: span(.1)},
		{Kind: runner.ResourceResolved, Time: at(1.8), Resource: "front-net", Status: runner.Absent},
		{Kind: runner.ResourceFinished, Time: at(1.8), Resource: "front-net", Status: runner.Absent, Duration: span(.1)},
		{Kind: runner.RunFinished, Time: at(2), Duration: span(2), Counts: runner.Counts{Changed: 1, Unchanged: 2, Skipped: 1}},
	}
}

func TestADestroyInLines(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out, PlainOptions{})
	for _, e := range removed() {
		p.Observe(e)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "plain-destroy.txt", out.String())
}

// What is removed waits for what depends on it, and is shown in that order.
func TestADestroyWaitsTheOtherWayRound(t *testing.T) {
	b := newBoard()
	for _, e := range removed()[:4] {
		b.fold(e)
	}
	var rows []string
	for _, r := range b.rows {
		rows = append(rows, r.name+": "+b.status(r))
	}
	want := "smoke: skipped: only observed: left alone\napi: waits for smoke\ndb: waits for api\nfront-net: waits for api"
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAPlanToDestroy(t *testing.T) {
	p := &runner.Plan{Run: run, Destroy: true, Resources: []runner.ResourcePlan{
		{Name: "api", Type: shipped, DependsOn: []string{"db"}, Status: runner.Present, Actions: []protocol.Action{{Name: "remove-container", Description: "remove " + hostile}}},
		{Name: "db", Type: shipped, Status: runner.Absent},
		{Name: "cert", Type: "deployster/file", ReadOnly: true, Status: runner.Skipped, Error: "only observed: left alone"},
	}}
	var out bytes.Buffer
	if err := PlanQuestion(&out, p, "y/N", PlanOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-destroy.txt", out.String())
}

func someDrift() *runner.DriftReport {
	return &runner.DriftReport{Run: run, Resources: []runner.ResourceDrift{
		{Name: "front-net", Type: network, Status: runner.Valid, Unmatched: []string{"subnet", "lables." + hostile}},
		{Name: "db", Type: shipped, Status: runner.Stale,
			Diff:    []runner.Change{{Path: "image", Op: runner.Modify, Old: "postgres:15", New: "postgres:16 " + hostile}},
			Ignored: []runner.Change{{Path: "labels.build", Op: runner.Modify, Old: 1, New: 2}}},
		{Name: "cache", Type: shipped, Status: runner.Valid, Ignored: []runner.Change{{Path: "image", Op: runner.Add, New: "redis"}}},
		{Name: "opaque", Type: "acme/vm", Status: runner.Stale},
		{Name: "lost", Type: "deployster/file", Status: runner.Stale, Missing: true},
		{Name: "broken", Type: "acme/vm", Status: runner.Failed, Error: "state exited with 9:\n" + hostile},
		{Name: "after", Type: "deployster/file", DependsOn: []string{"broken", "lost"}, Status: runner.Unknown, Because: []string{"broken", "lost"}},
		{Name: "last", Type: "deployster/file", DependsOn: []string{"after"}, Status: runner.Unknown, Because: []string{"after"}},
		{Name: "late", Type: "deployster/file", Status: runner.Skipped, Error: "the run was interrupted"},
	}}
}

func TestDrift(t *testing.T) {
	for name, verbose := range map[string]bool{"drift.txt": false, "drift-verbose.txt": true, "drift-all.txt": false} {
		var out bytes.Buffer
		if err := Drift(&out, someDrift(), DriftOptions{PlanOptions: PlanOptions{Width: 80, All: name == "drift-all.txt"}, Ignored: verbose}); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.String())
	}
	var out bytes.Buffer
	j := NewJSON(&out, "drift", "1.2.3")
	j.Drift(someDrift())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "drift.ndjson", out.String())
	for _, tc := range []struct {
		report runner.DriftReport
		want   string
	}{
		{runner.DriftReport{}, "No drift: 0 as configured."},
		{runner.DriftReport{Resources: []runner.ResourceDrift{{Status: runner.Valid, Ignored: make([]runner.Change, 2)}}}, "No drift: 1 as configured, 2 differences ignored."},
	} {
		if got := DriftSummary(&tc.report); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
