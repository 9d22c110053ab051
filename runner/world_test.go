package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// world is a fake engine with one good resource type, "thing", whose resources
// live in a map, and a record of everything the runner said.
type world struct {
	engine    *enginetest.Fake
	workspace string
	variables map[string]any // beside stage

	mu     sync.Mutex       // guards what containers do
	things map[string]any   // name → the configured value it has
	trace  []string         // "state db", "set db": in the order of beginning
	inputs []map[string]any // what containers read on stdin

	told     sync.Mutex     // guards what the runner says
	events   []report.Event // observed
	logged   []report.Event // recorded
	asked    []runner.Question
	fail     map[string]bool // resources whose actions exit with 7
	broken   error           // what recording fails with
	yes      func(runner.Question) bool
	declines error                         // what else a no says
	before   func(action, resource string) // called in a container before it does anything
	plugs    string                        // what a type that serves has in its answer to init besides, with a comma at the end
}

func newWorld(t testing.TB) *world {
	w := &world{workspace: t.TempDir(), things: map[string]any{}, fail: map[string]bool{}}
	w.engine = &enginetest.Fake{Images: map[string]enginetest.FakeImage{"thing": image(w.thing)}}
	return w
}

func image(p enginetest.Program) enginetest.FakeImage {
	return enginetest.FakeImage{Program: p, Entrypoint: []string{"/type"}}
}

const thingInit = `{
  "config_schema": {"type": "object", "required": ["value"], "additionalProperties": false, "properties": {
    "value": {}, "token": {"type": "string", "writeOnly": true}, "count": {"type": "integer"}}},
  "state_action": {"args": ["state"]}
}`

// thing is the good resource type. It has one action, "set".
func (w *world) thing(_ context.Context, c enginetest.Call) int {
	var in protocol.ActionInput
	text, _ := io.ReadAll(c.Stdin)
	var raw map[string]any
	if json.Unmarshal(text, &in) != nil || json.Unmarshal(text, &raw) != nil {
		return 3
	}
	action := "init"
	if len(c.Args) > 0 {
		action = c.Args[0]
	}
	if w.before != nil {
		w.before(action, in.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inputs = append(w.inputs, raw)
	w.trace = append(w.trace, action+" "+in.Name)
	switch action {
	case "init":
		fmt.Fprint(c.Stdout, thingInit)
	case "state":
		have, exists := w.things[in.Name]
		want := in.Config["value"]
		a, _ := json.Marshal(have)
		b, _ := json.Marshal(want)
		answer := protocol.StateOutput{Status: protocol.Valid, State: map[string]any{"value": have, "name": in.Name}}
		if !exists || string(a) != string(b) {
			answer = protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("set", "set it")}}
			if exists {
				answer.StaleState = map[string]any{"value": have}
			}
		}
		_ = json.NewEncoder(c.Stdout).Encode(answer)
	case "set":
		fmt.Fprintf(c.Stdout, "setting %s with %v\n", in.Name, in.Config["token"])
		if w.fail[in.Name] {
			fmt.Fprintln(c.Stderr, "it would not budge")
			return 7
		}
		w.things[in.Name] = in.Config["value"]
	}
	return 0
}

func (w *world) Observe(e report.Event) {
	w.told.Lock()
	defer w.told.Unlock()
	w.events = append(w.events, e)
}

func (w *world) Record(_ context.Context, e report.Event) error {
	w.told.Lock()
	defer w.told.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.logged = append(w.logged, e)
	return nil
}

func (w *world) Confirm(_ context.Context, q runner.Question) (bool, error) {
	w.told.Lock()
	w.asked = append(w.asked, q)
	w.told.Unlock()
	if !w.yes(q) {
		return false, w.declines
	}
	return true, nil
}

func (w *world) runs(action string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, t := range w.trace {
		if strings.HasPrefix(t, action+" ") {
			n++
		}
	}
	return n
}

// forget clears what was recorded, so that a second run can be looked at.
func (w *world) forget() { w.trace, w.inputs, w.events, w.logged, w.asked = nil, nil, nil, nil, nil }

