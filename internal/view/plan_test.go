package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func somePlan() *report.Plan {
	return &report.Plan{Run: run, Resources: []report.ResourcePlan{
		{Name: "front-net", Type: network, Status: report.Valid, State: map[string]any{"id": "a1"}},
		{Name: "data", Type: "deployster/volume", Status: report.Stale,
			Diff:    []diff.Change{{Path: "name", Op: diff.Add, New: "data"}},
			Actions: []protocol.Action{{Name: "create-volume", Description: "create volume \"data\""}}},
		{Name: "db", Type: shipped, Status: report.Stale, Exists: true,
			Diff: []diff.Change{
				{Path: "image", Op: diff.Modify, Old: "postgres:15", New: "postgres:16"},
				{Path: "ports[0].host", Op: diff.Add, New: 5432},
				{Path: "init.sql", Op: diff.Modify, Old: "create a;\ncreate b;\ncreate c;\n", New: "create a;\ncreate <d>;\ncreate c;\n"},
				{Path: "labels", Op: diff.Modify, Old: nil, New: map[string]any{"evil": hostile}},
			},
			Actions: []protocol.Action{{Name: "remove"}, {Name: "create-container", Description: "create " + hostile}}},
		{Name: "cert", Type: "deployster/file", Status: report.Failed, Exists: true, ReadOnly: true, Error: "it is read-only, and not as configured",
			Diff: []diff.Change{{Path: "", Op: diff.Modify, Old: "a", New: "b"}}},
		{Name: "api", Type: shipped, DependsOn: []string{"db", "data"}, Status: report.Unknown, After: []string{"data", "db"}},
		{Name: "broken", Type: "acme/broken", Status: report.Failed, Error: "state answered something else:\nhello " + hostile},
		{Name: "after", Type: "acme/broken", Status: report.Skipped, Error: "broken failed"},
	}}
}

