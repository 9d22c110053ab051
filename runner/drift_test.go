package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// drift returns what is told of each resource, as one text.
func (w *world) drift(t *testing.T, text string, change ...func(*options)) (map[string]string, *report.Drift, error) {
	t.Helper()
	found, err := w.runner(t, text, change...).Drift(t.Context())
	told := map[string]string{}
	if found == nil {
		return told, found, err
	}
	for _, r := range found.Resources {
		said := string(r.Status)
		if r.Missing {
			said += " missing"
		}
		for _, c := range r.Diff {
			said += fmt.Sprintf(" %s%s", c.Op, c.Path)
		}
		for _, c := range r.Ignored {
			said += " ignored " + c.Path
		}
		for _, d := range r.Because {
			said += " because of " + d
		}
		for _, path := range r.Unmatched {
			said += " in vain " + path
		}
		if r.Error != "" {
			said += " " + r.Error
		}
		told[r.Name] = said
	}
	return told, found, err
}

func wantTold(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, told := range want {
		if got[name] != told {
			t.Errorf("of %s is told %q, want %q", name, got[name], told)
		}
	}
}

const fleet = `
resources:
  good: {type: thing, config: {value: 1}}
  bad: {type: thing, dependencies: {g: good}, config: {value: new, token: hush-hush}}
  after: {type: thing, dependencies: {b: bad}, config: {value: "{{ b.state.value }}"}}
  lost: {type: thing, config: {value: 1}}
  beside: {type: thing, dependencies: {l: lost}, config: {value: 1}}
  lower: {type: thing, dependencies: {l: lost}, config: {value: "{{ l.state.value }}"}}
  lowest: {type: thing, dependencies: {l: lower}, config: {value: "{{ l.state.value }}"}}
`

// A type knows more of what is not as configured than which values differ.
func TestDriftTellsWhatATypeSaysOfIt(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["crashing"] = crashing
	found, err := w.runner(t, `resources: {app: {type: crashing, config: {token: hush-hush}}}`).Drift(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	app := found.Resources[0]
	if want := `"start" (start it, as it exited with 3 ((secret)))`; app.Asked != want {
		t.Errorf("it asks for %s, want %s", app.Asked, want)
	}
	if want := []string{"last output: no such table, said (secret)"}; !slices.Equal(app.Output, want) {
		t.Errorf("it said %q, want %q", app.Output, want)
	}
}

func TestDriftLooksAtEveryResourceAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.things = map[string]any{"good": 1, "bad": "old", "after": "old", "beside": 2}
	told, found, err := w.drift(t, fleet)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, told, map[string]string{
		"good": "VALID", "bad": "STALE +token ~value", "after": "VALID", "lost": "STALE missing",
		"beside": "STALE ~value", "lower": "UNKNOWN because of lost", "lowest": "UNKNOWN because of lower",
	})
	if !found.Drifted() {
		t.Error("the report says that nothing drifted")
	}
	if w.runs("set") > 0 || len(w.logged) > 0 {
		t.Errorf("it did %v and recorded %v", w.trace, w.names())
	}
	if everything := w.kept(t) + fmt.Sprint(found, w.events); strings.Contains(everything, "hush-hush") {
		t.Error("a secret is told")
	}
}

func TestDriftWithoutAny(t *testing.T) {
	w := newWorld(t)
	if _, err := w.apply(t, fleet); err != nil {
		t.Fatal(err)
	}
	told, found, err := w.drift(t, fleet)
	if err != nil || found.Drifted() {
		t.Errorf("%v, %v", told, err)
	}
}

func TestWhatIsToBeIgnoredIsNoDrift(t *testing.T) {
	const config = `config: {value: {image: web, tags: [a, b], labels: {build.id: 1, team: x}}}`
	for _, tc := range []struct{ name, ignore, have, want string }{
		{"all of it", "value", `{"image":"old"}`, "VALID ignored value.image ignored value.labels.build.id ignored value.labels.team ignored value.tags"},
		{"one", "value.image", `{"image":"old","tags":["a","b"],"labels":{"build.id":1,"team":"x"}}`, "VALID ignored value.image"},
		{"in a list", `"value.tags[1]"`, `{"image":"web","tags":["a","c"],"labels":{"build.id":1,"team":"x"}}`, "VALID ignored value.tags[1]"},
		{"a key with a dot", `value.labels.build.id`, `{"image":"web","tags":["a","b"],"labels":{"build.id":2,"team":"x"}}`, "VALID ignored value.labels.build.id"},
		{"and others differ", "value.image, value.tags", `{"image":"old","tags":["b"],"labels":{"build.id":1,"team":"y"}}`, "STALE ~value.labels.team ignored value.image ignored value.tags"},
		{"a longer name", "value.im", `{"image":"old","tags":["a","b"],"labels":{"build.id":1,"team":"x"}}`, "STALE ~value.image"},
		{"a part of what is gone", `"value.tags[0]"`, `{"image":"web","tags":[],"labels":{"build.id":1,"team":"x"}}`, "STALE ~value.tags"},
		{"another", "value.nothing", `{"image":"old","tags":["a","b"],"labels":{"build.id":1,"team":"x"}}`, "STALE ~value.image"},
		{"and it is missing", "value", "", "STALE missing"},
		{"and nothing is told", "value", "{}", "STALE"},
		{"what is not there, too", "value, valeu.image, name", `{"image":"old"}`, "VALID ignored value.image ignored value.labels.build.id ignored value.labels.team ignored value.tags in vain valeu.image in vain name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			stale := `"staleState":{"value":` + tc.have + "},"
			manifest := "resources: {db: {type: thing, ignore_drift: [" + tc.ignore + "], " + config + "}}"
			switch tc.have {
			case "":
				stale = ""
			case "{}": // a type that reports nothing that can be compared
				manifest = "resources: {db: {type: thing, ignore_drift: [value], config: {}}}"
			}
			w.engine.Images["thing"] = answering(`{"state_action":{"args":["state"]}}`, `{"status":"STALE",`+stale+`"actions":[{"name":"set"}]}`, 0)
			told, found, err := w.drift(t, manifest)
			if err != nil {
				t.Fatal(err)
			}
			wantTold(t, told, map[string]string{"db": tc.want})
			if found.Drifted() != strings.HasPrefix(tc.want, "STALE") {
				t.Errorf("drifted: %v", found.Drifted())
			}
		})
	}
}

