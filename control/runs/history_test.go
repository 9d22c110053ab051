package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/report"
)

// maker is a workspace whose runs record what they make.
type maker struct {
	log   deploylog.Log
	dir   string
	store *protected.Store
	moves map[string]string // what manifests of steps say; nil is nothing
	n     int
}

func newMaker(t *testing.T) *maker {
	dir := t.TempDir()
	return &maker{log: reconciletest.InMemory(t)(), dir: dir, store: protected.New(filepath.Join(dir, "protected"))}
}

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
	h, err := runs.ReadHistory(context.Background(), m.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (m *maker) owner(manifest string) runs.Owner {
	return runs.Owner{Manifest: []string{manifest}, Workspace: m.dir}
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

// names are those of things.
func names(all []*runs.Thing) string {
	list := make([]string, len(all))
	for i, t := range all {
		list[i] = t.Name
	}
	return strings.Join(list, " ")
}

func none(string) bool { return false }

func TestWhatIsSecretOrLargeIsKeptApart(t *testing.T) {
	m := newMaker(t)
	secret, large := thing("open-sesame"), thing(strings.Repeat("x", 100<<10))
	secret.Secrets = [][]string{{"path"}}
	m.run(t, "a.yaml", nil, "", makes("secret", secret), makes("large", large), makes("plain", thing("p")))
	for e, err := range m.log.Read(context.Background(), deploylog.Filter{}) {
		assert.True(t, err == nil && !strings.Contains(string(e.Data), "open-sesame") &&
			len(e.Data) <= 10<<10, "%s of %s: %v, %d bytes", e.Name, e.Target, err, len(e.Data))
	}
	h := m.history(t)
	for name, want := range map[string]*report.Made{"secret": secret, "large": large, "plain": thing("p")} {
		got := must.Get(h.Thing(t.Context(), m.owner("a.yaml"), name))(t)
		made, err := got.Open(m.store)
		assert.True(t, err == nil && made.Config["path"] == want.Config["path"] && len(made.Secrets) == len(want.Secrets) &&
			made.Plugs[0].Path == "/srv" && made.DependsOn[0] == "disk", "%s: %+v, %v", name, made, err)
	}
	// What is gone needs no document any more.
	m.run(t, "a.yaml", nil, "", report.Event{Kind: report.ResourceDestroyed, Resource: "secret", Status: report.Absent}, makes("large", large))
	assert.Len(t, must.Get(os.ReadDir(filepath.Join(m.dir, "protected")))(t), 1)
}

func TestWhoseAThingIs(t *testing.T) {
	m := newMaker(t)
	m.run(t, "a.yaml", nil, "", makes("x", thing("x")), finds("theirs", thing("t")))
	m.run(t, "a.yaml", nil, "host", makes("placed", thing("p")))
	of := func(manifest string) string {
		return named(must.Get(m.history(t).Undeclared(t.Context(), m.owner(manifest), none))(t))
	}
	assert.Equal(t, "x", of("a.yaml"))
	assert.Empty(t, of("b.yaml"))
	// Something else by the same name is another manifest's business.
	m.run(t, "b.yaml", nil, "", finds("x", thing("another")))
	assert.Empty(t, of("b.yaml"), "b.yaml")
	// What it takes over is: the file was renamed, or the resource went to another one.
	took := finds("x", thing("x"))
	took.Took = &report.Owned{Undeclared: report.Undeclared{Name: "x", Run: "RUN1"}, By: report.OwnedBy{Files: []string{"a.yaml"}, Workspace: m.dir}}
	m.run(t, "b.yaml", nil, "", took)
	assert.Equal(t, "x", of("b.yaml"))
	assert.NotContains(t, of("a.yaml"), "x")
	// A workspace that is elsewhere is another one, until it is gone from there.
	assert.Empty(t, named(must.Get(m.history(t).Undeclared(t.Context(), runs.Owner{Manifest: []string{"b.yaml"}, Workspace: "/elsewhere"}, none))(t)), "another workspace")
	require.NoError(t, os.RemoveAll(m.dir))
	got := named(must.Get(m.history(t).Undeclared(t.Context(), runs.Owner{Manifest: []string{"b.yaml"}, Workspace: "/elsewhere"}, none))(t))
	assert.Equal(t, "x", got, "the workspace that was moved")
}

// Whatever was edited, applied, pruned, moved and cut off in whichever order: what is offered to
// be removed is what runs of the manifest made, and nothing else.
func TestHistoriesAreThoseOfANaiveModel(t *testing.T) { //nolint:gocyclo // the steps of a history, each beside what the model makes of it
	all := []string{"a", "b", "c", "d[1]", "d[2]"}
	manifests := []string{"one.yaml", "two.yaml"}
	type of struct{ manifest, name string }
	rapid.Check(t, func(rt *rapid.T) {
		m := newMaker(t)
		made := map[of]bool{} // by a run of the manifest, and none is known to have removed it
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			manifest := rapid.SampledFrom(manifests).Draw(rt, "manifest")
			declares := rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID).Draw(rt, "declares")
			declared := func(name string) bool { return slices.Contains(declares, name) }
			var left []string
			for _, name := range all {
				if made[of{manifest, name}] && !declared(name) {
					left = append(left, name)
				}
			}
			got := named(must.Get(m.history(rt).Undeclared(t.Context(), m.owner(manifest), declared))(rt))
			require.Equal(rt, strings.Join(left, " "), got, "of %s, which declares %q, there is %q, want %q", manifest, declares, got, left)
			var events []report.Event
			var moved func(string) string
			switch rapid.SampledFrom([]string{"apply", "prune", "move", "take", "forget"}).Draw(rt, "step") {
			case "apply":
				for _, name := range declares {
					if made[of{manifest, name}] {
						events = append(events, finds(name, thing(name)))
						continue
					}
					events = append(events, makes(name, thing(name)))
					made[of{manifest, name}] = true
				}
			case "prune":
				for _, name := range left {
					events = append(events, report.Event{Kind: report.ResourceDestroyed, Resource: name, Status: report.Absent, Removing: true})
					delete(made, of{manifest, name})
				}
			case "move":
				from, to := of{manifest, rapid.SampledFrom(all).Draw(rt, "from")}, of{manifest, rapid.SampledFrom(all).Draw(rt, "to")}
				moved = func(name string) string {
					if name == from.name {
						return to.name
					}
					return name
				}
				if from != to && made[from] && !made[to] {
					made[to] = true
					delete(made, from)
				}
			case "take":
				other := of{rapid.SampledFrom(manifests).Draw(rt, "of"), rapid.SampledFrom(all).Draw(rt, "theirs")}
				mine := of{manifest, rapid.SampledFrom(all).Draw(rt, "mine")}
				if other.manifest == manifest || !made[other] || made[mine] {
					break
				}
				e := finds(mine.name, thing(other.name))
				e.Took = &report.Owned{Undeclared: report.Undeclared{Name: other.name}, By: report.OwnedBy{Files: []string{other.manifest}, Workspace: m.dir}}
				if rapid.Bool().Draw(rt, "is to be changed") {
					e.Kind, e.Action = report.ActionStarted, "update"
				}
				events = append(events, e)
				made[mine] = true
				delete(made, other)
			case "forget":
				name := rapid.SampledFrom(all).Draw(rt, "name")
				f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", m.n), name, nil, nil)
				require.NoError(rt, err, name)
				require.Equal(rt, made[of{manifests[0], name}] || made[of{manifests[1], name}], f.Made != "", name)
				delete(made, of{manifests[0], name})
				delete(made, of{manifests[1], name})
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
		require.NoError(t, err)
		assert.NotContains(t, string(e.Data), "open-sesame")
	}
	asked := []string{"page[a@b]", "page[s]", "plain", "page[c]", "page[d]"}
	h, err := runs.ReadPlace(t.Context(), m.log, "host@1:task", asked)
	require.NoError(t, err)
	require.Equal(t, "page[a@b] page[s]", names(must.Get(h.All(t.Context()))(t)))
	for name, path := range map[string]string{"page[a@b]": "one", "page[s]": "open-sesame"} {
		got := must.Get(h.Thing(t.Context(), runs.Owner{}, name))(t)
		made := must.Get(got.Open(m.store))(t)
		assert.True(t, made.Config["path"] == path, "%s: %+v", name, made)
	}
	needed, err := runs.Documents(t.Context(), m.log)
	require.NoError(t, err)
	assert.Len(t, needed, 1)
	assert.Equal(t, "page[d]", named(must.Get(m.history(t).Undeclared(t.Context(), m.owner("a.yaml"), none))(t)), "of the manifest")
	m.run(t, "a.yaml", nil, "host@1:task", report.Event{Kind: report.ResourceDestroyed, Resource: "page[s]", Status: report.Absent})
	h, err = runs.ReadPlace(t.Context(), m.log, "host@1:task", asked)
	require.NoError(t, err)
	assert.Equal(t, "page[a@b]", names(must.Get(h.All(t.Context()))(t)))
}

func TestWhatIsForgottenInAPlaceIsNobodys(t *testing.T) {
	m := newMaker(t)
	secret, one := thing("open-sesame"), thing("one")
	secret.OneOfMany, one.OneOfMany, secret.Secrets = true, true, [][]string{{"path"}}
	const place = "host@1:task"
	asked := []string{"page[one]", "page[s]"}
	know := func(want string) {
		assert.Equal(t, want, names(must.Get(must.Get(runs.ReadPlace(t.Context(), m.log, place, asked))(t).All(t.Context()))(t)))
		assert.Equal(t, want, strings.Join(must.Get(runs.Made(t.Context(), m.log, place, asked, 0))(t), " "))
	}
	m.run(t, "a.yaml", nil, place, makes("page[one]", one), makes("page[s]", secret))
	know("page[one] page[s]")
	for i, left := range []string{"page[s]", ""} {
		f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", i), asked[i]+"@"+place, nil, nil)
		require.NoError(t, err)
		require.NotEmpty(t, f.Made)
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
		n++
		f, err := runs.Memory{Log: m.log, Protected: m.store}.Forget(t.Context(), fmt.Sprintf("FORGET%d", n), "db@"+place, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, want, f.Made)
		made, err := runs.Made(t.Context(), m.log, place, []string{"db"}, 0)
		assert.False(t, want != "" && (err != nil || len(made) > 0), "still made are %v, %v", made, err)
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

// What is known of a resource is what a look through the whole log comes to, whenever it is asked for.
func TestThePastIsWhatTheLogSaysOfIt(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		log := &counted{Log: logtest.NewMemory().Open()}
		past := runs.PastOf(runs.Options{Log: log, Pasts: runs.NewPasts(log)})
		var events []deploylog.Event
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			e := deploylog.Event{Deployment: fmt.Sprint("run", i), Attempt: 1, Target: deploylog.Target("action/" + name + "/set")}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				e.Name = e.Target.Started()
			case 1:
				e.Name = e.Target.Succeeded()
			case 2:
				e.Name, e.Data = e.Target.Failed(), []byte(`{"abandoned":true}`)
			case 3:
				e.Name = e.Target.Failed()
			case 4:
				e.Target = deploylog.Target("resource/" + name)
				e.Name = e.Target.Succeeded()
			case 5:
				e.Target, e.Name = deploylog.Target("resource/"+name), runs.EventResourceMoved
				e.Data = []byte(`{"from":"` + rapid.SampledFrom(names).Draw(t, "from") + `"}`)
			}
			appended := must.Get(log.Append(t.Context(), e))(t)
			events = append(events, appended...)
			if !rapid.Bool().Draw(t, "asked") {
				continue
			}
			for _, name := range names {
				got, err := past(t.Context(), name, false)
				if want := interrupted(events, name); err != nil || got.Interrupted != want {
					t.Errorf("%s is interrupted: %t (%v), want %t", name, got.Interrupted, err, want)
				}
			}
		}
		assert.LessOrEqual(t, log.read, len(events))
	})
}

// interrupted is what the events say, the last first, where no run is at work.
func interrupted(events []deploylog.Event, name string) bool {
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; e.Target {
		case deploylog.Target("action/" + name + "/set"):
			return e.Name == e.Target.Started() || e.Name == e.Target.Failed() && runs.DataOf(e).Abandoned
		case deploylog.Target("resource/" + name):
			if e.Name == e.Target.Succeeded() {
				return false
			}
			return interrupted(events[:i], runs.DataOf(e).From)
		}
	}
	return false
}

