package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// seeing has types that see through: "net", whose resources have a name and an id that only
// their making gives, and "box", which accepts what is not known, if it is to.
func seeing(w *world, accepts bool) {
	answer := func(c enginetest.Call, out protocol.StateOutput) int {
		_ = json.NewEncoder(c.Stdout).Encode(out)
		return 0
	}
	read := func(c enginetest.Call) (in protocol.ActionInput, raw map[string]any) {
		text, _ := io.ReadAll(c.Stdin)
		_, _ = json.Unmarshal(text, &in), json.Unmarshal(text, &raw)
		return in, raw
	}
	w.engine.Images["net"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			return 0
		}
		in, _ := read(c)
		return answer(c, protocol.StateOutput{
			Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")},
			PlannedState: map[string]any{"name": in.Config["name"], "id": protocol.Unknown{}},
		})
	})
	w.engine.Images["box"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprintf(c.Stdout, `{"accepts_unknown":%v,"state_action":{"args":["state"]}}`, accepts)
			return 0
		}
		in, raw := read(c)
		w.mu.Lock()
		w.inputs = append(w.inputs, raw)
		w.mu.Unlock()
		if in.Name == "broken" {
			return 1
		}
		have, exists := w.things[in.Name]
		out := protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("make", "")}}
		if exists {
			out.StaleState = map[string]any{"size": have}
		}
		if exists && have == in.Config["size"] {
			out = protocol.StateOutput{Status: protocol.Valid, State: out.StaleState}
		}
		return answer(c, out)
	})
}

const boxes = `
resources:
  n: {type: net, config: {name: web}}
  fixed: {type: box, dependencies: {net: n}, config: {size: big}}
  same: {type: box, dependencies: {net: n}, config: {size: big}}
  named: {type: box, dependencies: {net: n}, config: {net: "{{ net.state.name }}", size: big}}
  bound: {type: box, dependencies: {net: n}, config: {net: "{{ net.state.id }}", label: "is {{ net.state.id is defined }}", size: big}}
  below: {type: box, dependencies: {box: bound}, config: {of: "{{ box.state.size }}", size: "{{ 'b' ~ 'ig' }}"}}
  broken: {type: box, dependencies: {net: n}, config: {size: big}}
`

func TestAPlanSeesThroughWhatIsNotAppliedYet(t *testing.T) {
	w := newWorld(t)
	seeing(w, true)
	w.things["fixed"], w.things["same"] = "small", "big"
	plan, err := w.runner(t, boxes).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]report.ResourcePlan{}
	for _, r := range plan.Resources {
		got[r.Name] = r
	}
	unknown := protocol.Unknown{}
	for name, want := range map[string]struct {
		tentative report.Status
		exists    bool
		config    map[string]any
		diff      []diff.Change
	}{
		"fixed": {report.Stale, true, map[string]any{"size": "big"}, []diff.Change{{Path: "size", Op: diff.Modify, Old: "small", New: "big"}}},
		"same":  {report.Valid, true, map[string]any{"size": "big"}, nil},
		"named": {report.Stale, false, map[string]any{"net": "web", "size": "big"}, []diff.Change{{Path: "net", Op: diff.Add, New: "web"}, {Path: "size", Op: diff.Add, New: "big"}}},
		"bound": {report.Stale, false, map[string]any{"net": unknown, "label": "is True", "size": "big"}, []diff.Change{
			{Path: "label", Op: diff.Add, New: "is True"}, {Path: "net", Op: diff.Add, New: unknown}, {Path: "size", Op: diff.Add, New: "big"},
		}},
		"below":  {report.Stale, false, map[string]any{"of": unknown, "size": "big"}, []diff.Change{{Path: "of", Op: diff.Add, New: unknown}, {Path: "size", Op: diff.Add, New: "big"}}},
		"broken": {"", false, map[string]any{"size": "big"}, []diff.Change{{Path: "size", Op: diff.Add, New: "big"}}},
	} {
		r := got[name]
		if r.Status != report.Unknown || r.Tentative != want.tentative || r.Exists != want.exists || !reflect.DeepEqual(r.Config, want.config) || !reflect.DeepEqual(r.Diff, want.diff) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if n := got["n"]; n.Status != report.Stale || n.Tentative != "" {
		t.Errorf("n: %+v", n)
	}
}

func TestATypeThatDoesNotAcceptWhatIsUnknownIsNotAsked(t *testing.T) {
	w := newWorld(t)
	seeing(w, false)
	plan, err := w.runner(t, boxes).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range w.inputs {
		if name := in["name"]; name == "bound" || name == "below" {
			t.Errorf("%v was asked: %v", name, in)
		}
	}
	for _, r := range plan.Resources {
		if r.Name == "bound" && (r.Tentative != "" || len(r.Diff) != 3 || r.ConfigHash != "") {
			t.Errorf("%+v", r)
		}
	}
}

// Whatever a plan has seen tentatively, an apply asks again with what is known then.
func TestAnApplyIsBoundToNothingTentative(t *testing.T) {
	w := newWorld(t)
	const manifest = `
resources:
  a: {type: thing, config: {value: new}}
  b: {type: thing, dependencies: {a: a}, config: {value: "{{ a.state.value }}"}}
  c: {type: thing, dependencies: {a: a}, config: {value: 3}}
`
	w.things["a"] = "old"
	plan, err := w.runner(t, manifest, pinned).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]report.ResourcePlan{}
	for _, r := range plan.Resources {
		bound[r.Name] = r
	}
	if bound["c"].Tentative != report.Stale || bound["c"].ConfigHash == "" || bound["b"].ConfigHash != "" || len(bound["b"].Diff) != 1 {
		t.Errorf("c: %+v\nb: %+v", bound["c"], bound["b"])
	}
	w.things["c"] = "another by now"
	got, err := w.apply(t, manifest, func(o *options) { o.Fingerprint, o.Bound = fingerprint, bound })
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, got, map[string]report.Status{"a": report.Changed, "b": report.Changed, "c": report.Changed})
	if w.things["b"] != "new" {
		t.Errorf("b has %v", w.things["b"])
	}
}

// What is as configured but for what is not known yet may become another, so that nothing is
// foreseen of it.
func TestOfWhatMayBecomeAnotherNothingIsForeseen(t *testing.T) {
	w := newWorld(t)
	seeing(w, true)
	w.things["bound"] = "big"
	plan, err := w.runner(t, `
resources:
  n: {type: net, config: {name: web}}
  bound: {type: box, dependencies: {net: n}, config: {net: "{{ net.state.id }}", size: big}}
  below: {type: box, dependencies: {box: bound}, config: {of: "{{ box.state.size }}", size: big}}
`).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bound, below := plan.Resources[1], plan.Resources[2]; bound.Tentative != report.Valid || below.Config["of"] != (protocol.Unknown{}) {
		t.Errorf("planned: %+v, %+v", bound, below)
	}
}
