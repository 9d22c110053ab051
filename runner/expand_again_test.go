package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/runner/report"
)

func acted(w *world) (all []string) {
	return slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return !strings.HasPrefix(s, "set") && !strings.HasPrefix(s, "unset") })
}

func once(t *testing.T, w *world) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range w.logged {
		key := fmt.Sprint(e.Kind, " ", e.Resource, " ", e.Action, " ", max(1, e.Attempt))
		if seen[key] {
			t.Errorf("the log has %s twice", key)
		}
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
			w := removable(newWorld(t))
			if _, err := w.apply(t, late); err != nil {
				t.Fatal(err)
			}
			plan, err := w.runner(t, late, replacing(tc.replace...)).Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var planned []string
			for _, r := range plan.Resources {
				if r.Replace {
					planned = append(planned, r.Name)
				}
			}
			if !slices.Equal(planned, tc.replace) {
				t.Errorf("the plan replaces %v", planned)
			}
			w.forget()
			got, err := w.apply(t, late, replacing(tc.replace...))
			if err != nil || got["page[a]"] != report.Changed || got["page[b]"] != report.Unchanged {
				t.Fatalf("%v, %v", got, err)
			}
			if did := strings.Join(acted(w), ", "); did != tc.acted {
				t.Errorf("done: %s", did)
			}
			once(t, w)
		})
	}
	t.Run("all", func(t *testing.T) {
		w := removable(newWorld(t))
		if _, err := w.apply(t, late); err != nil {
			t.Fatal(err)
		}
		w.forget()
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
			if _, err := w.runner(t, late, replacing(tc.one)).Plan(t.Context()); err == nil {
				t.Error("it is planned")
			}
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