type counted struct {
	deploylog.Log
	read int
}

func (c *counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range c.Log.Read(ctx, f) {
			c.read++
			if !yield(e, err) {
				return
			}
		}
	}
}

// The value of a secret output is in a protected document, for who asks for it by its name. What
// an apply of some resources does not evaluate stays what it was.
func TestSecretOutputs(t *testing.T) {
	log, store := newMaker(t).log, protected.New(t.TempDir())
	document := func(values map[string]any) *protected.Ref { ref := must.Get(store.Put(values))(t); return &ref }
	end := func(run, text string, secret *protected.Ref) {
		var d runs.Data
		require.NoError(t, json.Unmarshal([]byte(text), &d))
		d.Secret = secret
		data, err := json.Marshal(d)
		for _, name := range []string{"run-started", "run-finished-successfully"} {
			if err == nil {
				_, err = log.Append(t.Context(), deploylog.Event{Deployment: run, Target: "run/m", Name: name, Attempt: 1, Data: data})
			}
		}
		require.NoError(t, err)
	}
	first := document(map[string]any{"a": "geheim", "n": json.Number("12345678901234567890")})
	second := document(map[string]any{"a": "neu"})
	end("1", `{"outputs":{"a":{"value":null,"secret":true},"n":{"value":null,"secret":true},"open":{"value":1}}}`, first)
	end("2", `{"outputs":{"a":{"value":null,"secret":true}},"outputs_unknown":["n"]}`, second)
	end("3", `{"outputs":{"old":{"value":null,"secret":true}},"outputs_unknown":["n","a"]}`, nil)
	all, err := runs.ReadOutputs(t.Context(), log, "run/")
	require.NoError(t, err)
	told, applied := all.Of("run/m")
	m := runs.Memory{Log: log, Protected: store}
	for name, want := range map[string]any{"a": "neu", "n": json.Number("12345678901234567890")} {
		got := must.Get(m.Output(name, told[name]))(t)
		assert.True(t, got == want, "%s is %v, want %v", name, got, want)
	}
	for name, problem := range map[string]string{"old": "did not keep its value: apply again", "a": "whose value is kept where the log is"} {
		if name == "a" {
			m.Protected = nil
		}
		_, err = m.Output(name, told[name])
		assert.ErrorContains(t, err, problem, name)
	}
	needed, err := runs.Documents(t.Context(), log)
	assert.True(t, err == nil && applied && needed[first.Name] && needed[second.Name], "needed are %v, %v", needed, err)
	end("4", `{"details":{"command":"destroy"}}`, nil)
	needed, err = runs.Documents(t.Context(), log)
	assert.True(t, err == nil && len(needed) == 0, "needed after a destroy are %v, %v", needed, err)
}

