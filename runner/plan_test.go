package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

func TestPlanSaysWhatAnApplyWouldDoAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.things["db"] = "old"
	w.things["same"] = "same"
	plan := must.Get(w.runner(t, `
resources:
  same: {type: thing, config: {value: same}}
  after-same: {type: thing, dependencies: {s: same}, config: {value: "{{ s.state.value }}"}}
  db: {type: thing, config: {value: new, token: hush-hush}}
  api: {type: thing, dependencies: {db: db}, config: {value: 1}}
  web: {type: thing, dependencies: {api: api}, config: {value: 1}}
`).Plan(t.Context()))(t)
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
	diff := diff.Text(got["db"].Diff)
	assert.True(t, strings.Contains(diff, `~ value: "old" → "new"`) && !strings.Contains(diff, "hush-hush"), "the diff is\n%s", diff)
	require.Len(t, got["db"].Actions, 1)
	assert.Equal(t, "set", got["db"].Actions[0].Name)
	assert.Equal(t, 0, w.runs("set"))
	assert.Empty(t, w.logged)
	assert.True(t, plan.Changes(), "the plan says that there are no changes")
}

func TestPlanThenApplyInitializesOnce(t *testing.T) {
	w := newWorld(t)
	r := w.runner(t, chain)
	must.Get(r.Plan(t.Context()))(t)
	must.Get(r.Apply(t.Context()))(t)
	assert.Equal(t, 3, w.runs("init"))
	names := w.names()
	assert.True(t, names[0] == "run-started" && slices.Contains(names, "resource-initialized db"), "recorded %v", names)
}

// Between a plan and its apply a dependency may change: what depends on it is resolved anew.
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
	must.Get(r.Plan(t.Context()))(t)
	size = 2
	must.Get(r.Apply(t.Context()))(t)
	assert.Equal(t, 2.0, w.things["api"])
}

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
	assert.True(t, cert.Status == report.Failed && cert.ReadOnly && len(cert.Actions) == 0 && len(cert.Diff) == 1 &&
		cert.Diff[0].Path == "value", "%+v", cert)
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
		assert.True(t, r.Status == report.Unknown && r.Tentative == want.tentative && r.Exists == want.exists &&
			reflect.DeepEqual(r.Config, want.config) && reflect.DeepEqual(r.Diff, want.diff), "%s: %+v", name, r)
	}
	n := got["n"]
	assert.True(t, n.Status == report.Stale && n.Tentative == "", "n: %+v", n)
}

