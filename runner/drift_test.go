package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

func (w *world) drift(t *testing.T, text string, change ...func(*options)) (map[string]string, *report.Drift, error) {
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
		for _, path := range diff.PathsOf(found.Unmatched, "ignore_drift", r.Name) {
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
	for name, told := range want {
		assert.Equal(t, told, got[name], name)
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
	found := w.mustDrift(t, `resources: {app: {type: crashing, config: {token: hush-hush}}}`)
	app := found.Resources[0]
	assert.Equal(t, `"start" (start it, as it exited with 3 ((secret)))`, app.Asked)
	assert.Equal(t, []string{"last output: no such table, said (secret)"}, app.Output)
}

func TestDriftLooksAtEveryResourceAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.things = map[string]any{"good": 1, "bad": "old", "after": "old", "beside": 2}
	told, found, err := w.drift(t, fleet)
	require.NoError(t, err)
	wantTold(t, told, map[string]string{
		"good": "VALID", "bad": "STALE +token ~value", "after": "VALID", "lost": "STALE missing",
		"beside": "STALE ~value", "lower": "UNKNOWN because of lost", "lowest": "UNKNOWN because of lower",
	})
	assert.True(t, found.Drifted(), "the report says that nothing drifted")
	assert.Zero(t, w.runs("set"))
	assert.Empty(t, w.logged)
	assert.NotContains(t, w.kept(t)+fmt.Sprint(found, w.events), "hush-hush", "a secret is told")
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
			require.NoError(t, err)
			wantTold(t, told, map[string]string{"db": tc.want})
			assert.Equal(t, strings.HasPrefix(tc.want, "STALE"), found.Drifted(), "drifted")
		})
	}
}

func TestAMistypedPathToIgnoreIsTold(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "new"
	const text = "resources: {db: {type: thing, ignore_drift: [value, valeu, name, name.x, nam], config: {value: new}}}"
	told, _, err := w.drift(t, text) // its state has a name
	require.NoError(t, err)
	assert.Equal(t, "VALID in vain valeu in vain name.x in vain nam", told["db"])
	delete(w.things, "db")
	told, _, err = w.drift(t, text)
	assert.True(t, err == nil && told["db"] == "STALE missing in vain valeu in vain name in vain name.x in vain nam", "its schema still has a say: %v, %v", told, err)
}

func TestIgnoredDriftChangesNoPlan(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	plan := w.mustPlan(t, "resources: {db: {type: thing, ignore_drift: [value], config: {value: new}}}")
	assert.Equal(t, report.Stale, plan.Resources[0].Status)
	assert.Len(t, plan.Resources[0].Diff, 1)
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
	require.ErrorAs(t, err, &failed)
	assert.ErrorContains(t, err, "lost: state exited with 9")
	wantTold(t, told, map[string]string{
		"bad": "STALE +token ~value", "beside": "VALID", "lower": "UNKNOWN because of lost",
		"lost": "FAILED state exited with 9 and printed nothing",
	})
	require.NotNil(t, found)
	assert.True(t, found.Drifted())
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
	assert.True(t, errors.Is(err, runner.ErrInterrupted) && found != nil &&
		found.Resources[1].Status == report.Skipped, "%v, %+v", err, found)
}

func TestAfterADriftEachStateIsKnownAsItWasFound(t *testing.T) {
	w := newWorld(t)
	w.things = map[string]any{"good": 1, "bad": "old", "after": "old", "beside": 2}
	r := w.runner(t, fleet)
	must.Get(r.Drift(t.Context()))(t)
	for name, want := range map[string]string{
		"good": "map[name:good value:1]", "bad": "map[value:old]", "beside": "map[value:2]", "lost": "map[]", "lower": "map[]",
	} {
		assert.Equal(t, want, fmt.Sprint(r.State(name)), name)
	}
}

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
	require.NoError(t, err)
	wantTold(t, got, map[string]string{
		"up": "STALE ~value", "mid": "UNKNOWN because of up", "low": "UNKNOWN because of mid", "odd": "UNKNOWN because of up",
	})
	assert.True(t, found.Drifted(), "it is no drift")

	// Where it is as configured, what it lacks is a mistake.
	w.things["up"] = "new"
	_, _, err = w.drift(t, `
resources:
  up: {type: thing, config: {value: new}}
  mid: {type: thing, dependencies: {u: up}, config: {value: "{{ u.state.nam }}"}}
`)
	assert.ErrorContains(t, err, "nam")
}

