package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// box is a type whose resources are what they are configured to be, key by key. All of them are
// in w.things, as mappings.
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

// What is to be left as it is stays so, whoever looks; the rest is brought to its configuration.
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
			if err != nil || told["a"] != c.drift {
				t.Errorf("drift: %q, %v; want %q", told["a"], err, c.drift)
			}
			plan, err := w.runner(t, text).Plan(t.Context())
			if err != nil || (plan.Resources[0].Status == report.Valid) != (c.status == report.Unchanged) {
				t.Errorf("planned: %+v, %v", plan.Resources[0], err)
			}
			if got, err := w.apply(t, text); err != nil || got["a"] != c.status {
				t.Errorf("applied: %s, %v; want %s", got["a"], err, c.status)
			}
			var after, want any
			a, _ := json.Marshal(w.things["a"])
			b, _ := json.Marshal(c.after)
			if json.Unmarshal(a, &after) != nil || json.Unmarshal(b, &want) != nil || !reflect.DeepEqual(after, want) {
				t.Errorf("in the end there is %s, want %s", a, b)
			}
		})
	}
}

func TestWhatNothingRemovesIsRefusedWithItsPlace(t *testing.T) {
	w := removable(newWorld(t))
	text := "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, prevent_destroy: true, config: {value: 1}}\n"
	if _, err := w.apply(t, text); err != nil {
		t.Fatal(err)
	}
	w.forget()
	_, err := w.runner(t, text).Destroy(t.Context())
	var invalid *manifest.Error
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "m.yaml:3:20: resources.b: it is not removed: its prevent_destroy is true") ||
		!strings.Contains(err.Error(), "--target a") {
		t.Errorf("got %v", err)
	}
	if w.runs("unset")+w.runs("absent") > 0 || len(w.things) != 2 {
		t.Errorf("something was done: %v", w.trace)
	}
	if _, err := w.runner(t, text).PlanDestroy(t.Context()); !errors.As(err, &invalid) {
		t.Errorf("planned: %v", err)
	}
	if err := w.runner(t, text).Removable(t.Context()); !errors.As(err, &invalid) {
		t.Errorf("removable: %v", err)
	}
	if _, err := w.runner(t, text, func(o *options) { o.Remove = []string{"a"} }).Destroy(t.Context()); err != nil || len(w.things) != 1 {
		t.Errorf("the other one: %v", err)
	}
}