// A destroy that fails, or is killed, has removed what the log says, and the outputs that read it are gone.
func TestOutputsOfADestroyThatDidNotEnd(t *testing.T) {
	const told = `{"outputs":{"foo":{"value":1},"bar":{"value":2},"each":{"value":3},"fixed":{"value":4},"was":{"value":5}}}`
	const begins = `{"details":{"command":"destroy"},"outputs_read":{"foo":["foo"],"bar":["bar"],"each":["one[a]"],"fixed":null}}`
	type event struct {
		run, name string
		target    deploylog.Target
		data      string
	}
	apply := func(run, data string) []event {
		return []event{{run, "run-started", "run/m", `{"details":{"command":"apply"}}`}, {run, "run-finished-successfully", "run/m", data}}
	}
	for name, c := range map[string]struct {
		events []event
		want   []string
	}{
		"nothing was removed":    {[]event{{"2", "resource-started", "resource/foo", `{}`}}, []string{"bar", "each", "fixed", "foo", "was"}},
		"one was removed":        {[]event{{"2", "resource-destroyed", "resource/foo", `{}`}}, []string{"bar", "each", "fixed"}},
		"an instance was":        {[]event{{"2", "resource-destroyed", "resource/one[a]", `{}`}}, []string{"bar", "fixed", "foo"}},
		"one was gone":           {[]event{{"2", "resource-finished-successfully", "resource/bar", `{"status":"ABSENT"}`}}, []string{"each", "fixed", "foo"}},
		"and then it failed":     {[]event{{"2", "resource-destroyed", "resource/foo", `{}`}, {"2", "run-failed", "run/m", `{}`}}, []string{"bar", "each", "fixed"}},
		"all is applied again":   {append([]event{{"2", "resource-destroyed", "resource/foo", `{}`}}, apply("3", told)...), []string{"bar", "each", "fixed", "foo", "was"}},
		"another one is applied": {append([]event{{"2", "resource-destroyed", "resource/foo", `{}`}}, apply("3", `{"outputs":{"bar":{"value":2}},"outputs_unknown":["foo","each"]}`)...), []string{"bar", "each"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newMaker(t).log
			for _, e := range append(append(apply("1", told), event{"2", "run-started", "run/m", begins}), c.events...) {
				must.Get(log.Append(t.Context(), deploylog.Event{Deployment: e.run, Target: e.target, Name: e.name, Attempt: 1, Data: []byte(e.data)}))(t)
			}
			all := must.Get(runs.ReadOutputs(t.Context(), log, "run/m"))(t)
			left, _ := all.Of("run/m")
			assert.Equal(t, c.want, slices.Sorted(maps.Keys(left)))
		})
	}
}

