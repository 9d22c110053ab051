package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

const levels = `
resources:
  disk: {type: thing, config: {value: 1}}
  db: {type: thing, dependencies: {disk: disk}, config: {value: "on {{ disk.state.value }}"}}
  web: {type: thing, dependencies: {db: db}, config: {value: 3}}
`

func replacing(names ...string) func(*options) { return func(o *options) { o.Replace = names } }

// What is replaced is removed first, dependents before what they depend on, and then made again in
// the order of the graph; what depends on it is looked at after that.
func TestWhatIsReplacedIsRemovedAndMadeAgain(t *testing.T) {
	w := applied(t, levels)
	got := w.mustApply(t, levels, replacing("disk", "db"))
	wantStatuses(t, got, map[string]report.Status{"disk": report.Changed, "db": report.Changed, "web": report.Unchanged})
	assert.Equal(t, []string{"unset db", "unset disk", "set disk", "set db"}, acted(w))
	assert.True(t, before(w.trace, "set db", "state web"), "web was looked at before")
	// Each event is one of its kind, and what began has one end.
	once(t, w)
	ends := map[string]int{}
	for _, e := range w.logged {
		switch e.Kind {
		case report.ResourceStarted:
			ends[e.Resource]++
		case report.ResourceFinished:
			ends[e.Resource]--
		default:
		}
	}
	for name, n := range ends {
		assert.Equal(t, 0, n, "%s has %d ends too few", name, n)
	}
	assert.Contains(t, w.names(), "resource-destroyed db")
}

func TestAPlanShowsWhatIsReplaced(t *testing.T) {
	w := applied(t, levels)
	plan := w.mustPlan(t, levels, replacing("disk", "db"))
	var said []string
	for _, p := range plan.Resources {
		text := p.Name + " " + string(p.Status)
		if p.Replace {
			text += " replace"
		}
		for _, a := range p.Actions {
			text += " " + a.Name
		}
		said = append(said, text)
	}
	assert.Equal(t, []string{"disk STALE replace unset", "db STALE replace unset", "web UNKNOWN"}, said)
	// What is not there is only made.
	delete(w.things, "disk")
	made := w.mustPlan(t, levels, replacing("disk")).Resources[0]
	assert.False(t, made.Replace)
	assert.Equal(t, "set", made.Actions[0].Name)
}

func TestWhatCannotBeReplacedIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		removable  bool
	}{
		"not removable": {"{type: thing, config: {value: 1}}", "m.yaml:2:3: resources.a: its type thing cannot remove it", false},
		"prevented":     {"{type: thing, prevent_destroy: true, config: {value: 1}}", "resources.a: it is not removed: its prevent_destroy is true", true},
		"read-only":     {"{type: thing, readonly: true, config: {value: 1}}", "resources.a: it is read-only", true},
	} {
		w := newWorld(t)
		if c.removable {
			removable(w)
		}
		w.things["a"] = 1
		text := "resources:\n  a: " + c.text + "\n  b: {type: thing, config: {value: 1}}\n"
		_, err := w.apply(t, text, replacing("a"))
		var invalid *manifest.Error
		require.ErrorAs(t, err, &invalid, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.Len(t, w.things, 1, name)
		assert.Zero(t, w.runs("state"), name)
		assert.ErrorAs(t, must.Fail(w.runner(t, text, replacing("a")).Plan(t.Context())), &invalid, name)
	}
}

// What could not be removed fails, with what depends on it; the rest goes on where it is to.
func TestAReplacementThatFailsIsLikeAnyFailure(t *testing.T) {
	for keep, web := range map[bool]report.Status{false: report.Skipped, true: report.Unchanged} {
		w := removable(newWorld(t))
		text := "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {a: a}, config: {value: 1}}\n  c: {type: thing, config: {value: 1}}\n"
		w.mustApply(t, text)
		w.fail["a"] = true
		got, err := w.apply(t, text, replacing("a"), func(o *options) { o.KeepGoing = keep })
		assert.ErrorContains(t, err, "it would not go")
		wantStatuses(t, got, map[string]report.Status{"a": report.Failed, "b": report.Skipped, "c": web})
	}
}

