package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// removed is a destroy of front-net, db and api, of which db was gone already.
func removed() []report.Event {
	remove := &protocol.Action{Name: "remove-container", Description: `remove container "api"`}
	return []report.Event{
		started("destroy"),
		{Kind: report.Working, Time: at(0), Resource: "db", Action: "state"},
		{Kind: report.StateRead, Time: at(.2), Resource: "db"},
		{Kind: report.ResourceSkipped, Time: at(.2), Resource: "smoke", Error: "only observed: left alone"},
		{Kind: report.ResourceStarted, Time: at(.3), Resource: "api"},
		{Kind: report.ResourceResolved, Time: at(.5), Resource: "api", Status: report.Present, Actions: []string{"remove-container"}},
		{Kind: report.ActionStarted, Time: at(.5), Resource: "api", Action: "remove-container", Attempt: 1, Plan: remove},
		{Kind: report.ActionFinished, Time: at(1.5), Resource: "api", Action: "remove-container", Attempt: 1, Exit: code(0), Duration: span(1)},
		{Kind: report.ResourceDestroyed, Time: at(1.6), Resource: "api", Status: report.Absent},
		{Kind: report.ResourceFinished, Time: at(1.6), Resource: "api", Status: report.Destroyed, Duration: span(1.3)},
		{Kind: report.ResourceResolved, Time: at(1.7), Resource: "db", Status: report.Absent, Data: map[string]string{"by": "log"}},
		{Kind: report.ResourceFinished, Time: at(1.7), Resource: "db", Status: report.Absent, Duration: span(.1)},
		{Kind: report.ResourceResolved, Time: at(1.8), Resource: "front-net", Status: report.Absent},
		{Kind: report.ResourceFinished, Time: at(1.8), Resource: "front-net", Status: report.Absent, Duration: span(.1)},
		{Kind: report.RunFinished, Time: at(2), Duration: span(2), Counts: report.Counts{Changed: 1, Unchanged: 2, Skipped: 1}},
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
	p := &report.Plan{Run: run, Destroy: true, Resources: []report.ResourcePlan{
		{Name: "api", Type: shipped, DependsOn: []string{"db"}, Status: report.Present, Actions: []protocol.Action{{Name: "remove-container", Description: "remove " + hostile}}},
		{Name: "db", Type: shipped, Status: report.Absent},
		{Name: "cert", Type: "deployster/file", ReadOnly: true, Status: report.Skipped, Error: "only observed: left alone"},
	}}
	var out bytes.Buffer
	if err := PlanQuestion(&out, p, "y/N", PlanOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-destroy.txt", out.String())
}

func someDrift() *report.Drift {
	return &report.Drift{Run: run, Resources: []report.ResourceDrift{
		{Name: "front-net", Type: network, Status: report.Valid, Unmatched: []string{"subnet", "lables." + hostile}},
		{Name: "db", Type: shipped, Status: report.Stale,
			Diff:    []diff.Change{{Path: "image", Op: diff.Modify, Old: "postgres:15", New: "postgres:16 " + hostile}},
			Ignored: []diff.Change{{Path: "labels.build", Op: diff.Modify, Old: 1, New: 2}}},
		{Name: "cache", Type: shipped, Status: report.Valid, Ignored: []diff.Change{{Path: "image", Op: diff.Add, New: "redis"}}},
		{Name: "opaque", Type: "acme/vm", Status: report.Stale},
		{Name: "lost", Type: "deployster/file", Status: report.Stale, Missing: true},
		{Name: "broken", Type: "acme/vm", Status: report.Failed, Error: "state exited with 9:\n" + hostile},
		{Name: "after", Type: "deployster/file", DependsOn: []string{"broken", "lost"}, Status: report.Unknown, Because: []string{"broken", "lost"}},
		{Name: "last", Type: "deployster/file", DependsOn: []string{"after"}, Status: report.Unknown, Because: []string{"after"}},
		{Name: "late", Type: "deployster/file", Status: report.Skipped, Error: "the run was interrupted"},
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
		report report.Drift
		want   string
	}{
		{report.Drift{}, "No drift: 0 as configured."},
		{report.Drift{Resources: []report.ResourceDrift{{Status: report.Valid, Ignored: make([]diff.Change, 2)}}}, "No drift: 1 as configured, 2 differences ignored."},
	} {
		if got := DriftSummary(&tc.report); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