func keeping(resource string, attempt int, keep map[string]any, protect bool) report.Event {
	return report.Event{Kind: report.ResourceKept, Resource: resource, Attempt: attempt, Keep: keep, Protect: protect}
}

// What is kept of resources is what was recorded last of each, whoever recorded it, and of
// what is protected nothing is in the log, nor any document that nothing refers to.
func TestTheMemoryOfTheLogIsThatOfANaiveOne(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), protected.DirName)
	docs, round := protected.New(dir), 0
	rapid.Check(t, func(rt *rapid.T) {
		naive := map[string]map[string]any{}
		protects := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "runs") {
			round++
			place := rapid.SampledFrom([]string{"", "h1"}).Draw(rt, "place")
			run := fmt.Sprintf("r%d", round)
			held := s.begin(run, func(o *runs.Options) { o.Place, o.Protected = place, docs })
			attempts := map[string]int{}
			for range rapid.IntRange(0, 4).Draw(rt, "answers") {
				name := rapid.SampledFrom([]string{"a", "b[x]"}).Draw(rt, "resource")
				placed := name
				if place != "" {
					placed += "@" + place
				}
				var keep map[string]any
				if rapid.Bool().Draw(rt, "something") {
					keep = map[string]any{"id": json.Number(fmt.Sprint(rapid.Int64().Draw(rt, "id"))), "s": "s3cr3t"}
				}
				attempts[name]++
				protect := rapid.Bool().Draw(rt, "secret")
				require.NoError(rt, held.Record(t.Context(), keeping(name, attempts[name], keep, protect)))
				naive[placed], protects[placed] = keep, (protect || protects[placed]) && keep != nil
			}
			held.End()
			if rapid.IntRange(0, 9).Draw(rt, "forget") == 0 {
				was := must.Get(runs.Memory{Log: s.log, Protected: docs}.Forget(t.Context(), run+"-forget", "a", nil, nil))(rt)
				require.Equal(rt, len(naive["a"]) > 0, was.Kept)
				naive["a"], protects["a"] = nil, false
			}
			for placed, want := range naive {
				name, at, _ := strings.Cut(placed, "@")
				past, err := runs.Memory{Log: s.log, Protected: docs, Place: at}.Past(t.Context(), name, true)
				if err != nil || len(past.Kept) != len(want) || len(want) > 0 && !reflect.DeepEqual(past.Kept, want) || past.Interrupted {
					rt.Fatalf("%s: %v, %v, want %v", placed, past, err, want)
				}
			}
			documents := 0
			for _, is := range protects {
				if is {
					documents++
				}
			}
			if files, err := os.ReadDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) || len(files) != documents {
				rt.Fatalf("%d documents, want %d", len(files), documents)
			}
		}
		for name := range naive { // of the next case nothing is known
			_, err := (runs.Memory{Log: s.log, Protected: docs}).Forget(t.Context(), fmt.Sprintf("clear-%d-%s", round, name), name, nil, nil)
			require.NoError(rt, err)
		}
	})
}