func TestAMistypedPathToIgnoreIsTold(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "new"
	const text = "resources: {db: {type: thing, ignore_drift: [value, valeu, name, name.x, nam], config: {value: new}}}"
	told, _, err := w.drift(t, text) // its state has a name
	if err != nil || told["db"] != "VALID in vain valeu in vain nam" {
		t.Errorf("%v, %v", told, err)
	}
	delete(w.things, "db")
	if told, _, err = w.drift(t, text); err != nil || told["db"] != "STALE missing" {
		t.Errorf("of what is not there nothing can be said: %v, %v", told, err)
	}
}

func TestIgnoredDriftChangesNoPlan(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	plan, err := w.runner(t, "resources: {db: {type: thing, ignore_drift: [value], config: {value: new}}}").Plan(t.Context())
	if err != nil || plan.Resources[0].Status != report.Stale || len(plan.Resources[0].Diff) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestAFailureHidesNoDrift(t *testing.T) {
	w := newWorld(t)
	w.things = map[string]any{"good": 1, "bad": "old", "after": "old", "lost": 2, "beside": 1}
	good := w.engine.Images["thing"].Program
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if slices.Equal(c.Args, []string{"state"}) && c.Spec.Labels[invoke.LabelResource] == "lost" {
			return 9
		}
		return good(ctx, c)
	})
	told, found, err := w.drift(t, fleet, func(o *options) { o.Parallelism = 1 })
	var failed *failure.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "lost: state exited with 9") {
		t.Errorf("got %v", err)
	}
	wantTold(t, told, map[string]string{
		"bad": "STALE +token ~value", "beside": "VALID", "lower": "UNKNOWN because of lost",
		"lost": "FAILED state exited with 9 and printed nothing",
	})
	if found == nil || !found.Drifted() {
		t.Error("the drift of bad is not reported")
	}
}

func TestDriftIsInterrupted(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	w.before = func(action, _ string) {
		if action == "state" {
			close(stop)
		}
	}
	_, found, err := w.drift(t, fleet, func(o *options) { o.Stop, o.Parallelism = stop, 1 })
	if !errors.Is(err, runner.ErrInterrupted) || found == nil || found.Resources[1].Status != report.Skipped {
		t.Errorf("%v, %+v", err, found)
	}
}

func TestAfterADriftEachStateIsKnownAsItWasFound(t *testing.T) {
	w := newWorld(t)
	w.things = map[string]any{"good": 1, "bad": "old", "after": "old", "beside": 2}
	r := w.runner(t, fleet)
	if _, err := r.Drift(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"good": "map[name:good value:1]", "bad": "map[value:old]", "beside": "map[value:2]", "lost": "map[]", "lower": "map[]",
	} {
		if got := fmt.Sprint(r.State(name)); got != want {
			t.Errorf("%s was found as %s, want %s", name, got, want)
		}
	}
}

// The state of what has drifted need not have what others need of it.
func TestWhatNeedsADriftedStateIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.things["up"] = "old"
	got, found, err := w.drift(t, `
resources:
  up: {type: thing, config: {value: new}}
  mid: {type: thing, dependencies: {u: up}, config: {value: "{{ u.state.name }}"}}
  low: {type: thing, dependencies: {m: mid}, config: {value: "{{ m.state.value }}"}}
  odd: {type: thing, dependencies: {u: up}, config: {value: 1, count: "{{ u.state.value }}"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, got, map[string]string{
		"up": "STALE ~value", "mid": "UNKNOWN because of up", "low": "UNKNOWN because of mid", "odd": "UNKNOWN because of up",
	})
	if !found.Drifted() {
		t.Error("it is no drift")
	}

	// Where it is as configured, what it lacks is a mistake.
	w.things["up"] = "new"
	_, _, err = w.drift(t, `
resources:
  up: {type: thing, config: {value: new}}
  mid: {type: thing, dependencies: {u: up}, config: {value: "{{ u.state.nam }}"}}
`)
	if err == nil || !strings.Contains(err.Error(), "nam") {
		t.Errorf("told was %v", err)
	}
}