func TestATypeThatDoesNotAcceptWhatIsUnknownIsNotAsked(t *testing.T) {
	w := newWorld(t)
	seeing(w, false)
	plan := w.mustPlan(t, boxes)
	for _, in := range w.inputs {
		name := in["name"]
		assert.True(t, name != "bound" && name != "below", "%v was asked: %v", name, in)
	}
	for _, r := range plan.Resources {
		assert.False(t, r.Name == "bound" && (r.Tentative != "" || len(r.Diff) != 3 || r.ConfigHash != ""), "%+v", r)
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
	assert.True(t, bound["c"].Tentative == report.Stale && bound["c"].ConfigHash != "" && bound["b"].ConfigHash == "" &&
		len(bound["b"].Diff) == 1, "c: %+v\nb: %+v", bound["c"], bound["b"])
	w.things["c"] = "another by now"
	got := w.mustApply(t, manifest, to(plan))
	wantStatuses(t, got, map[string]report.Status{"a": report.Changed, "b": report.Changed, "c": report.Changed})
	assert.Equal(t, "new", w.things["b"], "b")
}

// What is as configured but for what is not known yet may become another, so that nothing is foreseen of it.
func TestOfWhatMayBecomeAnotherNothingIsForeseen(t *testing.T) {
	w := newWorld(t)
	seeing(w, true)
	w.things["bound"] = "big"
	plan := must.Get(w.runner(t, `
resources:
  n: {type: net, config: {name: web}}
  bound: {type: box, dependencies: {net: n}, config: {net: "{{ net.state.id }}", size: big}}
  below: {type: box, dependencies: {box: bound}, config: {of: "{{ box.state.size }}", size: big}}
`).Plan(t.Context()))(t)
	if bound, below := plan.Resources[1], plan.Resources[2]; bound.Tentative != report.Valid || below.Config["of"] != (protocol.Unknown{}) {
		t.Errorf("planned: %+v, %+v", bound, below)
	}
}

// steps is a type whose resources need the actions a and b, each of which takes
// ten minutes. Each container tells what it does when its program begins.
func (w *world) steps(began func(action string) (exit int)) enginetest.FakeImage {
	done := 0
	return image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
			return 0
		}
		w.mu.Lock()
		exit, ready := began(c.Args[0]), done >= 2
		w.mu.Unlock()
		switch {
		case c.Args[0] != "state":
			<-time.After(10 * time.Minute)
			w.mu.Lock()
			done++
			w.mu.Unlock()
		case !ready:
			fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"a","args":["a"]},{"name":"b","args":["b"]}]}`)
		default:
			fmt.Fprint(c.Stdout, `{"status":"VALID","state":{}}`)
		}
		return exit
	})
}

// held lists what waits in the engine for its turn, by its argument.
func (w *world) held() []string {
	var actions []string
	for _, run := range w.engine.Runs() {
		if run.Spec.Hold == nil || run.Done {
			continue
		}
		select {
		case <-run.Spec.Hold:
		default:
			actions = append(actions, run.Spec.Args[0])
		}
	}
	return actions
}

func TestTheNextContainerIsMadeReadyWhileAnActionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["steps"] = w.steps(func(action string) int {
			if action != "state" && !slices.Contains(w.names(), "action-started r0 "+action) {
				t.Errorf("%s runs before its start is recorded", action)
			}
			return 0
		})
		seen := map[string][]string{}
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			for _, during := range []string{"a", "b"} {
				<-time.After(7 * time.Minute)
				seen[during] = w.held()
			}
		}()
		got := w.mustApply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { o.Parallelism = 1 })
		wantStatuses(t, got, map[string]report.Status{"r0": report.Changed})
		<-looked
		for during, want := range map[string]string{"a": "b", "b": "state"} {
			assert.Equal(t, []string{want}, seen[during])
		}
		assert.Equal(t, 5, len(w.engine.Runs()))
	})
}

func TestAContainerThatIsNotNeededNeverRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, o *options)
		exit   int
		want   string
	}{
		"its predecessor fails": {func(*world, *options) {}, 7, "exited with 7"},
		"a person does not agree": {func(w *world, o *options) {
			o.Confirm = runner.ConfirmAction
			w.yes = func(q runner.Question) bool { return q.Actions[0].Name == "a" }
		}, 0, "declined"},
		"the run is stopped": {func(_ *world, o *options) {
			stop := make(chan struct{})
			o.Stop = stop
			time.AfterFunc(time.Minute, func() { close(stop) })
		}, 0, "interrupted"},
		"its start cannot be recorded": {func(w *world, _ *options) {
			time.AfterFunc(time.Minute, func() { w.told.Lock(); defer w.told.Unlock(); w.broken = errors.New("disk full") })
		}, 0, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.engine.Images["steps"] = w.steps(func(action string) int {
					assert.NotEqual(t, "b", action, "b ran")
					return tc.exit * len(strings.TrimPrefix(action, "state")) // of actions only
				})
				_, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}", func(o *options) { tc.change(w, o) })
				assert.ErrorContains(t, err, tc.want)
				made := false
				for _, run := range w.engine.Runs() {
					made = made || run.Spec.Args != nil && run.Spec.Args[0] == "b"
					assert.True(t, run.Done)
				}
				assert.True(t, made, "nothing was made ready")
				left, err := filepath.Glob(filepath.Join(w.workspace, ".deployster/work/RUN/r0/*-b*"))
				assert.True(t, err == nil && len(left) == 0, "kept was %v, %v", left, err)
			})
		})
	}
}

func TestAContainerThatCanNotBeMadeReadyFailsWhenItIsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine.Images["steps"] = w.steps(func(string) int { return 0 })
		w.engine.Fail = func(spec engine.Spec) error {
			if spec.Hold != nil {
				return os.ErrPermission
			}
			return nil
		}
		_, err := w.apply(t, "resources: {r0: {type: steps, config: {}}}")
		assert.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, "action b")
		if names := w.names(); !slices.Contains(names, "action-finished-successfully r0 a") || !slices.Contains(names, "action-failed r0 b") {
			t.Errorf("the log tells %v", names)
		}
	})
}

func TestContainersThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		most := 0
		w.engine.Images["steps"] = w.steps(func(string) int { most = max(most, len(w.held())); return 0 })
		text := "resources:\n"
		for i := range 12 {
			text += fmt.Sprintf("  r%d: {type: steps, config: {}}\n", i)
		}
		looked := make(chan []string, 1)
		time.AfterFunc(7*time.Minute, func() { looked <- w.held() }) // the first three are at a
		// All share what is done, so that not all end well.
		_, _ = w.apply(t, text, func(o *options) { o.Parallelism, o.KeepGoing = 3, true })
		assert.Equal(t, []string{"b", "b", "b"}, <-looked, "while three ran")
		assert.LessOrEqual(t, most, 3)
		assert.Equal(t, 3, w.engine.MaxRunning())
	})
}

// What a type says of its network it says of its own image, and whoever runs it has the last word.
func TestATypeThatNeedsNoNetworkGetsNone(t *testing.T) {
	const plain = `"network":"none",`
	for name, c := range map[string]struct {
		members string // of the answer to init
		network string // that the run is given
		want    map[string]string
	}{
		"in containers of its own":       {plain, "", map[string]string{"init": "", "state": "offline", "set": "offline", "tool": ""}},
		"as a process":                   {plain + serves, "", map[string]string{"init": "", "serve": "offline", "tool": ""}},
		"as a process of another image":  {plain + `"serve_action":{"image":"server","args":["serve"]},`, "", map[string]string{"init": "", "serve": "", "tool": ""}},
		"that nobody asked it about":     {"", "", map[string]string{"init": "", "state": "", "set": "", "tool": ""}},
		"unless the run is to have one":  {plain, "lan", map[string]string{"init": "lan", "state": "lanoffline", "set": "lanoffline", "tool": "lan"}},
		"unless its process is to, also": {plain + serves, "lan", map[string]string{"init": "lan", "serve": "lanoffline", "tool": "lan"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = w.tooled(c.members)
			w.engine.Images["server"] = w.engine.Images["thing"]
			w.engine.Images["tool"] = image(func(context.Context, enginetest.Call) int { return 0 })
			statuses := must.Get(w.apply(t, "resources: {a: {type: thing, config: {value: 1}}}", func(o *options) {
				o.Network = c.network
			}))(t)
			wantStatuses(t, statuses, map[string]report.Status{"a": report.Changed})
			got := map[string]string{}
			for _, run := range w.engine.Runs() {
				name := "init"
				if len(run.Spec.Args) > 0 {
					name = run.Spec.Args[0]
				}
				network := run.Spec.Network
				if run.Spec.Offline {
					network += "offline"
				}
				before, twice := got[name]
				assert.True(t, !twice || before == network, "%s ran in the network %q and in %q", name, before, network)
				got[name] = network
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// tooled is the good type, with these members in its answer to init, and a tool of another image as its first action.
func (w *world) tooled(members string) enginetest.FakeImage {
	return image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			c.Stdout = replaced{c.Stdout, "{\n", "{" + members}
			return w.thing(ctx, c)
		}
		c.Stdout = replaced{c.Stdout, `"actions":[`, `"actions":[{"name":"tool","image":"tool","args":["tool"]},`}
		if c.Args[0] == "serve" {
			return w.serving(good).Program(ctx, c)
		}
		return w.thing(ctx, c)
	})
}

// replaced writes something else in place of a text.
type replaced struct {
	io.Writer
	old, new string
}

func (r replaced) Write(p []byte) (int, error) {
	_, err := r.Writer.Write(bytes.Replace(p, []byte(r.old), []byte(r.new), 1))
	return len(p), err
}