// box is a type whose resources are what they are configured to be, key by key. All of them are in w.things, as mappings.
func box(w *world) {
	w.engine.Images["box"] = image(func(_ context.Context, c enginetest.Call) int {
		var in protocol.ActionInput
		text, _ := io.ReadAll(c.Stdin)
		if json.Unmarshal(text, &in) != nil {
			return 3
		}
		action := append(c.Args, "init")[0]
		w.mu.Lock()
		defer w.mu.Unlock()
		w.trace = append(w.trace, action+" "+in.Name)
		have, exists := w.things[in.Name]
		switch {
		case action == "init":
			fmt.Fprint(c.Stdout, `{"state_action": {"args": ["state"]}, "config_schema": {"required": ["size"], "properties": {"size": {"type": "integer"}}}}`)
		case action == "set":
			w.things[in.Name] = map[string]any(in.Config)
		case !exists:
			fmt.Fprint(c.Stdout, `{"status": "STALE", "actions": [{"name": "set", "args": ["set"]}]}`)
		default:
			a, _ := json.Marshal(have)
			b, _ := json.Marshal(in.Config)
			status := fmt.Sprintf(`{"status": "VALID", "state": %s}`, a)
			if string(a) != string(b) {
				status = fmt.Sprintf(`{"status": "STALE", "staleState": %s, "actions": [{"name": "set", "args": ["set"]}]}`, a)
			}
			fmt.Fprint(c.Stdout, status)
		}
		return 0
	})
}

func TestWhatIsToBeLeftAsItIsStaysSo(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		ignore string
		there  object
		status report.Status
		after  object // what is there in the end
		drift  string
	}{
		"as configured":           {"[size]", object{"size": 1, "tags": []any{"a", "b"}}, report.Unchanged, object{"size": 1, "tags": []any{"a", "b"}}, "VALID"},
		"one value":               {"[size]", object{"size": 5, "tags": []any{"a", "b"}}, report.Unchanged, object{"size": 5, "tags": []any{"a", "b"}}, "VALID ignored size"},
		"the rest is changed":     {"[size]", object{"size": 5, "tags": []any{"a"}}, report.Changed, object{"size": 5, "tags": []any{"a", "b"}}, "STALE ~tags ignored size"},
		"a member of a list":      {`["tags[1]"]`, object{"size": 1, "tags": []any{"a", "z"}}, report.Unchanged, object{"size": 1, "tags": []any{"a", "z"}}, "VALID ignored tags[1]"},
		"no such member":          {`["tags[1]"]`, object{"size": 1, "tags": []any{"a"}}, report.Changed, object{"size": 1, "tags": []any{"a", "b"}}, "STALE ~tags"},
		"what is not there":       {"[tags]", object{"size": 1}, report.Unchanged, object{"size": 1}, "VALID ignored tags"},
		"what nobody asked for":   {"[owner]", object{"size": 1, "tags": []any{"a", "b"}, "owner": "x"}, report.Unchanged, object{"size": 1, "tags": []any{"a", "b"}, "owner": "x"}, "VALID"},
		"below what is not there": {"[deep.er]", object{"size": 1, "tags": []any{"a", "b"}, "deep": object{"er": 1}}, report.Unchanged, object{"size": 1, "tags": []any{"a", "b"}, "deep": object{"er": 1}}, "VALID"},
		"nothing is there":        {"[size]", nil, report.Changed, object{"size": 1, "tags": []any{"a", "b"}}, "STALE missing"},
		"what must be there":      {"[size]", object{"tags": []any{"a", "b"}}, report.Changed, object{"size": 1, "tags": []any{"a", "b"}}, "STALE +size"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			box(w)
			if c.there != nil {
				w.things["a"] = c.there
			}
			text := "resources:\n  a: {type: box, ignore_changes: " + c.ignore + ", config: {size: 1, tags: [a, b]}}\n"
			told, _, err := w.drift(t, text)
			require.NoError(t, err)
			assert.Equal(t, c.drift, told["a"])
			assert.Equal(t, c.status == report.Unchanged, w.mustPlan(t, text).Resources[0].Status == report.Valid)
			if got, err := w.apply(t, text); err != nil || got["a"] != c.status {
				t.Errorf("applied: %s, %v; want %s", got["a"], err, c.status)
			}
			var after, want any
			a, _ := json.Marshal(w.things["a"])
			b, _ := json.Marshal(c.after)
			assert.True(t, json.Unmarshal(a, &after) == nil && json.Unmarshal(b, &want) == nil &&
				reflect.DeepEqual(after, want), "in the end there is %s, want %s", a, b)
		})
	}
}

