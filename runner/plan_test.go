package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
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
	require.NoError(t, err)
	got := byName(plan)
	for name, want := range map[string]report.Status{
		"same": report.Valid, "after-same": report.Stale, "db": report.Stale, "api": report.Unknown, "web": report.Unknown,
	} {
		assert.Equal(t, want, got[name].Status, name)
	}
	assert.Equal(t, []string{"db"}, got["api"].After)
	assert.Equal(t, []string{"api"}, got["web"].After)
	assert.False(t, got["after-same"].Exists)
	assert.True(t, got["db"].Exists)
	if diff := diff.Text(got["db"].Diff); !strings.Contains(diff, `~ value: "old" → "new"`) || strings.Contains(diff, "hush-hush") {
		t.Errorf("the diff is\n%s", diff)
	}
	require.Len(t, got["db"].Actions, 1)
	assert.Equal(t, "set", got["db"].Actions[0].Name)
	assert.Equal(t, 0, w.runs("set"))
	assert.Empty(t, w.logged)
	assert.True(t, plan.Changes(), "the plan says that there are no changes")
}

func TestPlanThenApplyInitializesOnce(t *testing.T) {
	w := newWorld(t)
	r := w.runner(t, chain)
	_, err := r.Plan(t.Context())
	require.NoError(t, err)
	_, err = r.Apply(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, w.runs("init"))
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
	_, err := r.Plan(t.Context())
	require.NoError(t, err)
	size = 2
	_, err = r.Apply(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2.0, w.things["api"])
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
	require.ErrorContains(t, err, "read-only, and not as configured")
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
	plan := w.mustPlan(t, boxes)
	got := byName(plan)
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
	plan := w.mustPlan(t, boxes)
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
	plan := w.mustPlan(t, manifest, pinned)
	bound := byName(plan)
	if bound["c"].Tentative != report.Stale || bound["c"].ConfigHash == "" || bound["b"].ConfigHash != "" || len(bound["b"].Diff) != 1 {
		t.Errorf("c: %+v\nb: %+v", bound["c"], bound["b"])
	}
	w.things["c"] = "another by now"
	got := w.mustApply(t, manifest, to(plan))
	wantStatuses(t, got, map[string]report.Status{"a": report.Changed, "b": report.Changed, "c": report.Changed})
	assert.Equal(t, "new", w.things["b"], "b")
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
	require.NoError(t, err)
	if bound, below := plan.Resources[1], plan.Resources[2]; bound.Tentative != report.Valid || below.Config["of"] != (protocol.Unknown{}) {
		t.Errorf("planned: %+v, %+v", bound, below)
	}
}
