package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/runner/report"
)

// What was made by the name that stands for instances by now is another resource, which is no longer
// declared.
func TestAResourceThatBecameManyIsNoLongerDeclared(t *testing.T) {
	w := removable(newWorld(t))
	for _, name := range []string{"page", "old"} {
		w.things[name] = 1
	}
	before := leftBefore
	plan := w.mustPlan(t, late, before)
	assert.Len(t, plan.Undeclared, 2)
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
	if err != nil || got["page"] != report.Destroyed || got["page[a]"] != report.Unchanged || w.things["page"] != nil || w.things["old"] != nil || w.things["page[a]"] == nil {
		t.Errorf("pruned: %v, %v", got, err)
	}
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
	got, err := w.destroy(t, late, func(o *options) { o.Undeclared, o.Prune = plain, true })
	if err != nil || len(w.things) > 0 || got["page"] != report.Destroyed || got["page[a]"] != report.Destroyed {
		t.Errorf("%v, %v leaves %v", got, err, w.things)
	}
}

// Instances depended on something else when they were made than others depend on them now.
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
	if _, err := w.apply(t, late, old); err != nil || w.things["list"] != nil || w.things["page[gone]"] != nil {
		t.Fatalf("%v leaves %v", err, w.things)
	}
	assert.True(t, before(w.trace, "unset list", "unset page[gone]"))
}

func acted(w *world) (all []string) {
	return slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return !strings.HasPrefix(s, "set") && !strings.HasPrefix(s, "unset") })
}

func once(t *testing.T, w *world) {
	t.Helper()
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
	if err != nil || w.things["page[c]"] != nil || w.things["page[b]"] == nil || got["page[b]"] != report.Changed || got["page[a]"] != report.Unchanged {
		t.Errorf("%v, %v leaves %v", got, err, w.things)
	}
	once(t, w)
}

func TestWhatIsNotKnownToBeAnInstanceIsNotReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		zones any
		one   string
		want  string
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
			_, err := w.runner(t, late, replacing(tc.one)).Plan(t.Context())
			assert.Error(t, err, "it is planned")
			got, err := w.apply(t, late, replacing(tc.one))
			if err == nil || !strings.Contains(err.Error(), tc.want) || w.runs("unset") > 0 || got["page"] != report.Failed {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	guarded := strings.Replace(late, "page: {type: thing,", "page: {prevent_destroy: true, type: thing,", 1)
	w := removable(newWorld(t))
	if _, err := w.apply(t, guarded, replacing("page[a]")); err == nil || !strings.Contains(err.Error(), "its prevent_destroy is true") || len(w.things) > 0 {
		t.Errorf("%v leaves %v", err, w.things)
	}
}

func TestInstancesOfAStateAreAdopted(t *testing.T) {
	w := newWorld(t)
	w.things["zones"], w.things["page[a]"], w.things["page[b]"] = []any{"a", "b"}, "of a", "another"
	all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: "page[b]"})
	if err != nil || len(all) != 1 || all[0].Name != "page[b]" || all[0].Status != report.Unchanged || !all[0].Differs {
		t.Fatalf("%+v, %v", all, err)
	}
	if n := w.names(); !slices.Contains(n, "resource-adopted page[b]") || slices.Contains(n, "resource-initialized page[a]") || w.runs("set") > 0 {
		t.Errorf("recorded: %v", n)
	}
	once(t, w)
	// With what is configured by all of them, which takes the states of the others.
	w.forget()
	w.things["index"] = "a b"
	all, err = w.runner(t, late).adopt(t, report.Adoption{Resource: "page[a]"}, report.Adoption{Resource: "index"})
	if err != nil || len(all) != 2 || all[0].Name != "page[a]" || all[1].Name != "index" || all[1].Differs {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAnInstanceThatIsNotThereIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	w.things["zones"], w.things["page[a]"] = []any{"a", "b"}, "of a"
	for name, want := range map[string]string{"page[c]": `"page" has no instance "c"; there are a, b`, "own[a]": "does not exist, so nothing was adopted"} {
		all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: name})
		if err == nil || len(all) != 1 || all[0].Status != report.Failed || !strings.Contains(all[0].Error, want) {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	delete(w.things, "zones")
	all, err := w.runner(t, late).adopt(t, report.Adoption{Resource: "page[a]"})
	if err == nil || len(all) != 1 || !strings.Contains(all[0].Error, "its for_each (m.yaml:4:33) needs the state of zones, which is not known: apply or adopt that first") {
		t.Errorf("%+v, %v", all, err)
	}
}
