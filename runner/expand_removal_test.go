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
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// What was made by the name that stands for instances by now is another resource, which is no longer declared.
func TestAResourceThatBecameManyIsNoLongerDeclared(t *testing.T) {
	w := removable(newWorld(t))
	for _, name := range []string{"page", "old"} {
		w.things[name] = 1
	}
	before := leftBefore
	assert.Len(t, w.mustPlan(t, late, before).Undeclared, 2)
	wantStatuses(t, w.mustApply(t, late, before), map[string]report.Status{"page[a]": report.Changed})
	assert.NotNil(t, w.things["page"])
}

// leftBefore is what was made by the name of page, and of what depended on that.
func leftBefore(o *options) {
	o.Undeclared = []report.Undeclared{
		{Name: "old", Run: "OLD", At: time.Unix(1, 0), Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}, DependsOn: []string{"page"}}},
		{Name: "page", Run: "OLD", At: time.Unix(1, 0), Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}}},
	}
}

func TestAResourceThatBecameManyIsPruned(t *testing.T) {
	w := applied(t, late)
	for _, name := range []string{"page", "old"} {
		w.things[name] = 1
	}
	prune := func(o *options) { o.Prune = true }
	plan, err := w.runner(t, late, leftBefore, prune, pinned).Plan(t.Context())
	if got := rows(plan); err != nil || !strings.Contains(got, "page PRESENT") || !strings.Contains(got, "page[a] VALID") {
		t.Errorf("planned %s, %v", got, err)
	}
	w.forget()
	got, err := w.apply(t, late, leftBefore, prune, to(plan))
	assert.True(t, err == nil && got["page"] == report.Destroyed && got["page[a]"] == report.Unchanged &&
		w.things["page"] == nil && w.things["old"] == nil && w.things["page[a]"] != nil, "pruned: %v, %v", got, err)
	assert.Equal(t, 2, w.runs("unset"))
	assert.Equal(t, "absent page", w.trace[len(w.trace)-1])
	once(t, w)
	for _, e := range w.logged {
		if e.Resource == "page" && e.Kind == report.ResourceDestroyed && !e.Removing {
			t.Error("its removal counts as one of what is declared")
		}
	}
}

func TestWhatBecameManyGoesWithTheInstances(t *testing.T) {
	w := applied(t, late)
	w.things["page"] = 1
	plain := []report.Undeclared{{Name: "page", Run: "OLD", Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}}}}
	got := must.Get(w.destroy(t, late, func(o *options) { o.Undeclared, o.Prune = plain, true }))(t)
	assert.True(t, len(w.things) == 0 && got["page"] == report.Destroyed && got["page[a]"] == report.Destroyed, "%v leaves %v", got, w.things)
}

func TestInstancesAreRemovedInTheOrderOfWhatDependsOnThem(t *testing.T) {
	w := applied(t, late)
	old := func(o *options) {
		made(w, "old", "older")(o)
		o.Instances[0].DependsOn = []string{"index"}          // which depends on all of them by now
		o.Instances[1].DependsOn = []string{"page[old]", "x"} // of which one is not there
	}
	w.forget()
	w.mustDestroy(t, late, old)
	require.Empty(t, w.things)
	for _, order := range [][2]string{{"index", "page[old]"}, {"index", "page[a]"}, {"page[older]", "page[old]"}, {"own[a]", "page[a]"}, {"page[a]", "zones"}} {
		assert.True(t, before(w.trace, "unset "+order[0], "unset "+order[1]), "%s after %s: %v", order[0], order[1], w.trace)
	}
}

func TestAGoneInstanceOfWhatNothingMayRemoveIsNotPruned(t *testing.T) {
	w := removable(newWorld(t))
	w.things["zones"] = []any{"a", "b"}
	old := func(o *options) {
		made(w, "gone")(o)
		o.Prune, o.Instances[0].PreventDestroy = true, true
	}
	guarded := strings.Replace(late, "page: {type: thing,", "page: {type: thing, prevent_destroy: true,", 1)
	_, err := w.apply(t, guarded, old)
	assert.ErrorContains(t, err, "m.yaml:4:23: resources.page[gone]: it is not removed: its prevent_destroy is true; set that to false first")
	assert.NotNil(t, w.things["page[gone]"])
}