func TestPlan(t *testing.T) {
	var out bytes.Buffer
	if err := Plan(&out, somePlan(), PlanOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.txt", out.String())
}

// What does not change is only counted, unless all is asked for.
func TestAPlanListsWhatChanges(t *testing.T) {
	p := &report.Plan{}
	for i := range 1000 {
		p.Resources = append(p.Resources, report.ResourcePlan{Name: fmt.Sprintf("r%d", i), Type: "t", Status: report.Valid})
	}
	p.Resources[500].Status = report.Stale
	for all, want := range map[bool]int{false: 2, true: 1001} {
		var out bytes.Buffer
		if err := Plan(&out, p, PlanOptions{All: all}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("all=%v: it has %d lines, want %d", all, n, want)
		}
		if !strings.Contains(out.String(), "+ r500") || !strings.HasSuffix(out.String(), "Plan: 1 to change, 999 unchanged.\n") {
			t.Errorf("all=%v: it is\n%s", all, out.String())
		}
	}
}

func TestPlanSummary(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"VVV", "Plan: 0 to change, 3 unchanged."},
		{"SSVVVU", "Plan: 2 to change, 3 unchanged, 1 known after apply."},
		{"FK", "Plan: 0 to change, 0 unchanged, 1 failed, 1 skipped."},
	} {
		statuses := map[rune]report.Status{
			'V': report.Valid, 'S': report.Stale, 'U': report.Unknown, 'F': report.Failed, 'K': report.Skipped,
		}
		var p report.Plan
		for _, c := range test.name {
			p.Resources = append(p.Resources, report.ResourcePlan{Status: statuses[c]})
		}
		if got := PlanSummary(&p); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestPlanJSON(t *testing.T) {
	var out bytes.Buffer
	if err := PlanJSON(&out, somePlan()); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Error("it is not one line")
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, out.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", pretty.String())
}

func TestQuestion(t *testing.T) {
	var out bytes.Buffer
	db := somePlan().Resources[2]
	for _, q := range []runner.Question{
		{Resource: "db", Type: shipped, Diff: db.Diff, Actions: db.Actions},
		{Resource: "db", Type: shipped, Actions: db.Actions[:1]},
	} {
		if err := Question(&out, q, "y/N/a/p/q/?", PlanOptions{}); err != nil {
			t.Fatal(err)
		}
		out.WriteString("n\n")
	}
	if err := PlanQuestion(&out, &report.Plan{}, "y/N", PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "question.txt", out.String())
}

// What is cut in a plan and in a report of drift is there whole on request,
// however long it is.
func TestLongTextsAreWholeOnRequest(t *testing.T) {
	long, last := strings.Repeat("x", 3*terminal.MaxText)+"end", "the last line"
	diff := []diff.Change{
		{Path: "long", Op: diff.Add, New: long},
		{Path: "many", Op: diff.Modify, Old: "one\ntwo", New: strings.Repeat("line\n", 100) + strings.Repeat("y", 2*terminal.MaxText) + last},
	}
	opts := PlanOptions{Width: 80, Full: true}
	for name, show := range map[string]func(io.Writer) error{
		"plan": func(w io.Writer) error {
			return Plan(w, &report.Plan{Resources: []report.ResourcePlan{{Name: "a", Type: "t", Status: report.Stale, Diff: diff}}}, opts)
		},
		"question": func(w io.Writer) error { return Question(w, runner.Question{Resource: "a", Diff: diff}, "y/N", opts) },
		"drift": func(w io.Writer) error {
			return Drift(w, &report.Drift{Resources: []report.ResourceDrift{{Name: "a", Type: "t", Status: report.Stale, Diff: diff}}}, DriftOptions{PlanOptions: opts})
		},
	} {
		var out bytes.Buffer
		if err := show(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, long) || !strings.Contains(text, last) || strings.Contains(text, "--full") {
			t.Errorf("the %s is not whole: %d bytes", name, out.Len())
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	many := strings.Repeat("line\n", 10_000)
	var out bytes.Buffer
	err := Plan(&out, &report.Plan{Resources: []report.ResourcePlan{{Name: "a", Type: "t", Status: report.Stale, Exists: true, Diff: []diff.Change{
		{Path: "long", Op: diff.Modify, Old: "", New: long},
		{Path: "many", Op: diff.Modify, Old: "one\ntwo", New: many},
	}}}}, PlanOptions{Width: 80})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 40 || out.Len() > 4_000 || !strings.Contains(out.String(), "… and 9981 more lines") {
		t.Errorf("%d lines, %d bytes:\n%s", n, out.Len(), out.String())
	}
}

func TestWritingFails(t *testing.T) {
	for name, write := range map[string]func() error{
		"plan":     func() error { return Plan(&broken{}, somePlan(), PlanOptions{}) },
		"json":     func() error { return PlanJSON(&broken{}, somePlan()) },
		"question": func() error { return Question(&broken{}, runner.Question{}, "y/N", PlanOptions{}) },
		"once":     func() error { return PlanQuestion(&broken{}, somePlan(), "y/N", PlanOptions{}) },
	} {
		if err := write(); err == nil || errors.Unwrap(err) == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSavedPlan(t *testing.T) {
	plan := &report.Plan{Run: run, Resources: []report.ResourcePlan{{
		Name: "db", Type: shipped, Status: report.Stale, Exists: true,
		Diff: []diff.Change{{Path: "label", Op: diff.Remove, Old: "x"}},
	}}}
	var out bytes.Buffer
	if err := SavedPlan(&out, "web.plan: plan of "+hostile, plan, PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	origin, rest, _ := strings.Cut(out.String(), "\n")
	if origin != "web.plan: plan of "+clean(hostile) || !strings.Contains(rest, `- label  "x"`) || !strings.Contains(rest, "Plan: 1 to change") {
		t.Errorf("got\n%q", out.String())
	}
	out.Reset()
	lines := NewJSON(&out, "plan", "1.2.3")
	lines.SavedPlan("web.plan", "sha256:1", start)
	if err := lines.Close(); err != nil || !strings.Contains(out.String(), `{"type":"saved-plan","file":"web.plan","digest":"sha256:1","created_at":`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