// A replacement that was planned is done without questions, and refused where what there is has changed since.
func TestAPlannedReplacementIsBound(t *testing.T) {
	w := applied(t, levels)
	plan := w.mustPlan(t, levels, replacing("web"), pinned)
	bind := func(o *options) {
		o.Fingerprint, o.Bound, o.Replace = fingerprint, map[string]report.ResourcePlan{}, []string{"web"}
		for _, r := range plan.Resources {
			o.Bound[r.Name] = r
		}
		o.Confirm = runner.ConfirmAction
		o.Confirmer = w
	}
	w.things["web"] = "theirs"
	assert.ErrorContains(t, must.Fail(w.apply(t, levels, bind)), "what there is of it has changed")
	assert.True(t, w.things["web"] == "theirs")
	w.things["web"] = 3
	wantStatuses(t, w.mustApply(t, levels, bind), map[string]report.Status{"web": report.Changed})
	assert.Empty(t, w.asked)
}

// left is what a run made as things and that is no longer declared, each depending on the one before.
func left(w *world, names ...string) (all []report.Undeclared) {
	for i, name := range names {
		u := report.Undeclared{Name: name, Run: "OLD", At: time.Unix(int64(i), 0), Made: report.Made{
			Type: "thing", Config: map[string]any{"value": "{{ literally }} " + name}, Declared: manifest.Position{File: "m.yaml", Line: 90 + i, Column: 3},
		}}
		if i > 0 {
			u.DependsOn = []string{names[i-1], "long-gone"}
		}
		w.things[name] = u.Config["value"]
		all = append(all, u)
	}
	return all
}

func pruning(all []report.Undeclared) func(*options) {
	return func(o *options) { o.Undeclared, o.Prune = all, true }
}

const single = "resources:\n  a: {type: thing, config: {value: 1}}\n"

func TestWhatIsNoLongerDeclaredIsRemovedLast(t *testing.T) {
	w := removable(newWorld(t))
	all := left(w, "x", "y", "z")
	plan, err := w.runner(t, single, pruning(all)).Plan(t.Context())
	require.True(t, err == nil && len(plan.Resources) == 4 && plan.Changes() && len(plan.Undeclared) == 0, "planned: %+v, %v", plan, err)
	for _, p := range plan.Resources[1:] {
		assert.True(t, p.Status == report.Present && p.MadeBy == "OLD" && p.Actions[0].Name == "unset", "planned: %+v", p)
	}
	w.forget()
	got := w.mustApply(t, single, pruning(all))
	wantStatuses(t, got, map[string]report.Status{"a": report.Changed, "x": report.Destroyed, "y": report.Destroyed, "z": report.Destroyed})
	assert.Equal(t, []string{"set a", "unset z", "unset y", "unset x"}, acted(w))
	for _, e := range w.logged {
		assert.Equal(t, e.Removing, strings.Contains("xyz", e.Resource) && e.Resource != "", "%s of %s: removing %v", e.Kind, e.Resource, e.Removing)
	}
	// Once more: they are gone, which is recorded again, so that nobody asks for ever.
	w.forget()
	if got, err = w.apply(t, single, pruning(all)); err != nil || got["x"] != report.Absent || !slices.Contains(w.names(), "resource-destroyed x") {
		t.Errorf("again: %v, %v, %v", got, err, w.names())
	}
}

func TestWhatIsNoLongerDeclaredIsListed(t *testing.T) {
	w := removable(newWorld(t))
	all := left(w, "x", "y")
	listed := func(o *options) { o.Undeclared = all }
	plan := must.Get(w.runner(t, single, listed).Plan(t.Context()))(t)
	assert.True(t, len(plan.Resources) == 1 && len(plan.Undeclared) == 2 && plan.Undeclared[0].Config == nil, "planned: %+v", plan)
	assert.Len(t, w.mustDrift(t, single, listed).Undeclared, 2)
	w.forget()
	w.mustApply(t, single, listed)
	assert.Len(t, w.things, 3)
	i := slices.IndexFunc(w.events, func(e report.Event) bool { return e.Kind == report.Leftover })
	const want = "x, made by run OLD; y, made by run OLD, are no longer declared: --prune removes them"
	assert.True(t, i >= 0 && w.events[i].Text == want && len(w.events[i].Resources) == 2, "it is not said: %v", w.events)
}