func TestWhatNothingRemovesIsRefusedWithItsPlace(t *testing.T) {
	const text = "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, prevent_destroy: true, config: {value: 1}}\n"
	w := applied(t, text)
	_, err := w.runner(t, text).Destroy(t.Context())
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	assert.ErrorContains(t, err, "m.yaml:3:20: resources.b: it is not removed: its prevent_destroy is true")
	assert.ErrorContains(t, err, "--target a")
	assert.Zero(t, w.runs("unset")+w.runs("absent"))
	assert.Len(t, w.things, 2)
	assert.ErrorAs(t, must.Fail(w.runner(t, text).PlanDestroy(t.Context())), &invalid)
	assert.ErrorAs(t, w.runner(t, text).Removable(t.Context()), &invalid, "removable")
	w.mustDestroy(t, text, remove("a"))
	assert.Len(t, w.things, 1)
}

// What a look has asked can be asked again without its runner, and tells whether the answers differ.
func TestWhatALookAskedCanBeAskedAgain(t *testing.T) {
	const text = "resources: {a: {type: served, config: {value: 1}}, b: {type: served, config: {value: 2}}}"
	w, reserve, run := reserved(t, 5)
	w.mustApply(t, text, run(0))
	look := func(run int, change ...func(*options)) []invoke.Asked {
		r := w.runner(t, text, change...)
		must.Get(r.Drift(t.Context()))(t)
		return r.Questions()
	}
	assert.Nil(t, look(1, run(1)), "the transcripts of a look that somebody reads")
	asked := look(2, run(2), func(o *options) { o.Forget = true })
	require.Len(t, asked, 2)
	again := func() []bool { return reserve.Again(t.Context(), time.Now(), asked) }
	for range 2 {
		assert.Equal(t, []bool{true, true}, again())
	}
	w.things["b"] = 3
	assert.ElementsMatch(t, []bool{true, false}, again())
	assert.Equal(t, []bool{false}, reserve.Again(t.Context(), time.Now(), make([]invoke.Asked, 1)), "no question")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NotPanics(t, func() { reserve.Again(over, time.Now(), asked) })
	serving, _ := w.starts()
	assert.LessOrEqual(t, serving, 1, "a process was started to ask again")
	reserve.Close(t.Context())
	assert.Equal(t, []bool{false, false}, again())
}

// It is the answer that counts, in whatever words it is given.
func TestWhatIsAskedAgainMayBeAnsweredInOtherWords(t *testing.T) {
	const text = "resources: {a: {type: served, config: {value: 1}}}"
	forms := []string{
		`{"id":%d,"exit":0,"output":%s}`,
		`{"output":%[2]s,"exit":0,"id":%[1]d}`,
		`{"id":%d,"stderr":"it is well","exit":0,"output":%s}`,
		`{"id":%[1]d,"stderr":"wait"}` + "\n" + `{"id":%[1]d,"exit":0,"output":%[2]s}`,
	}
	for _, first := range forms {
		for _, second := range forms {
			w, reserve, run := reserved(t, 5)
			form := first
			w.engine.Images["served"] = w.servingBut(func(p *served, q question) bool {
				if q.Action != "state" {
					return false
				}
				var out bytes.Buffer
				p.w.thing(t.Context(), enginetest.Call{Args: q.Args, Stdin: bytes.NewReader(q.Input), Stdout: &out, Stderr: io.Discard})
				_, _ = fmt.Fprintf(p.Stdout, form+"\n", q.ID, bytes.TrimSpace(out.Bytes()))
				return true
			})
			w.mustApply(t, text, run(0))
			r := w.runner(t, text, run(1), func(o *options) { o.Forget = true })
			must.Get(r.Drift(t.Context()))(t)
			form = second
			asked := r.Questions()
			require.Len(t, asked, 1)
			for range 2 {
				assert.Equal(t, []bool{true}, reserve.Again(t.Context(), time.Now(), asked), "%s, then %s", first, second)
			}
			w.things["a"] = 3
			assert.Equal(t, []bool{false}, reserve.Again(t.Context(), time.Now(), asked), "%s, then %s", first, second)
			reserve.Close(t.Context())
		}
	}
}
