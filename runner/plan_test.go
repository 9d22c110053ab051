package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

func TestPlanSaysWhatAnApplyWouldDoAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	w.things["same"] = "same"
	plan, err := w.runner(t, `
resources:
  same: {type: thing, config: {value: same}}
  after-same: {type: thing, dependencies: {s: same}, config: {value: "{{ s.state.value }}"}}
  db: {type: thing, config: {value: new, token: hush-hush}}
  api: {type: thing, dependencies: {db: db}, config: {value: 1}}
  web: {type: thing, dependencies: {api: api}, config: {value: 1}}
`).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]report.ResourcePlan{}
	for _, r := range plan.Resources {
		got[r.Name] = r
	}
	for name, want := range map[string]report.Status{
		"same": report.Valid, "after-same": report.Stale, "db": report.Stale, "api": report.Unknown, "web": report.Unknown,
	} {
		if got[name].Status != want {
			t.Errorf("%s is %s, want %s", name, got[name].Status, want)
		}
	}
	if !slices.Equal(got["api"].After, []string{"db"}) || !slices.Equal(got["web"].After, []string{"api"}) {
		t.Errorf("known after %v and %v", got["api"].After, got["web"].After)
	}
	if got["after-same"].Exists || !got["db"].Exists {
		t.Error("whether a resource exists is told wrongly")
	}
	if diff := diff.Text(got["db"].Diff); !strings.Contains(diff, `~ value: "old" → "new"`) || strings.Contains(diff, "hush-hush") {
		t.Errorf("the diff is\n%s", diff)
	}
	if len(got["db"].Actions) != 1 || got["db"].Actions[0].Name != "set" {
		t.Errorf("the actions are %v", got["db"].Actions)
	}
	if w.runs("set") != 0 || len(w.logged) != 0 {
		t.Errorf("a plan ran %v and recorded %v", w.trace, w.names())
	}
	if !plan.Changes() {
		t.Error("the plan says that there are no changes")
	}
}

func TestPlanThenApplyInitializesOnce(t *testing.T) {
	w := newWorld(t)
	r := w.runner(t, chain)
	if _, err := r.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.runs("init"); n != 3 {
		t.Errorf("%d inits for 3 resources", n)
	}
	if names := w.names(); names[0] != "run-started" || !slices.Contains(names, "resource-initialized db") {
		t.Errorf("recorded %v", names)
	}
}

// Between a plan and its apply a dependency may change: what depends on it is
// resolved anew.
func TestApplyAfterPlanUsesTheStatesItFinds(t *testing.T) {
	w := newWorld(t)
	const text = `
resources:
  db: {type: thing, readonly: false, config: {value: 1}}
  api: {type: thing, dependencies: {db: db}, config: {value: "{{ db.state.size }}"}}
`
	size := 1
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) > 0 && c.Args[0] == "state" && c.Spec.Labels[invoke.LabelResource] == "db" {
			fmt.Fprintf(c.Stdout, `{"status":"VALID","state":{"size":%d}}`, size)
			return 0
		}
		return w.thing(ctx, c)
	})
	r := w.runner(t, text)
	if _, err := r.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	size = 2
	if _, err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.things["api"] != 2.0 {
		t.Errorf("api was applied with %v, and db's size is 2", w.things["api"])
	}
}

// An apply could do nothing but fail, so a plan does.
func TestAPlanFailsWhereWhatIsReadOnlyIsNotAsConfigured(t *testing.T) {
	w := newWorld(t)
	w.things["cert"] = 1
	plan, err := w.runner(t, `
resources:
  cert: {type: thing, readonly: true, config: {value: 2}}
  user: {type: thing, dependencies: {c: cert}, config: {value: "{{ c.state.value }}"}}
  other: {type: thing, config: {value: 1}}
`, func(o *options) { o.KeepGoing = true }).Plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "read-only, and not as configured") {
		t.Fatalf("told was %v", err)
	}
	cert := plan.Resources[slices.IndexFunc(plan.Resources, func(r report.ResourcePlan) bool { return r.Name == "cert" })]
	if cert.Status != report.Failed || !cert.ReadOnly || len(cert.Actions) > 0 || len(cert.Diff) != 1 || cert.Diff[0].Path != "value" {
		t.Errorf("%+v", cert)
	}
	statuses := map[string]report.Status{}
	for _, r := range plan.Resources {
		statuses[r.Name] = r.Status
	}
	wantStatuses(t, statuses, map[string]report.Status{"user": report.Skipped, "other": report.Stale})
}