func TestNothingIsPrunedAfterAFailure(t *testing.T) {
	w := removable(newWorld(t))
	all := left(w, "x")
	w.fail["a"] = true
	got, err := w.apply(t, single, pruning(all), func(o *options) { o.KeepGoing = true })
	assert.Error(t, err)
	assert.NotNil(t, w.things["x"])
	wantStatuses(t, got, map[string]report.Status{"a": report.Failed, "x": report.Skipped})
}

// What must not or cannot be removed is refused before anything is touched.
func TestWhatCannotBePrunedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, u *report.Undeclared)
		want   string
	}{
		"not removable": {func(w *world, _ *report.Undeclared) { w.engine.Images["thing"] = image(w.thing) }, `its type thing cannot remove it: its init does not answer "removable": true; remove it by hand if it is to go, and then "deployster state forget x"`},
		"prevented":     {func(_ *world, u *report.Undeclared) { u.PreventDestroy = true }, "m.yaml:90:3: resources.x: it is no longer declared, and not removed, as it was made with prevent_destroy: true"},
		"renamed": {func(_ *world, u *report.Undeclared) { u.Config = map[string]any{"value": 1} },
			`m.yaml:2:3: resources.a: it manages what run OLD made as x, which is no longer declared and so would be removed; where it was only renamed, say so: moved: [{from: "x", to: "a"}]`},
	} {
		w := removable(newWorld(t))
		all := left(w, "x")
		c.change(w, &all[0])
		_, err := w.apply(t, single, pruning(all))
		var invalid *manifest.Error
		assert.True(t, errors.As(err, &invalid) && strings.Contains(err.Error(), c.want) &&
			len(w.things) == 1, "%s: got %v, want %q; there is %v", name, err, c.want, w.things)
	}
}

// Of an instance that is gone its for_each says whether it may be removed, whether or not that reads states.
func TestAForEachSaysWhatIsRemovedOfIt(t *testing.T) {
	const text = "resources:\n  x:\n    type: thing\n    for_each: [a]\n    prevent_destroy: true\n    config: {value: 1}\n"
	w := removable(newWorld(t))
	all := left(w, "x[b]")
	all[0].PreventDestroy = true
	_, err := w.apply(t, text, pruning(all))
	if want := "m.yaml:5:5: resources.x[b]: it is not removed: its prevent_destroy is true; set that to false first"; err == nil || !strings.Contains(err.Error(), want) || len(w.things) != 1 {
		t.Errorf("got %v, want %q; there is %v", err, want, w.things)
	}
}

func TestDependenciesThatWereTurnedAroundDoNotHang(t *testing.T) {
	w := removable(newWorld(t))
	all := left(w, "x", "y", "z")
	all[0].DependsOn = []string{"z"}
	w.mustApply(t, single, pruning(all))
	assert.Len(t, w.things, 1)
}

func TestOnlyWhatWasPlannedIsPruned(t *testing.T) {
	w := removable(newWorld(t))
	w.things["a"] = 1
	all := left(w, "x")
	plan := w.mustPlan(t, single, pruning(all), pinned)
	bind := func(o *options) {
		o.Fingerprint, o.Bound = fingerprint, map[string]report.ResourcePlan{}
		for _, r := range plan.Resources {
			o.Bound[r.Node()] = r
		}
		o.Confirm, o.Confirmer = runner.ConfirmAction, w
	}
	was := w.things["x"]
	w.things["x"] = "theirs"
	_, err := w.apply(t, single, pruning(all), bind)
	assert.True(t, err != nil && strings.Contains(err.Error(), "what there is of it has changed") && w.things["x"] != nil, "bound: %v", err)
	w.things["x"] = was
	if _, err := w.apply(t, single, pruning(all), bind); err != nil || w.things["x"] != nil || len(w.asked) > 0 {
		t.Errorf("bound: %v, asked %d times", err, len(w.asked))
	}
}

