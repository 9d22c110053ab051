package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

const levels = `
resources:
  disk: {type: thing, config: {value: 1}}
  db: {type: thing, dependencies: {disk: disk}, config: {value: "on {{ disk.state.value }}"}}
  web: {type: thing, dependencies: {db: db}, config: {value: 3}}
`

func replacing(names ...string) func(*options) {
	return func(o *options) { o.Replace = names }
}

// What is replaced is removed first, dependents before what they depend on, and then made again in
// the order of the graph; what depends on it is looked at after that.
func TestWhatIsReplacedIsRemovedAndMadeAgain(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, levels); err != nil {
		t.Fatal(err)
	}
	w.forget()
	got, err := w.apply(t, levels, replacing("disk", "db"))
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"disk": report.Changed, "db": report.Changed, "web": report.Unchanged})
	acted := slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return !strings.HasPrefix(s, "set") && !strings.HasPrefix(s, "unset") })
	if want := []string{"unset db", "unset disk", "set disk", "set db"}; !slices.Equal(acted, want) {
		t.Errorf("done: %v, want %v", acted, want)
	}
	if !before(w.trace, "set db", "state web") {
		t.Errorf("web was looked at before: %v", w.trace)
	}
	// Each event is one of its kind, and what began has one end.
	seen := map[string]bool{}
	ends := map[string]int{}
	for _, e := range w.logged {
		key := string(e.Kind) + " " + e.Resource + " " + e.Action + strings.Repeat("'", max(1, e.Attempt))
		if seen[key] {
			t.Errorf("%s is recorded twice", key)
		}
		seen[key] = true
		switch e.Kind {
		case report.ResourceStarted:
			ends[e.Resource]++
		case report.ResourceFinished:
			ends[e.Resource]--
		default:
		}
	}
	for name, n := range ends {
		if n != 0 {
			t.Errorf("%s has %d ends too few", name, n)
		}
	}
	if !seen["resource-destroyed db '"] {
		t.Error("that db is gone is not recorded")
	}
}

func TestAPlanShowsWhatIsReplaced(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, levels); err != nil {
		t.Fatal(err)
	}
	plan, err := w.runner(t, levels, replacing("disk", "db")).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range plan.Resources {
		text := p.Name + " " + string(p.Status)
		if p.Replace {
			text += " replace"
		}
		for _, a := range p.Actions {
			text += " " + a.Name
		}
		said = append(said, text)
	}
	if want := []string{"disk STALE replace unset", "db STALE replace unset", "web UNKNOWN"}; !slices.Equal(said, want) {
		t.Errorf("planned %q, want %q", said, want)
	}
	// What is not there is only made.
	delete(w.things, "disk")
	if plan, err = w.runner(t, levels, replacing("disk")).Plan(t.Context()); err != nil || plan.Resources[0].Replace || plan.Resources[0].Actions[0].Name != "set" {
		t.Errorf("planned of what is not there: %+v, %v", plan.Resources[0], err)
	}
}

func TestWhatCannotBeReplacedIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		removable  bool
	}{
		"not removable": {"{type: thing, config: {value: 1}}", "m.yaml:2:3: resources.a: its type thing cannot remove it", false},
		"prevented":     {"{type: thing, prevent_destroy: true, config: {value: 1}}", "resources.a: it is not removed: its prevent_destroy is true", true},
		"read-only":     {"{type: thing, readonly: true, config: {value: 1}}", "resources.a: it is read-only", true},
	} {
		w := newWorld(t)
		if c.removable {
			removable(w)
		}
		w.things["a"] = 1
		text := "resources:\n  a: " + c.text + "\n  b: {type: thing, config: {value: 1}}\n"
		_, err := w.apply(t, text, replacing("a"))
		var invalid *manifest.Error
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if len(w.things) != 1 || w.runs("state") > 0 {
			t.Errorf("%s: something was done: %v", name, w.trace)
		}
		if _, err := w.runner(t, text, replacing("a")).Plan(t.Context()); !errors.As(err, &invalid) {
			t.Errorf("%s: planned: %v", name, err)
		}
	}
}

// What could not be removed fails, with what depends on it; the rest goes on where it is to.
func TestAReplacementThatFailsIsLikeAnyFailure(t *testing.T) {
	for keep, web := range map[bool]report.Status{false: report.Skipped, true: report.Unchanged} {
		w := removable(newWorld(t))
		text := "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {a: a}, config: {value: 1}}\n  c: {type: thing, config: {value: 1}}\n"
		if _, err := w.apply(t, text); err != nil {
			t.Fatal(err)
		}
		w.fail["a"] = true
		got, err := w.apply(t, text, replacing("a"), func(o *options) { o.KeepGoing = keep })
		if err == nil || !strings.Contains(err.Error(), "it would not go") {
			t.Errorf("got %v", err)
		}
		wantStatuses(t, got, map[string]report.Status{"a": report.Failed, "b": report.Skipped, "c": web})
	}
}

// A replacement that was planned is done without questions, and refused where what there is has
// changed since.
func TestAPlannedReplacementIsBound(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, levels); err != nil {
		t.Fatal(err)
	}
	plan, err := w.runner(t, levels, replacing("web"), pinned).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bind := func(o *options) {
		o.Fingerprint, o.Bound, o.Replace = fingerprint, map[string]report.ResourcePlan{}, []string{"web"}
		for _, r := range plan.Resources {
			o.Bound[r.Name] = r
		}
		o.Confirm = runner.ConfirmAction
		o.Confirmer = w
	}
	w.things["web"] = "theirs"
	if _, err := w.apply(t, levels, bind); err == nil || !strings.Contains(err.Error(), "what there is of it has changed") || w.things["web"] != "theirs" {
		t.Errorf("bound: %v", err)
	}
	w.things["web"] = 3
	if got, err := w.apply(t, levels, bind); err != nil || got["web"] != report.Changed || len(w.asked) > 0 {
		t.Errorf("bound: %v, %v, asked %d times", got, err, len(w.asked))
	}
}