// keepingSecret is a site on which a run has kept something secret of "db", and then more, of
// which the type does not say so.
func keepingSecret(t *testing.T) (*site, *protected.Store) {
	s := newSite(t)
	docs := protected.New(t.TempDir())
	run, err := runs.Begin(t.Context(), runs.Options{Log: s.log, Engine: s.engine, ID: "r", Target: "run/web.yaml", Protected: docs, Notice: func(string) {}})
	require.NoError(t, err)
	t.Cleanup(run.End)
	marked := keeping("db", 2, map[string]any{"key": "s3cr3t", "more": 1}, false)
	marked.Secrets = [][]string{{"key"}}
	s.record(run, keeping("db", 1, map[string]any{"key": "s3cr3t"}, true), marked)
	return s, docs
}

func TestNothingThatIsProtectedIsInTheLog(t *testing.T) {
	s, docs := keepingSecret(t)
	for e, err := range s.log.Read(t.Context(), deploylog.Filter{}) {
		assert.True(t, err == nil && !strings.Contains(string(e.Data), "s3cr3t") &&
			strings.Contains(string(e.Data), `"protected":{"name":`), "%s, %v", e.Data, err)
	}
	memory := runs.Memory{Log: s.log, Protected: docs}
	kept := must.Get(memory.Recorded(t.Context(), "db", ""))(t).Kept
	require.False(t, kept.None())
	past, err := memory.Past(t.Context(), "db", true)
	assert.True(t, err == nil && reflect.DeepEqual(past.Secrets, [][]string{{"key"}}), "what is secret in it is %q, %v", past.Secrets, err)
	must.Get(memory.Forget(t.Context(), "f", "db", nil, nil))(t)
	again, err := memory.Forget(t.Context(), "g", "db", nil, nil)
	assert.True(t, !again.Kept && err == nil, "nothing was forgotten: %v, %v", again, err)
	assert.Error(t, docs.Get(*kept.Protected, new(any)), "the document is there still")
}

