package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// late has a resource whose instances are those of the state of another.
const late = `
resources:
  zones: {type: thing, config: {value: [a, b]}}
  page: {type: thing, for_each: '{{ z.state.value }}', dependencies: {z: zones}, config: {value: 'of {{ each.key }}'}}
  own: {type: thing, for_each: '{{ z.state.value }}', dependencies: {z: zones, p: 'page[{{ each.key }}]'}, config: {value: '{{ p.state.value }}'}}
  index: {type: thing, dependencies: {all: page}, config: {value: '{{ all.keys() | sort | join(" ") }}'}}
  one: {type: thing, dependencies: {p: 'page[b]'}, config: {value: '{{ p.state.name }}'}}
`

func TestInstancesOfAStateAreMadeOnceItIsThere(t *testing.T) {
	w := newWorld(t)
	got := w.mustApply(t, late)
	wantStatuses(t, got, map[string]report.Status{
		"zones": report.Changed, "page[a]": report.Changed, "page[b]": report.Changed, "own[a]": report.Changed, "index": report.Changed, "one": report.Changed,
	})
	assert.Len(t, got, 7, "there are results of %v", got)
	for name, want := range map[string]any{"page[a]": "of a", "own[b]": "of b", "index": "a b", "one": "page[b]"} {
		assert.Equal(t, want, w.things[name], name)
	}
	for _, name := range []string{"index", "one", "own[a]"} {
		if !before(w.trace, "set page[b]", "state "+name) && name != "own[a]" {
			t.Errorf("%s did not wait for all that it depends on: %v", name, w.trace)
		}
	}
	if n := w.names(); !slices.Contains(n, "resource-expanded page") || !slices.Contains(n, "resource-initialized page[a]") || slices.Contains(n, "resource-started page") {
		t.Errorf("the log has %v", n)
	}
	w.forget()
	assert.Equal(t, report.Unchanged, w.mustApply(t, late)["page[a]"])
	assert.Zero(t, w.runs("set"))
}

func TestWhatIsWrongWithInstancesOfAStateFailsThem(t *testing.T) {
	for _, tc := range []struct{ of, zones, change, want string }{
		{"no list", `text`, "", "m.yaml:4:33: resources.page.for_each: must be a list or a mapping, or an expression that comes to one, not text"},
		{"a member twice", `[a, a]`, "", `the list has "a" twice`},
		{"brackets", `['a]']`, "", `"a]" cannot be the key of an instance`},
		{"a line end", `["a\nb"]`, "", `cannot be the key of an instance`},
		{"a mapping in a list", `[{a: 1}]`, "", `of a mapping make a mapping of keys to values`},
		{"an instance that is not there", `[a]`, "", `"page" has no instance "b"; there are a`},
		{"no such part", `[a, b]`, "z.state.valeu", `valeu`},
	} {
		t.Run(tc.of, func(t *testing.T) {
			w := newWorld(t)
			text := strings.Replace(late, "[a, b]", tc.zones, 1)
			if tc.change != "" {
				text = strings.Replace(text, "z.state.value", tc.change, 1)
			}
			got, err := w.apply(t, text)
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, report.Changed, got["zones"], "got %v", got)
		})
	}
}

func TestASecretBecomesNoKey(t *testing.T) {
	w := newWorld(t)
	_, err := w.apply(t, `
resources:
  zones: {type: thing, config: {value: [hunter22], token: hunter22}}
  page: {type: thing, for_each: '{{ z.state.value }}', dependencies: {z: zones}, config: {value: 1}}
`)
	require.ErrorContains(t, err, "a key would be a secret")
	assert.NotContains(t, err.Error()+fmt.Sprint(w.logged, w.events), "hunter22")
}

func rows(plan *report.Plan) string {
	var all []string
	for _, r := range plan.Resources {
		all = append(all, fmt.Sprintf("%s %s %s", r.Name, r.Status, strings.Join(r.After, ",")))
	}
	return strings.ReplaceAll(strings.Join(all, "; "), " ;", ";")
}