func (w *world) runner(t testing.TB, text string, change ...func(*options)) run {
	expressions := expression.New(w.workspace)
	variables := map[string]any{"stage": "test"}
	maps.Copy(variables, w.variables)
	m := must.Get(manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}}, manifest.Options{
		Variables: variables, Evaluator: expressions, Workspace: w.workspace, Home: w.workspace,
	}))(t)
	o := options{
		runner.Spec{Manifest: m, Variables: variables, Expressions: expressions, Version: "1.2.3"},
		runner.Containers{
			Engine: w.engine, Images: w.engine, Parallelism: 4, Pull: engine.PullMissing, Now: time.Now,
			Run: "RUN", Log: "LOG", Workspace: w.workspace, Work: filepath.Join(w.workspace, ".deployster", "work", "RUN"),
		},
		runner.Caller{Recorder: w, Observer: w, Confirmer: w, Confirm: runner.ConfirmNo},
	}
	for _, c := range change {
		c(&o)
	}
	return run{runner.New(o.Spec, o.Containers), o.Caller}
}

// options are all that a run is given.
type options struct {
	runner.Spec
	runner.Containers
	runner.Caller
}

// run is a Runner and who asks for what it does.
type run struct {
	*runner.Runner
	caller runner.Caller
}

func (r run) Plan(ctx context.Context) (*report.Plan, error)    { return r.Runner.Plan(ctx, r.caller) }
func (r run) Apply(ctx context.Context) (*report.Result, error) { return r.Runner.Apply(ctx, r.caller) }
func (r run) PlanDestroy(ctx context.Context) (*report.Plan, error) {
	return r.Runner.PlanDestroy(ctx, r.caller)
}
func (r run) Destroy(ctx context.Context) (*report.Result, error) {
	return r.Runner.Destroy(ctx, r.caller)
}
func (r run) Drift(ctx context.Context) (*report.Drift, error) { return r.Runner.Drift(ctx, r.caller) }
func (r run) Removable(ctx context.Context) error              { return r.Runner.Removable(ctx, r.caller) }

// apply applies a manifest and returns the outcome of each resource.
func (w *world) apply(t testing.TB, text string, change ...func(*options)) (map[string]report.Status, error) {
	result, err := w.runner(t, text, change...).Apply(t.Context())
	statuses := map[string]report.Status{}
	for _, r := range result.Resources {
		statuses[r.Name] = r.Status
	}
	return statuses, err
}

func (w *world) mustApply(t testing.TB, text string, change ...func(*options)) map[string]report.Status {
	return must.Get(w.apply(t, text, change...))(t)
}

func (w *world) mustPlan(t testing.TB, text string, change ...func(*options)) *report.Plan {
	return must.Get(w.runner(t, text, change...).Plan(t.Context()))(t)
}

func (w *world) mustDrift(t testing.TB, text string, change ...func(*options)) *report.Drift {
	return must.Get(w.runner(t, text, change...).Drift(t.Context()))(t)
}

func byName(plan *report.Plan) map[string]report.ResourcePlan {
	all := map[string]report.ResourcePlan{}
	for _, r := range plan.Resources {
		all[r.Node()] = r
	}
	return all
}

// names returns the recorded events as "kind resource action".
func (w *world) names() []string {
	var names []string
	for _, e := range w.logged {
		names = append(names, strings.TrimSpace(strings.Join([]string{string(e.Kind), e.Resource, e.Action}, " ")))
	}
	return names
}

// kept returns everything in the files of a run.
func (w *world) kept(t *testing.T) string {
	var all bytes.Buffer
	err := filepath.WalkDir(filepath.Join(w.workspace, ".deployster"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s\n%s\n", path, text)
		return err
	})
	require.True(t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	return all.String()
}

func wantStatuses(t *testing.T, got map[string]report.Status, want map[string]report.Status) {
	for name, status := range want {
		assert.Equal(t, status, got[name], name)
	}
}

func before(trace []string, first, second string) bool {
	i, j := slices.Index(trace, first), slices.Index(trace, second)
	return i >= 0 && j >= 0 && i < j
}