func TestPrunedInstancesAreRemovedInTheOrderOfWhatDependedOnThem(t *testing.T) {
	w := removable(newWorld(t))
	w.things["zones"], w.things["list"] = []any{"a", "b"}, 1
	old := func(o *options) {
		made(w, "gone")(o)
		o.Prune = true
		o.Undeclared = []report.Undeclared{{Name: "list", Run: "OLD", At: time.Unix(1, 0), Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}, DependsOn: []string{"page"}}}}
	}
	_, err := w.apply(t, late, old)
	require.True(t, err == nil && w.things["list"] == nil && w.things["page[gone]"] == nil, "%v leaves %v", err, w.things)
	assert.True(t, before(w.trace, "unset list", "unset page[gone]"))
}

func acted(w *world) (all []string) {
	return slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return !strings.HasPrefix(s, "set") && !strings.HasPrefix(s, "unset") })
}

func once(t *testing.T, w *world) {
	seen := map[string]bool{}
	for _, e := range w.logged {
		key := fmt.Sprint(e.Kind, " ", e.Resource, " ", e.Action, " ", max(1, e.Attempt))
		assert.False(t, seen[key], key)
		seen[key] = true
	}
}

func TestInstancesOfAStateAreReplaced(t *testing.T) {
	for _, tc := range []struct {
		of      string
		replace []string
		acted   string
	}{
		{"one", []string{"page[a]"}, "unset page[a], set page[a]"},
		{"one with what depends on it", []string{"page[a]", "own[a]"}, "unset own[a], unset page[a], set page[a], set own[a]"},
	} {
		t.Run(tc.of, func(t *testing.T) {
			w := applied(t, late)
			plan := w.mustPlan(t, late, replacing(tc.replace...))
			var planned []string
			for _, r := range plan.Resources {
				if r.Replace {
					planned = append(planned, r.Name)
				}
			}
			assert.Equal(t, tc.replace, planned)
			w.forget()
			got := w.mustApply(t, late, replacing(tc.replace...))
			wantStatuses(t, got, map[string]report.Status{"page[a]": report.Changed, "page[b]": report.Unchanged})
			assert.Equal(t, tc.acted, strings.Join(acted(w), ", "))
			once(t, w)
		})
	}
	t.Run("all", func(t *testing.T) {
		w := applied(t, late)
		got, err := w.apply(t, late, replacing("page", "zones"))
		if err != nil || got["page[a]"] != report.Changed || got["page[b]"] != report.Changed || got["zones"] != report.Changed || len(acted(w)) != 6 ||
			!before(w.trace, "unset page[b]", "unset zones") || !before(w.trace, "set zones", "set page[a]") {
			t.Errorf("%v, %v: %v", got, err, w.trace)
		}
		once(t, w)
	})
}

// What was removed to be made again may be none of the instances that the run then finds.
func TestAnInstanceThatIsReplacedMayBeGoneThen(t *testing.T) {
	w := removable(newWorld(t))
	w.things["zones"] = []any{"a", "c"}
	made(w, "a", "c")
	got, err := w.apply(t, strings.ReplaceAll(late, "page[b]", "page[a]"), replacing("page[c]"))
	assert.True(t, err == nil && w.things["page[c]"] == nil && w.things["page[b]"] != nil &&
		got["page[b]"] == report.Changed && got["page[a]"] == report.Unchanged, "%v, %v leaves %v", got, err, w.things)
	once(t, w)
}