// What is made is recorded with the first action that makes it, and nowhere shown.
func TestWhatIsMadeIsRecorded(t *testing.T) {
	w := removable(newWorld(t))
	text := "resources:\n  a: {type: thing, prevent_destroy: true, config: {value: [1, hush], token: hush}}\n  b: {type: thing, dependencies: {a: a}, config: {value: '{{ a.state.name }}'}}\n"
	w.mustApply(t, text)
	made := map[string]*report.Made{}
	for _, e := range w.logged {
		if e.Kind == report.ActionStarted && e.Made() != nil {
			made[e.Resource] = e.Made()
		}
	}
	a, b := made["a"], made["b"]
	require.NotNil(t, a)
	require.NotNil(t, b)
	assert.True(t, a.Type == "thing" && a.PreventDestroy && a.Declared.Line == 2 && len(a.Secrets) == 2 &&
		strings.Join(a.Secrets[0], ".") == "token" && strings.Join(a.Secrets[1], ".") == "value", "of a: %+v", a)
	assert.True(t, b.Config["value"] == "a" && slices.Equal(b.DependsOn, []string{"a"}) && b.Secrets == nil, "of b: %+v", b)
	for _, e := range w.events {
		assert.Nil(t, e.Made())
	}
	w.forget()
	w.mustApply(t, text)
	for _, e := range w.logged {
		assert.Equal(t, e.Made() != nil, e.Kind == report.ResourceResolved)
	}
}

// Of what types find by what they have kept, equal configurations say nothing.
func TestWhatIsConfiguredAlikeIsNotTheSameWhereItIsKept(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	c.disks["d-old"], c.past["old"] = true, runner.Past{Kept: map[string]any{"id": "d-old"}}
	old := report.Undeclared{Name: "old", Run: "OLD", Made: report.Made{Type: "disk", Config: map[string]any{"size": 7}}}
	got := must.Get(c.apply(t, disk, c.remembers, pruning([]report.Undeclared{old})))(t)
	assert.True(t, got["old"] == report.Destroyed && !c.disks["d-old"] && len(c.disks) == 1, "%v, left %v", got, c.disks)
}

func TestADestroyLeavesWhatIsNoLongerDeclaredUnlessToldOtherwise(t *testing.T) {
	w := removable(newWorld(t))
	w.things["a"] = 1
	all := left(w, "x", "y")
	all[0].DependsOn = []string{"a", "long-gone"}
	listed := func(o *options) { o.Undeclared = all }
	plan, err := w.runner(t, single, listed).PlanDestroy(t.Context())
	assert.True(t, err == nil && len(plan.Resources) == 1 && len(plan.Undeclared) == 2, "planned: %+v, %v", plan, err)
	plan, err = w.runner(t, single, pruning(all)).PlanDestroy(t.Context())
	assert.True(t, err == nil && len(plan.Resources) == 3 && plan.Resources[0].MadeBy == "OLD" &&
		plan.Resources[0].Status == report.Present && len(plan.Undeclared) == 0, "planned: %+v, %v", plan, err)
	w.forget()
	result, err := w.runner(t, single, pruning(all)).Destroy(t.Context())
	require.True(t, err == nil && result.Counts.Changed == 3 && len(w.things) == 0, "%+v, %v, left %v", result, err, w.things)
	acted := slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return !strings.HasPrefix(s, "unset") })
	assert.Equal(t, []string{"unset y", "unset x", "unset a"}, acted)
	w = removable(newWorld(t))
	w.things["a"] = 1
	all = left(w, "x")
	result, err = w.runner(t, single, listed).Destroy(t.Context())
	assert.True(t, err == nil && result.Counts.Changed == 1 && w.things["x"] != nil, "%+v, %v", result, err)
	assert.GreaterOrEqual(t, slices.IndexFunc(w.events, func(e report.Event) bool { return e.Kind == report.Leftover }), 0, "it is not said")
}
