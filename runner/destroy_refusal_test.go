package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

func TestATypeThatCanNotRemoveRefusesBeforeAnythingIsDone(t *testing.T) {
	const text = `resources:
  base: {type: thing, config: {value: 1}}
  fixed: {type: bolted, dependencies: {b: base}, config: {value: 1}}
  top: {type: thing, dependencies: {f: fixed}, config: {value: 1}}
  also: {type: bolted, config: {value: 1}}
  cache: {type: thing, config: {value: 1}}
  warm: {type: thing, dependencies: {c: cache}, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.engine.Images["bolted"] = image(w.thing)
	if _, err := w.apply(t, text); err != nil {
		t.Fatal(err)
	}
	w.forget()
	got, err := w.destroy(t, text, keepGoing)
	var invalid *manifest.Error
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	want := `m.yaml:3:3: resources.fixed: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone
m.yaml:5:3: resources.also: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone
nothing was removed; the rest can be, with --target top --target cache`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if len(w.trace) > 2 || w.runs("unset")+w.runs("absent") > 0 { // two inits of bolted
		t.Errorf("it did %v", w.trace)
	}
	wantStatuses(t, got, map[string]report.Status{"fixed": report.Failed, "also": report.Failed, "base": report.Skipped, "top": report.Skipped, "cache": report.Skipped})

	got, err = w.destroy(t, text, remove("top", "cache", "warm"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || len(w.things) != 3 {
		t.Errorf("as advised: %v, left are %v", got, w.things)
	}
}

func TestWhetherAllCanBeRemovedIsKnownBeforeAnythingIsMade(t *testing.T) {
	const text = `resources:
  base: {type: thing, config: {value: 1}}
  left: {type: bolted, readonly: true, config: {value: 1}}
`
	w := removable(newWorld(t))
	w.engine.Images["bolted"] = image(w.thing)
	if err := w.runner(t, text).Removable(t.Context()); err != nil {
		t.Error(err)
	}
	err := w.runner(t, text+"  fixed: {type: bolted, dependencies: {b: base}, config: {value: 1}}\n").Removable(t.Context())
	var invalid *manifest.Error
	want := `m.yaml:4:3: resources.fixed: its type bolted cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone`
	if !errors.As(err, &invalid) || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if err := w.runner(t, "resources: {base: {type: thing, config: {}}}").Removable(t.Context()); !errors.As(err, &invalid) {
		t.Errorf("a configuration that its type refuses: %v", err)
	}
	if w.runs("init") != len(w.trace) || len(w.logged) > 0 {
		t.Errorf("it did %v and recorded %v", w.trace, w.names())
	}
}

// chainOfUnknown is a chain with a resource at its end, whose configuration is not
// known when those before it are not.
const chainOfUnknown = chain + `  deep: {type: thing, dependencies: {api: api}, config: {value: "{{ api.state.value }}"}}
`

func TestAConfigurationThatCannotBeKnownRefusesBeforeAnythingIsDone(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	got, err := w.destroy(t, chainOfUnknown)
	var failed *failure.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"api: its type cannot be asked whether it is there: its configuration (m.yaml:7:13) needs the state of db, which does not exist; apply first",
		"deep: its type cannot be asked whether it is there: its configuration (m.yaml:9:57) needs the state of api, which is not known either",
		"nothing was removed; the rest can be, with --keep-going, or with --target other",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwhich does not say\n%s", err, want)
		}
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Skipped, "api": report.Failed, "deep": report.Failed, "other": report.Skipped})
	if w.runs("unset")+w.runs("absent") != 0 {
		t.Errorf("it did %v", w.trace)
	}
}

// What it depends on is skipped with it.
func TestAConfigurationThatCannotBeKnownFailsOnlyItselfWhenTheRestGoesOn(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	got, err := w.destroy(t, chainOfUnknown, keepGoing)
	if err == nil {
		t.Error("it succeeded")
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Skipped, "api": report.Skipped, "deep": report.Failed, "other": report.Destroyed})
	seen := map[string]bool{}
	for _, e := range w.logged {
		key := fmt.Sprint(e.Kind, e.Resource, e.Action, e.Attempt)
		if seen[key] {
			t.Errorf("%s of %s is recorded twice, and a log takes it once", e.Kind, e.Resource)
		}
		seen[key] = true
	}
}

func TestAConfigurationThatCannotBeKnownDoesNotMatterWhenItIsKnownToBeGone(t *testing.T) {
	w := applied(t, chainOfUnknown)
	for _, name := range []string{"db", "api", "deep"} {
		delete(w.things, name)
	}
	got, err := w.destroy(t, chainOfUnknown, known("api", "deep"))
	if err != nil || len(w.things) > 0 {
		t.Errorf("%v, left are %v", err, w.things)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Absent, "deep": report.Absent, "other": report.Destroyed})
	if !slices.ContainsFunc(w.logged, func(e report.Event) bool {
		return e.Kind == report.ResourceResolved && e.Resource == "api" && e.Data["by"] == "log"
	}) {
		t.Error("nobody is told that api was not asked")
	}
}

func TestAConfigurationThatCannotBeKnownIsSkippedWhenNoRunEverCameToIt(t *testing.T) {
	w := applied(t, chainOfUnknown)
	for _, name := range []string{"db", "api", "deep"} {
		delete(w.things, name)
	}
	unmade := func(o *options) {
		o.Absence = func(context.Context, string) (runner.Absence, error) { return runner.NeverCreated, nil }
	}
	plan, err := w.runner(t, chainOfUnknown, unmade).PlanDestroy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Resources {
		if unasked := r.Name == "api" || r.Name == "deep"; unasked != (r.Status == report.Skipped && strings.Contains(r.Error, "never applied, as far as the log knows; not asked")) {
			t.Errorf("the plan says of %s %s %s", r.Name, r.Status, r.Error)
		}
	}
	got, err := w.destroy(t, chainOfUnknown, unmade)
	if err != nil || len(w.things) > 0 {
		t.Errorf("%v, left are %v", err, w.things)
	}
	wantStatuses(t, got, map[string]report.Status{"db": report.Absent, "api": report.Skipped, "deep": report.Skipped, "other": report.Destroyed})
	for _, e := range w.logged {
		if e.Resource == "api" && e.Kind != report.ResourceInitialized && (e.Kind != report.ResourceSkipped || e.Status != report.Skipped) {
			t.Errorf("recorded %s %s", e.Kind, e.Status)
		}
	}
	if last := w.logged[len(w.logged)-1]; last.Counts != (report.Counts{Changed: 1, Unchanged: 1, Skipped: 2}) {
		t.Errorf("counted %+v", last.Counts)
	}
}

func TestAConfigurationThatCannotBeKnownFailsWithWhatCouldNotBeAsked(t *testing.T) {
	w := applied(t, chainOfUnknown)
	delete(w.things, "db")
	_, err := w.destroy(t, chainOfUnknown, func(o *options) {
		o.Absence = func(context.Context, string) (runner.Absence, error) {
			return runner.Unproven, errors.New("disk on fire")
		}
	})
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
}

func TestAConfigurationCannotBeKnownWhenAStateCannotBeRead(t *testing.T) {
	w := applied(t, chain)
	good := w.engine.Images["thing"].Program
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Equal(c.Args, []string{"state"}) && c.Spec.Labels[invoke.LabelResource] == "db" {
			return 9
		}
		return good(ctx, c)
	})
	_, err := w.destroy(t, chain)
	if err == nil || !strings.Contains(err.Error(), "needs the state of db, which could not be read (state exited with 9") {
		t.Errorf("got %v", err)
	}
}
