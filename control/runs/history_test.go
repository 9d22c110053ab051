package runs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/report"
)

// maker is a workspace whose runs record what they make.
type maker struct {
	log   deploylog.Log
	dir   string
	store *protected.Store
	n     int
}

func newMaker(t *testing.T) *maker {
	dir := t.TempDir()
	return &maker{log: reconciletest.InMemory(t)(), dir: dir, store: protected.New(filepath.Join(dir, "protected"))}
}

// run records events as a run of a manifest.
func (m *maker) run(t interface{ Fatal(...any) }, manifest string, moved func(string) string, place string, events ...report.Event) {
	m.n++
	r, err := runs.Begin(context.Background(), runs.Options{
		Log: m.log, Engine: &enginetest.Fake{}, ID: fmt.Sprintf("RUN%d", m.n), Target: "run/x", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
		Manifest: []string{manifest}, Workspace: m.dir, Moved: moved, Protected: m.store, Place: place,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.End()
	for _, e := range append([]report.Event{{Kind: report.RunStarted}}, append(events, report.Event{Kind: report.RunFinished})...) {
		if err := r.Record(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *maker) history(t interface{ Fatal(...any) }) *runs.History {
	h, err := runs.ReadHistory(context.Background(), m.log)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func thing(path string) *report.Made {
	return &report.Made{Type: "file", Config: map[string]any{"path": path}, DependsOn: []string{"disk"}, Plugs: []report.MadePlug{{Name: "root", Path: "/srv"}}}
}

func makes(resource string, made *report.Made) report.Event {
	return report.Event{Kind: report.ActionStarted, Resource: resource, Action: "create"}.With(made)
}

func finds(resource string, made *report.Made) report.Event {
	return report.Event{Kind: report.ResourceResolved, Resource: resource, Status: report.Valid}.With(made)
}

func named(all []report.Undeclared) string {
	names := make([]string, len(all))
	for i, u := range all {
		names[i] = u.Name
	}
	return strings.Join(names, " ")
}

func none(string) bool { return false }

func TestWhatIsSecretOrLargeIsKeptApart(t *testing.T) {
	m := newMaker(t)
	secret, large := thing("open-sesame"), thing(strings.Repeat("x", 100<<10))
	secret.Secrets = [][]string{{"path"}}
	m.run(t, "a.yaml", nil, "", makes("secret", secret), makes("large", large), makes("plain", thing("p")))
	for e, err := range m.log.Read(context.Background(), deploylog.Filter{}) {
		if err != nil || strings.Contains(string(e.Data), "open-sesame") || len(e.Data) > 10<<10 {
			t.Errorf("%s of %s: %v, %d bytes", e.Name, e.Target, err, len(e.Data))
		}
	}
	h := m.history(t)
	for name, want := range map[string]*report.Made{"secret": secret, "large": large, "plain": thing("p")} {
		got, _ := h.Thing(name)
		made, err := got.Open(m.store)
		if err != nil || made.Config["path"] != want.Config["path"] || len(made.Secrets) != len(want.Secrets) || made.Plugs[0].Path != "/srv" || made.DependsOn[0] != "disk" {
			t.Errorf("%s: %+v, %v", name, made, err)
		}
	}
	// What is gone needs no document any more.
	m.run(t, "a.yaml", nil, "", report.Event{Kind: report.ResourceDestroyed, Resource: "secret", Status: report.Absent}, makes("large", large))
	if entries, err := os.ReadDir(filepath.Join(m.dir, "protected")); err != nil || len(entries) != 1 {
		t.Errorf("%d documents are kept, %v", len(entries), err)
	}
}

func TestWhoseAThingIs(t *testing.T) {
	m := newMaker(t)
	m.run(t, "a.yaml", nil, "", makes("x", thing("x")), finds("theirs", thing("t")))
	m.run(t, "a.yaml", nil, "host", makes("placed", thing("p")))
	of := func(manifest string) string {
		return named(m.history(t).Undeclared(runs.Owner{Manifest: []string{manifest}, Workspace: m.dir}, none))
	}
	if of("a.yaml") != "x" || of("b.yaml") != "" {
		t.Errorf("a.yaml has %q, b.yaml %q", of("a.yaml"), of("b.yaml"))
	}
	// Something else by the same name is another manifest's business.
	m.run(t, "b.yaml", nil, "", finds("x", thing("another")))
	if of("b.yaml") != "" {
		t.Errorf("b.yaml has %q", of("b.yaml"))
	}
	// The same is: the file was renamed, or the resource went to another one.
	m.run(t, "b.yaml", nil, "", finds("x", thing("x")))
	if of("b.yaml") != "x" || strings.Contains(of("a.yaml"), "x") {
		t.Errorf("a.yaml has %q, b.yaml %q", of("a.yaml"), of("b.yaml"))
	}
	// A workspace that is elsewhere is another one, until it is gone from there.
	if got := named(m.history(t).Undeclared(runs.Owner{Manifest: []string{"b.yaml"}, Workspace: "/elsewhere"}, none)); got != "" {
		t.Errorf("another workspace has %q", got)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	if got := named(m.history(t).Undeclared(runs.Owner{Manifest: []string{"b.yaml"}, Workspace: "/elsewhere"}, none)); got != "x" {
		t.Errorf("the workspace that was moved has %q", got)
	}
}

// Whatever was edited, applied, pruned, moved and cut off in whichever order: what is offered to
// be removed is what runs of the manifest made, and nothing else.
func TestHistoriesAreThoseOfANaiveModel(t *testing.T) { //nolint:gocyclo // the steps of a history, each beside what the model makes of it
	names := []string{"a", "b", "c", "d[1]", "d[2]"}
	manifests := []string{"one.yaml", "two.yaml"}
	rapid.Check(t, func(rt *rapid.T) {
		m := newMaker(t)
		there := map[string]bool{}   // in the world, whoever made it
		owner := map[string]string{} // of what a run made and none is known to have removed
		made := map[string]string{}  // its configuration: the name by which it was made
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			manifest := rapid.SampledFrom(manifests).Draw(rt, "manifest")
			declares := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, "declares")
			declared := func(name string) bool { return slices.Contains(declares, name) }
			var left []string
			for _, name := range names {
				if owner[name] == manifest && !declared(name) {
					left = append(left, name)
				}
			}
			if got := named(m.history(rt).Undeclared(runs.Owner{Manifest: []string{manifest}, Workspace: m.dir}, declared)); got != strings.Join(left, " ") {
				rt.Fatalf("of %s, which declares %q, there is %q, want %q", manifest, declares, got, left)
			}
			var events []report.Event
			var moved func(string) string
			switch rapid.SampledFrom([]string{"apply", "prune", "cut off", "move", "theirs", "by hand", "forget"}).Draw(rt, "step") {
			case "apply":
				for _, name := range declares {
					if there[name] {
						events = append(events, finds(name, thing(name)))
						if owner[name] != "" && made[name] == name {
							owner[name] = manifest
						}
						continue
					}
					events = append(events, makes(name, thing(name)))
					there[name], owner[name], made[name] = true, manifest, name
				}
			case "prune":
				for _, name := range left {
					events = append(events, report.Event{Kind: report.ResourceDestroyed, Resource: name, Status: report.Absent, Removing: true})
					delete(there, name)
					delete(owner, name)
				}
			case "cut off": // before it is recorded that they are gone
				for _, name := range left {
					delete(there, name)
				}
			case "move":
				from, to := rapid.SampledFrom(names).Draw(rt, "from"), rapid.SampledFrom(names).Draw(rt, "to")
				moved = func(name string) string {
					if name == from {
						return to
					}
					return name
				}
				if from != to && owner[from] == manifest && owner[to] == "" && !there[to] {
					owner[to], there[to], made[to] = manifest, there[from], made[from]
					delete(owner, from)
					delete(there, from)
				} else {
					moved = nil
				}
			case "theirs":
				name := rapid.SampledFrom(names).Draw(rt, "name")
				there[name] = true
			case "forget":
				name := rapid.SampledFrom(names).Draw(rt, "name")
				f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", m.n), name, nil)
				if err != nil || (f.Made != "") != (owner[name] != "") {
					rt.Fatalf("forgetting %s: %v, %v", name, f, err)
				}
				delete(owner, name)
			case "by hand":
				delete(there, rapid.SampledFrom(names).Draw(rt, "name"))
			}
			m.run(rt, manifest, moved, "", events...)
		}
	})
}

// In a place it is recorded what is made of instances that were found out in a run: these may be gone
// from what its manifest comes to when they are to be removed.
func TestWhatIsMadeOfInstancesInAPlaceIsKnown(t *testing.T) {
	m := newMaker(t)
	one, secret := thing("one"), thing("open-sesame")
	one.OneOfMany, secret.OneOfMany, secret.Secrets = true, true, [][]string{{"path"}}
	m.run(t, "a.yaml", nil, "host@1:task", makes("page[a@b]", one), makes("page[s]", secret), makes("plain", thing("p")))
	m.run(t, "a.yaml", nil, "host@1:other", makes("page[c]", one))
	m.run(t, "a.yaml", nil, "", makes("page[d]", one))
	for e, err := range m.log.Read(context.Background(), deploylog.Filter{}) {
		if err != nil || strings.Contains(string(e.Data), "open-sesame") {
			t.Errorf("%s of %s: %s, %v", e.Name, e.Target, e.Data, err)
		}
	}
	asked := []string{"page[a@b]", "page[s]", "plain", "page[c]", "page[d]"}
	h, err := runs.ReadPlace(t.Context(), m.log, "host@1:task", asked)
	if err != nil || named(h.All()) != "page[a@b] page[s]" {
		t.Fatalf("it knows %v, %v", h.All(), err)
	}
	for name, path := range map[string]string{"page[a@b]": "one", "page[s]": "open-sesame"} {
		got, _ := h.Thing(name)
		if made, err := got.Open(m.store); err != nil || made.Config["path"] != path {
			t.Errorf("%s: %+v, %v", name, made, err)
		}
	}
	needed, err := runs.Documents(t.Context(), m.log)
	if err != nil || len(needed) != 1 {
		t.Errorf("the documents %v are needed, %v", needed, err)
	}
	if got := named(m.history(t).Undeclared(runs.Owner{Manifest: []string{"a.yaml"}, Workspace: m.dir}, none)); got != "page[d]" {
		t.Errorf("of the manifest are %s", got)
	}
	m.run(t, "a.yaml", nil, "host@1:task", report.Event{Kind: report.ResourceDestroyed, Resource: "page[s]", Status: report.Absent})
	if h, err = runs.ReadPlace(t.Context(), m.log, "host@1:task", asked); err != nil || named(h.All()) != "page[a@b]" {
		t.Errorf("then it knows %v, %v", h.All(), err)
	}
}

// What was forgotten in a place is nobody's there, until it is made once more.
func TestWhatIsForgottenInAPlaceIsNobodys(t *testing.T) {
	m := newMaker(t)
	secret, one := thing("open-sesame"), thing("one")
	secret.OneOfMany, one.OneOfMany, secret.Secrets = true, true, [][]string{{"path"}}
	const place = "host@1:task"
	asked := []string{"page[one]", "page[s]"}
	know := func(want string) {
		t.Helper()
		h, err := runs.ReadPlace(t.Context(), m.log, place, asked)
		if err != nil || named(h.All()) != want {
			t.Errorf("what it takes to remove them is known of %v, %v", h.All(), err)
		}
		made, err := runs.Made(t.Context(), m.log, place, asked, 0)
		if err != nil || strings.Join(made, " ") != want {
			t.Errorf("made are %v, %v", made, err)
		}
	}
	m.run(t, "a.yaml", nil, place, makes("page[one]", one), makes("page[s]", secret))
	know("page[one] page[s]")
	for i, left := range []string{"page[s]", ""} {
		f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", i), asked[i]+"@"+place, nil)
		if err != nil || f.Made == "" {
			t.Fatalf("forgetting %s: %+v, %v", asked[i], f, err)
		}
		know(left)
	}
	m.run(t, "a.yaml", nil, place, makes("page[s]", secret))
	know("page[s]")
}

// A run records no more of what is no instance and is made in a place than the actions that made it.
func TestWhatIsNoInstanceIsForgottenInAPlaceToo(t *testing.T) {
	m := newMaker(t)
	const place = "host@1:task"
	n := 0
	forget := func(want string) {
		t.Helper()
		n++
		f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", n), "db@"+place, nil)
		if err != nil || f.Made != want {
			t.Errorf("it was made by %q, %v, want %q", f.Made, err, want)
		}
		made, err := runs.Made(t.Context(), m.log, place, []string{"db"}, 0)
		if want != "" && (err != nil || len(made) > 0) {
			t.Errorf("still made are %v, %v", made, err)
		}
	}
	m.run(t, "a.yaml", nil, "host@1:other", makes("db", thing("db")))
	forget("")
	m.run(t, "a.yaml", nil, place, makes("db", thing("db")))
	m.run(t, "a.yaml", nil, place, finds("db", thing("db")))
	forget("RUN2")
	forget("")
	m.run(t, "a.yaml", nil, place, makes("db", thing("db")))
	m.run(t, "a.yaml", nil, place, makes("db", thing("db")), report.Event{Kind: report.ActionFailed, Resource: "db", Action: "create"})
	forget("RUN5")
	m.run(t, "a.yaml", nil, place, makes("db", thing("db")))
	m.run(t, "a.yaml", nil, place, report.Event{Kind: report.ResourceDestroyed, Resource: "db", Status: report.Absent})
	forget("")
}
