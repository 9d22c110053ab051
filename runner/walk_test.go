package runner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

func TestParallelismIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.before = func(string, string) { <-time.After(time.Second) }
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range 20 {
			fmt.Fprintf(&text, "  r%d: {type: thing, config: {value: 1}}\n", i)
		}
		w.mustApply(t, text.String(), func(o *options) { o.Parallelism = 5 })
		assert.Equal(t, 5, w.engine.MaxRunning(), "containers ran at once")
	})
}

func TestStopLetsTheRunningActionFinishAndStartsNothingNew(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	w.before = func(action, _ string) {
		if action == "set" {
			close(stop)
		}
	}
	got, err := w.apply(t, chain, func(o *options) { o.Stop, o.Parallelism = stop, 1 })
	assert.ErrorIs(t, err, runner.ErrInterrupted)
	assert.NotNil(t, w.things["db"], "the running action did not finish")
	wantStatuses(t, got, map[string]report.Status{"db": report.Failed, "api": report.Skipped, "other": report.Skipped})
	if last := w.ended(t); last.Kind != report.RunFailed || last.Data["interrupted"] != "true" {
		t.Errorf("the log ends with %+v", last)
	}
	assert.Contains(t, w.names(), "action-finished-successfully db set", "the log does not tell that the action finished")
}

func TestACancelledContextKillsTheAction(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.engine.Images["hang"] = image(func(run context.Context, c enginetest.Call) int {
		switch {
		case len(c.Args) == 0:
			fmt.Fprint(c.Stdout, `{"state_action":{"args":["state"]}}`)
		case c.Args[0] == "state":
			fmt.Fprint(c.Stdout, `{"status":"STALE","actions":[{"name":"wait","args":["wait"]}]}`)
		default:
			cancel()
			<-run.Done()
		}
		return 0
	})
	_, err := w.runner(t, "resources: {db: {type: hang, config: {}}}").Apply(ctx)
	assert.ErrorIs(t, err, runner.ErrInterrupted)
	names := w.names()
	assert.Contains(t, names, "action-failed db wait")
	assert.Equal(t, "run-failed", names[len(names)-1])
}

func TestWhatCanNotBeRecordedIsNotDone(t *testing.T) {
	w := newWorld(t)
	w.before = func(action, _ string) {
		if action == "state" {
			w.told.Lock()
			defer w.told.Unlock()
			w.broken = errors.New("disk full")
		}
	}
	_, err := w.apply(t, chain)
	assert.ErrorContains(t, err, "disk full")
	assert.Equal(t, 0, w.runs("set"), "an action ran that could not be recorded")
}

func TestWalkProperties(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(outer)
		n := rapid.IntRange(1, 12).Draw(t, "resources")
		depends := make([][]int, n)
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range n {
			var deps []string
			if i > 0 {
				depends[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 3), rapid.ID).Draw(t, "dependencies")
			}
			for _, d := range depends[i] {
				deps = append(deps, fmt.Sprintf("d%d: r%d", d, d))
			}
			fmt.Fprintf(&text, "  r%d: {type: thing, dependencies: {%s}, config: {value: 1}}\n", i, strings.Join(deps, ", "))
			w.fail[fmt.Sprintf("r%d", i)] = rapid.IntRange(0, 3).Draw(t, "luck") == 0
		}
		parallelism := rapid.IntRange(1, 6).Draw(t, "parallelism")
		got, _ := w.apply(outer, text.String(), func(o *options) { o.KeepGoing, o.Parallelism, o.Forget = true, parallelism, true })

		want := make([]report.Status, n)
		for i := range n {
			want[i] = report.Changed
			if w.fail[fmt.Sprintf("r%d", i)] {
				want[i] = report.Failed
			}
			for _, d := range depends[i] {
				if want[d] != report.Changed {
					want[i] = report.Skipped
				}
			}
		}
		for i := range n {
			name := fmt.Sprintf("r%d", i)
			require.Equal(t, want[i], got[name], name)
			for _, d := range depends[i] {
				if want[i] != report.Skipped && !before(w.trace, fmt.Sprintf("set r%d", d), "state "+name) {
					t.Fatalf("%s was looked at before r%d was applied: %v", name, d, w.trace)
				}
			}
		}
		require.LessOrEqual(t, w.engine.MaxRunning(), parallelism)
	})
}