func TestADocumentThatIsGoneIsSaidWithARemedy(t *testing.T) {
	s, _ := keepingSecret(t)
	memory := runs.Memory{Log: s.log, Protected: protected.New(t.TempDir())}
	if _, err := memory.Past(t.Context(), "db", true); err == nil || !strings.Contains(err.Error(), "restore it from a backup, with the log") || !strings.Contains(err.Error(), "deployster state forget db") {
		t.Errorf("got %v", err)
	}
	past := must.Get(memory.Past(t.Context(), "db", false))(t)
	assert.True(t, past.Kept == nil, "a type that keeps nothing needs it: %v", past)
}

func TestNothingIsForgottenWhileSomebodyWorksOnIt(t *testing.T) {
	s := newSite(t)
	run := s.begin("r")
	defer run.End()
	leave := must.Get(run.Enter(t.Context(), "db", func(string) {}))(t)
	defer leave()
	assert.ErrorIs(t, must.Fail((runs.Memory{Log: s.log}).Forget(t.Context(), "f", "db", nil, nil)), deploylog.ErrLocked)
}

func TestAnActionOfWhichTheEndIsNotKnownInterrupted(t *testing.T) {
	begun := report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create"}
	exit := 1
	for name, tc := range map[string]struct {
		events []report.Event // of a run that died
		after  []report.Event // of the next one
		want   bool
	}{
		"nothing was done":    {nil, nil, false},
		"its process died":    {[]report.Event{begun}, nil, true},
		"it ended well":       {[]report.Event{begun, {Kind: report.ActionFinished, Resource: "db", Action: "create"}}, nil, false},
		"it failed":           {[]report.Event{begun, {Kind: report.ActionFailed, Resource: "db", Action: "create", Exit: &exit}}, nil, false},
		"another was begun":   {[]report.Event{begun}, []report.Event{{Kind: report.ActionStarted, Resource: "db", Action: "mend"}, {Kind: report.ActionFinished, Resource: "db", Action: "mend"}}, false},
		"it was found well":   {[]report.Event{begun}, []report.Event{{Kind: report.ResourceStarted, Resource: "db"}, {Kind: report.ResourceFinished, Resource: "db"}}, false},
		"it was found broken": {[]report.Event{begun}, []report.Event{{Kind: report.ResourceStarted, Resource: "db"}, {Kind: report.ResourceFailed, Resource: "db"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			memory := runs.Memory{Log: s.log}
			ask := func() bool {
				past := must.Get(memory.Past(t.Context(), "db", true))(t)
				return past.Interrupted
			}
			run := s.begin("dead")
			s.record(run, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceStarted, Resource: "db"})
			s.record(run, tc.events...)
			assert.True(t, len(tc.events) != 1 || !ask(), "an action that goes on counts as interrupted")
			run.End()
			if len(tc.after) == 0 && ask() != tc.want {
				t.Errorf("before its run is closed: %v", !tc.want)
			}
			next := s.begin("next")
			defer next.End()
			s.record(next, tc.after...)
			assert.Equal(t, tc.want, ask())
		})
	}
}