func TestAPlanShowsInstancesOfAStateWhereItIsKnown(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(t, late)
	if got, want := strings.TrimSpace(rows(plan)), "zones STALE; page UNKNOWN zones; own UNKNOWN page,zones; index UNKNOWN page; one UNKNOWN page"; got != want {
		t.Errorf("before: %s", got)
	}
	w.things["zones"], w.things["page[a]"] = []any{"a", "b"}, "of a"
	r := w.runner(t, late)
	plan = must.Get(r.Plan(t.Context()))(t)
	if got, want := strings.TrimSpace(rows(plan)), "zones VALID; page[a] VALID; page[b] STALE; own[a] STALE; own[b] UNKNOWN page[b]; index UNKNOWN page; one UNKNOWN page"; got != want {
		t.Errorf("once it is there: %s", got)
	}
	_, err := r.Apply(t.Context())
	assert.True(t, err == nil && w.things["one"] == "page[b]", "the same runner applied %v, %v", w.things, err)
}

func TestAPlanForeseesInstances(t *testing.T) {
	w := newWorld(t)
	seeing(w, true)
	plan := must.Get(w.runner(t, `
resources:
  n: {type: net, config: {name: [x, y]}}
  known: {type: box, for_each: '{{ net.state.name }}', dependencies: {net: n}, config: {net: "{{ net.state.id }}", size: '{{ each.key }}'}}
  not: {type: box, for_each: '{{ net.state.id }}', dependencies: {net: n}, config: {size: '{{ each.key }}'}}
`).Plan(t.Context()))(t)
	got, want := strings.TrimSpace(rows(plan)), "n STALE; known[x] UNKNOWN n; known[y] UNKNOWN n; not UNKNOWN n"
	assert.True(t, got == want, "got %s", got)
	r := plan.Resources[1]
	assert.True(t, r.Tentative == report.Stale && r.Config["size"] == "x" && r.Of == "known", "%+v", r)
}

func TestASavedPlanIsBoundToTheInstancesThatItShows(t *testing.T) {
	text := strings.Replace(late, "  one:", "  other:", 1)
	for _, tc := range []struct{ of, now, want string }{
		{"the same", `[a, b]`, ""},
		{"more", `[a, b, c]`, "its for_each comes to page[c], too"},
		{"fewer", `[b]`, "its for_each no longer comes to page[a]"},
	} {
		t.Run(tc.of, func(t *testing.T) {
			w := newWorld(t)
			const zones = "zones: {type: thing, config: {value: [a, b]}}"
			w.things["zones"] = []any{"a", "b"}
			plan := w.mustPlan(t, text, pinned)
			bound := byName(plan)
			observed := strings.Replace(text, zones, strings.Replace(zones, "[a, b]", tc.now, 1), 1)
			z := bound["zones"] // the state of zones is another by now, as of what is only observed
			z.Status, z.ConfigHash = report.Unknown, ""
			bound["zones"] = z
			got, err := w.apply(t, observed, func(o *options) { o.Fingerprint, o.Bound = fingerprint, bound })
			assert.True(t, (tc.want != "" || err == nil) &&
				(tc.want == "" || err != nil && strings.Contains(err.Error(), tc.want)), "got %v, want %q", err, tc.want)
			assert.True(t, tc.want == "" || got["page"] == report.Failed, "the results are %v", got)
		})
	}
}

func TestAPlanThatLeavesInstancesOpenLetsThemBe(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, report.Changed, w.mustApply(t, late, to(w.mustPlan(t, late, pinned)))["page[a]"])
}

func TestOneInstanceOfManyIsATarget(t *testing.T) {
	w := newWorld(t)
	text := func(o *options) {
		m := must.Get(o.Manifest.Select([]string{"page[b]"}))(t)
		o.Manifest = m
	}
	got := w.mustApply(t, late, text)
	wantStatuses(t, got, map[string]report.Status{"page[b]": report.Changed})
	assert.Len(t, got, 2)
	var err error
	_, err = w.apply(t, late, func(o *options) { o.Manifest, err = o.Manifest.Select([]string{"page[c]"}) })
	assert.ErrorContains(t, err, `"page" has no instance "c"; there are a, b`)
}