// Every outcome that is not a success has a code, in the result and in the log.
func TestReasonsHaveCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		change func(*world, *options)
		want   map[string]report.ReasonCode
	}{
		"an action fails": {chain, func(w *world, _ *options) { w.fail["db"] = true }, map[string]report.ReasonCode{
			"db": report.ReasonActionFailed, "api": report.ReasonDependencyFailed, "other": report.ReasonRunFailed,
		}},
		"and the rest goes on": {chain, func(w *world, o *options) { w.fail["db"], o.KeepGoing = true, true }, map[string]report.ReasonCode{
			"db": report.ReasonActionFailed, "api": report.ReasonDependencyFailed, "other": "",
		}},
		"a person declines": {"resources: {db: {type: thing, config: {value: 1}}}", func(w *world, o *options) {
			o.Confirm, w.yes = runner.ConfirmAction, func(runner.Question) bool { return false }
		}, map[string]report.ReasonCode{"db": report.ReasonDeclined}},
		"a configuration is invalid": {"resources: {db: {type: thing, config: {}}, api: {type: thing, config: {value: 1}}}", nil, map[string]report.ReasonCode{
			"db": report.ReasonInvalid, "api": report.ReasonRunRefused,
		}},
		"it may not be changed": {"resources: {db: {type: thing, readonly: true, config: {value: 1}}}", nil, map[string]report.ReasonCode{
			"db": report.ReasonReadOnly,
		}},
		"another run has it": {"resources: {db: {type: thing, config: {value: 1}}}", func(w *world, o *options) {
			o.Guard = refusing{errors.New("no")}
		}, map[string]report.ReasonCode{"db": report.ReasonFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			result, _ := w.runner(t, tc.text, func(o *options) {
				o.Parallelism = 1
				if tc.change != nil {
					tc.change(w, o)
				}
			}).Apply(t.Context())
			logged := map[string]report.Event{}
			for _, e := range w.logged {
				if e.Kind == report.ResourceFailed || e.Kind == report.ResourceSkipped {
					logged[e.Resource] = e
				}
			}
			for _, r := range result.Resources {
				if r.Reason != tc.want[r.Name] || logged[r.Name].Reason != r.Reason || logged[r.Name].Error != r.Error {
					t.Errorf("%s: the result is %q (%s), logged %q (%s)", r.Name, r.Reason, r.Error, logged[r.Name].Reason, logged[r.Name].Error)
				}
			}
		})
	}
}

// refusing is a Guard that lets nobody in.
type refusing struct{ err error }

func (r refusing) Enter(context.Context, string, func(string)) (func(), error) { return nil, r.err }

// Whatever the graph, whatever its configurations need, and whatever is gone
// already: after a destroy nothing is left, and nothing went before what
// depends on it was gone.
func TestDestroyProperties(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := removable(newWorld(outer))
		n := rapid.IntRange(1, 12).Draw(t, "resources")
		depends := make([][]int, n)
		var text strings.Builder
		text.WriteString("resources:\n")
		for i := range n {
			var deps []string
			if i > 0 {
				depends[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 3), rapid.ID).Draw(t, "dependencies")
			}
			value := "1"
			for _, d := range depends[i] {
				deps = append(deps, fmt.Sprintf("d%d: r%d", d, d))
				if rapid.Bool().Draw(t, "needs its state") {
					value += fmt.Sprintf(" {{ d%d.state.name }}", d)
				}
			}
			fmt.Fprintf(&text, "  r%d: {type: thing, dependencies: {%s}, config: {value: %q}}\n", i, strings.Join(deps, ", "), value)
		}
		parallelism := rapid.IntRange(1, 6).Draw(t, "parallelism")
		bounded := func(o *options) { o.Parallelism, o.Forget = parallelism, true }
		_, err := w.apply(outer, text.String(), bounded)
		require.NoError(t, err)
		// A destroy that was cut off has removed some from the end.
		gone := map[string]bool{}
		for i := rapid.IntRange(0, n).Draw(t, "left"); i < n; i++ {
			gone[fmt.Sprintf("r%d", i)] = true
			delete(w.things, fmt.Sprintf("r%d", i))
		}
		w.forget()
		got, err := w.destroy(outer, text.String(), bounded, func(o *options) {
			known(slices.Collect(maps.Keys(gone))...)(o)
		})
		require.NoError(t, err)
		require.Empty(t, w.things)
		for i := range n {
			name := fmt.Sprintf("r%d", i)
			want := report.Destroyed
			if gone[name] {
				want = report.Absent
			}
			require.Equal(t, want, got[name], name)
			for _, d := range depends[i] {
				if want == report.Destroyed && !before(w.trace, "unset "+name, fmt.Sprintf("absent r%d", d)) {
					t.Fatalf("r%d was asked about before %s was gone: %v", d, name, w.trace)
				}
			}
		}
		require.LessOrEqual(t, w.engine.MaxRunning(), parallelism)
	})
}