func TestWhatIsNotKnownToBeAnInstanceIsNotReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		zones     any
		one, want string
	}{
		"it is none":           {[]any{"a", "b"}, "page[c]", `"page" has no instance "c"; there are a, b`},
		"nothing is there yet": {nil, "page[a]", "needs the state of zones, which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := removable(newWorld(t))
			made(w, "a", "c")
			if tc.zones != nil {
				w.things["zones"] = tc.zones
			}
			assert.Error(t, must.Fail(w.runner(t, late, replacing(tc.one)).Plan(t.Context())), "it is planned")
			got, err := w.apply(t, late, replacing(tc.one))
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && w.runs("unset") == 0 &&
				got["page"] == report.Failed, "%v, %v", got, err)
		})
	}
	guarded := strings.Replace(late, "page: {type: thing,", "page: {prevent_destroy: true, type: thing,", 1)
	w := removable(newWorld(t))
	assert.ErrorContains(t, must.Fail(w.apply(t, guarded, replacing("page[a]"))), "its prevent_destroy is true", "leaves %v", w.things)
	assert.Empty(t, w.things)
}

func TestInstancesOfAStateAreAdopted(t *testing.T) {
	w := newWorld(t)
	w.things["zones"], w.things["page[a]"], w.things["page[b]"] = []any{"a", "b"}, "of a", "another"
	all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: "page[b]"})
	require.True(t, err == nil && len(all) == 1 && all[0].Name == "page[b]" && all[0].Status == report.Unchanged &&
		all[0].Differs, "%+v, %v", all, err)
	if n := w.names(); !slices.Contains(n, "resource-adopted page[b]") || slices.Contains(n, "resource-initialized page[a]") || w.runs("set") > 0 {
		t.Errorf("recorded: %v", n)
	}
	once(t, w)
	// With what is configured by all of them, which takes the states of the others.
	w.forget()
	w.things["index"] = "a b"
	all, err = w.runner(t, late).adopt(t, report.Adoption{Resource: "page[a]"}, report.Adoption{Resource: "index"})
	assert.True(t, err == nil && len(all) == 2 && all[0].Name == "page[a]" && all[1].Name == "index" &&
		!all[1].Differs, "%+v, %v", all, err)
}

func TestAnInstanceThatIsNotThereIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	w.things["zones"], w.things["page[a]"] = []any{"a", "b"}, "of a"
	for name, want := range map[string]string{"page[c]": `"page" has no instance "c"; there are a, b`, "own[a]": "does not exist, so nothing was adopted"} {
		all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: name})
		assert.True(t, err != nil && len(all) == 1 && all[0].Status == report.Failed &&
			strings.Contains(all[0].Error, want), "%s: %+v, %v", name, all, err)
	}
	delete(w.things, "zones")
	all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: "page[a]"})
	if err == nil || len(all) != 1 || !strings.Contains(all[0].Error, "its for_each (m.yaml:4:33) needs the state of zones, which is not known: apply or adopt that first") {
		t.Errorf("%+v, %v", all, err)
	}
}

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
	last := w.ended(t)
	assert.True(t, last.Kind == report.RunFailed && last.Data["interrupted"] == "true", "the log ends with %+v", last)
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
	assert.ErrorIs(t, must.Fail(w.runner(t, "resources: {db: {type: hang, config: {}}}").Apply(ctx)), runner.ErrInterrupted)
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
	assert.ErrorContains(t, must.Fail(w.apply(t, chain)), "disk full")
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

func (r refusing) EnterThing(context.Context, string, string, func(string)) (func(), error) {
	return nil, r.err
}

// Whatever the graph, whatever its configurations need, and whatever is gone already: after a destroy nothing is left,
// and nothing went before what depends on it was gone.
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
		must.Get(w.apply(outer, text.String(), bounded))(t)
		// A destroy that was cut off has removed some from the end.
		gone := map[string]bool{}
		for i := rapid.IntRange(0, n).Draw(t, "left"); i < n; i++ {
			gone[fmt.Sprintf("r%d", i)] = true
			delete(w.things, fmt.Sprintf("r%d", i))
		}
		w.forget()
		got := must.Get(w.destroy(outer, text.String(), bounded, func(o *options) {
			known(slices.Collect(maps.Keys(gone))...)(o)
		}))(t)
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