func TestDriftOfInstancesOfAState(t *testing.T) {
	w := newWorld(t)
	w.mustApply(t, late)
	w.things["page[a]"] = "another"
	report := w.mustDrift(t, late)
	var got []string
	for _, r := range report.Resources {
		got = append(got, r.Name+" "+string(r.Status))
	}
	assert.Equal(t, "zones VALID, page[a] STALE, page[b] VALID, own[a] STALE, own[b] VALID, index VALID, one VALID", strings.Join(got, ", "))
}

func TestAFailedInstanceFailsWhatDependsOnAll(t *testing.T) {
	w := newWorld(t)
	w.fail["page[a]"] = true
	got, err := w.apply(t, late, func(o *options) { o.KeepGoing = true })
	require.Error(t, err, "it succeeded")
	wantStatuses(t, got, map[string]report.Status{"page[a]": report.Failed, "page[b]": report.Changed, "index": report.Skipped, "one": report.Skipped, "own": report.Skipped})
}

func made(w *world, keys ...string) func(*options) {
	var all []report.Undeclared
	for _, key := range keys {
		u := report.Undeclared{Name: "page[" + key + "]", Run: "OLD", Made: report.Made{
			Type: "thing", Config: map[string]any{"value": "of " + key}, DependsOn: []string{"zones"},
		}}
		w.things[u.Name] = u.Config["value"]
		all = append(all, u)
	}
	return func(o *options) { o.Instances, o.Recalled = all, true }
}

func TestAnInstanceWhoseKeyWentAwayIsNoLongerDeclared(t *testing.T) {
	w := removable(newWorld(t))
	w.things["zones"] = []any{"a", "b"}
	old := made(w, "a", "gone")
	plan, err := w.runner(t, late, old).Plan(t.Context())
	assert.True(t, err == nil && len(plan.Undeclared) == 1 && plan.Undeclared[0].Name == "page[gone]" &&
		plan.Undeclared[0].Config == nil, "planned %+v, %v", plan, err)
	assert.Len(t, w.mustDrift(t, late, old).Undeclared, 1)
	w.mustApply(t, late, old)
	assert.NotNil(t, w.things["page[gone]"])
	i := slices.IndexFunc(w.events, func(e report.Event) bool { return e.Kind == report.Leftover })
	assert.True(t, i >= 0 && strings.Contains(w.events[i].Text, "page[gone], made by run OLD, is no longer declared"), "it is not said")
	prune := func(o *options) { o.Prune = true }
	plan, err = w.runner(t, late, old, prune).Plan(t.Context())
	got := strings.TrimSpace(rows(plan))
	assert.True(t, err == nil && strings.HasSuffix(got, "one VALID; page[gone] PRESENT"), "planned: %s, %v", got, err)
	wantStatuses(t, w.mustApply(t, late, old, prune), map[string]report.Status{"page[gone]": report.Destroyed, "page[a]": report.Unchanged})
	assert.Nil(t, w.things["page[gone]"])
}

func TestNoInstanceIsPrunedWhileItsKeysAreNotKnown(t *testing.T) {
	w := removable(newWorld(t))
	old := made(w, "a", "gone")
	prune := func(o *options) { o.Prune = true }
	plan, err := w.runner(t, late, old, prune).Plan(t.Context())
	assert.True(t, err == nil && !strings.Contains(rows(plan), "gone") &&
		len(plan.Undeclared) == 0, "planned %s, %v", rows(plan), err)
	w.fail["zones"] = true
	got, err := w.apply(t, late, old, prune)
	assert.True(t, err != nil && w.things["page[gone]"] != nil, "%v, %v", got, err)
}

func TestInstancesOfAStateAreDestroyed(t *testing.T) {
	for _, tc := range []struct {
		of   string
		gone bool // zones is not there any more
	}{{"with the states of what they are of", false}, {"as they were made", true}} {
		t.Run(tc.of, func(t *testing.T) {
			w := applied(t, late)
			old := made(w, "a", "b", "older")
			if tc.gone {
				delete(w.things, "zones")
				for _, name := range []string{"own[a]", "own[b]"} {
					delete(w.things, name)
				}
			}
			plan := must.Get(w.runner(t, late, old).PlanDestroy(t.Context()))(t)
			got := rows(plan)
			assert.True(t, strings.Contains(got, "page[older] PRESENT") && strings.Contains(got, "page[a] PRESENT"), "planned %s", got)
			w.forget()
			must.Get(w.runner(t, late, old).Destroy(t.Context()))(t)
			assert.Empty(t, w.things)
			assert.True(t, before(w.trace, "unset index", "unset page[a]") &&
				(tc.gone || before(w.trace, "unset page[a]", "unset zones")), "in the order %v", w.trace)
		})
	}
}

