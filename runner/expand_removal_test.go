package runner_test

import (
	"strings"
	"testing"
	"time"

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
	plan, err := w.runner(t, late, before).Plan(t.Context())
	if err != nil || len(plan.Undeclared) != 2 {
		t.Errorf("planned %+v, %v", plan, err)
	}
	if got, err := w.apply(t, late, before); err != nil || w.things["page"] == nil || got["page[a]"] != report.Changed {
		t.Errorf("applied %v, %v", got, err)
	}
}

// leftBefore is what was made by the name of page, and of what depended on that.
func leftBefore(o *options) {
	o.Undeclared = []report.Undeclared{
		{Name: "old", Run: "OLD", At: time.Unix(1, 0), Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}, DependsOn: []string{"page"}}},
		{Name: "page", Run: "OLD", At: time.Unix(1, 0), Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}}},
	}
}

func TestAResourceThatBecameManyIsPruned(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, late); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"page", "old"} {
		w.things[name] = 1
	}
	prune := func(o *options) { o.Prune = true }
	plan, err := w.runner(t, late, leftBefore, prune, pinned).Plan(t.Context())
	if got := rows(plan); err != nil || !strings.Contains(got, "page PRESENT") || !strings.Contains(got, "page[a] VALID") {
		t.Errorf("planned %s, %v", got, err)
	}
	bound := map[string]report.ResourcePlan{}
	for _, one := range plan.Resources {
		bound[one.Node()] = one
	}
	w.forget()
	got, err := w.apply(t, late, leftBefore, prune, func(o *options) { o.Fingerprint, o.Bound = fingerprint, bound })
	if err != nil || got["page"] != report.Destroyed || got["page[a]"] != report.Unchanged || w.things["page"] != nil || w.things["old"] != nil || w.things["page[a]"] == nil {
		t.Errorf("pruned: %v, %v", got, err)
	}
	if w.runs("unset") != 2 || w.trace[len(w.trace)-1] != "absent page" {
		t.Errorf("in the order %v", w.trace)
	}
	once(t, w)
	for _, e := range w.logged {
		if e.Resource == "page" && e.Kind == report.ResourceDestroyed && !e.Removing {
			t.Error("its removal counts as one of what is declared")
		}
	}
}

func TestWhatBecameManyGoesWithTheInstances(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, late); err != nil {
		t.Fatal(err)
	}
	w.things["page"] = 1
	plain := []report.Undeclared{{Name: "page", Run: "OLD", Made: report.Made{Type: "thing", Config: map[string]any{"value": 1}}}}
	got, err := w.destroy(t, late, func(o *options) { o.Undeclared, o.Prune = plain, true })
	if err != nil || len(w.things) > 0 || got["page"] != report.Destroyed || got["page[a]"] != report.Destroyed {
		t.Errorf("%v, %v leaves %v", got, err, w.things)
	}
}

// Instances depended on something else when they were made than others depend on them now.
func TestInstancesAreRemovedInTheOrderOfWhatDependsOnThem(t *testing.T) {
	w := removable(newWorld(t))
	if _, err := w.apply(t, late); err != nil {
		t.Fatal(err)
	}
	old := func(o *options) {
		made(w, "old", "older")(o)
		o.Instances[0].DependsOn = []string{"index"}          // which depends on all of them by now
		o.Instances[1].DependsOn = []string{"page[old]", "x"} // of which one is not there
	}
	w.forget()
	result, err := w.destroy(t, late, old)
	if err != nil || len(w.things) > 0 {
		t.Fatalf("%v, %v leaves %v", result, err, w.things)
	}
	for _, order := range [][2]string{{"index", "page[old]"}, {"index", "page[a]"}, {"page[older]", "page[old]"}, {"own[a]", "page[a]"}, {"page[a]", "zones"}} {
		if !before(w.trace, "unset "+order[0], "unset "+order[1]) {
			t.Errorf("%s was removed before %s: %v", order[1], order[0], w.trace)
		}
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
	if err == nil || !strings.Contains(err.Error(), "m.yaml:4:23: resources.page[gone]: it is not removed: its prevent_destroy is true; set that to false first") || w.things["page[gone]"] == nil {
		t.Errorf("%v leaves %v", err, w.things)
	}
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
	if !before(w.trace, "unset list", "unset page[gone]") {
		t.Errorf("in the order %v", w.trace)
	}
}