func TestOneInstanceOfManyIsDestroyed(t *testing.T) {
	w := applied(t, late)
	old := made(w, "a", "b")
	one := func(o *options) {
		var err error
		o.Remove, err = o.Manifest.Dependents([]string{"page[a]"})
		require.NoError(t, err)
	}
	result, err := w.runner(t, late, old, one).Destroy(t.Context())
	assert.True(t, err == nil && w.things["page[a]"] == nil && w.things["page[b]"] != nil && w.things["zones"] != nil &&
		w.things["index"] == nil, "%+v, %v leaves %v", result, err, w.things)
}

func TestAnInstanceThatNothingMayRemoveStays(t *testing.T) {
	w := applied(t, late)
	guarded := strings.Replace(late, "page: {type: thing,", "page: {prevent_destroy: true, type: thing,", 1)
	one := func(o *options) { o.Remove = []string{"page[a]"} }
	_, err := w.runner(t, guarded, made(w, "a", "b"), one).Destroy(t.Context())
	assert.ErrorContains(t, err, "its prevent_destroy is true")
	assert.NotNil(t, w.things["page[a]"])
}

func TestWhatIsNoLongerDeclaredIsRemovedOnceByThePlannedRun(t *testing.T) {
	w := removable(newWorld(t))
	w.things["zones"] = []any{"a", "b"}
	r := w.runner(t, late, made(w, "a", "gone"), func(o *options) { o.Prune = true })
	must.Get(r.Plan(t.Context()))(t)
	result := must.Get(r.Apply(t.Context()))(t)
	assert.Nil(t, w.things["page[gone]"])
	rows := 0
	for _, row := range result.Resources {
		if row.Name == "page[gone]" {
			rows++
		}
	}
	assert.Equal(t, 1, rows)
}

// A run that knows nothing of earlier ones removes what it is told to, or says that it cannot.
func TestInstancesThatCannotBeFoundAreNotLeftBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		zones any
		want  string
	}{
		"the states are gone":        {nil, "needs the state of zones, which does not exist"},
		"its key is no longer there": {[]any{"a", "b"}, "page[gone] was made, and the for_each of page"},
	} {
		t.Run(name, func(t *testing.T) {
			w := removable(newWorld(t))
			made(w, "a", "gone")
			if tc.zones != nil {
				w.things["zones"] = tc.zones
			}
			remove := func(o *options) { o.Remove = []string{"page[a]", "page[gone]"} }
			_, err := w.runner(t, late, remove).Destroy(t.Context())
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && w.things["page[a]"] != nil &&
				w.things["page[gone]"] != nil, "%v leaves %v", err, w.things)
		})
	}
}

func TestAnInstanceWhoseKeyWentAwayIsRemovedAsItWasMade(t *testing.T) {
	for name, zones := range map[string]any{"the states are gone": nil, "its key is no longer there": []any{"a"}} {
		t.Run(name, func(t *testing.T) {
			w := removable(newWorld(t))
			old := made(w, "a", "gone")
			if zones != nil {
				w.things["zones"] = zones
			}
			w.mustDestroy(t, late, old, func(o *options) { o.Recalled, o.Remove = false, []string{"page[a]", "page[gone]"} })
			assert.Nil(t, w.things["page[a]"])
			assert.Nil(t, w.things["page[gone]"])
		})
	}
}

func TestMoreInstancesThanAnEventHolds(t *testing.T) {
	w := newWorld(t)
	many := strings.Replace(late, "[a, b]", "'{{ range(9000) | list }}'", 1)
	got, err := w.apply(t, many)
	assert.ErrorContains(t, err, "comes to 9000 instances, whose names take ")
	assert.Equal(t, report.Failed, got["page"])
}
