package managed_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// world is a workspace, and a log of runs in it.
type world struct {
	*testing.T
	log deploylog.Log
	dir string
	n   int
}

func newWorld(t *testing.T) *world {
	return &world{T: t, log: reconciletest.InMemory(t)(), dir: t.TempDir()}
}

func (w *world) write(file, text string) {
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o600))
}

func (w *world) here() runs.Owner { return runs.Owner{Workspace: w.dir, Machine: "m1"} }

// run is a run of a manifest that has an event for each resource.
func (w *world) run(of runs.Owner, events ...report.Event) string {
	return w.begin(of, runs.Options{Workspace: w.dir, Machine: "m1"}, nil, events...)
}

// begin is a run as some options describe it, which declares some resources.
func (w *world) begin(of runs.Owner, o runs.Options, declares []string, events ...report.Event) string {
	w.n++
	id := fmt.Sprintf("RUN%d", w.n)
	o.Log, o.Engine, o.ID, o.Target, o.Revision = w.log, &enginetest.Fake{}, id, runs.RunTarget("", of.Manifest), "rev"
	o.OrphanTimeout, o.Notice, o.ManifestName, o.Manifest = time.Minute, func(string) {}, of.Name, of.Manifest
	r := must.Get(runs.Begin(w.Context(), o))(w.T)
	defer r.End()
	started := report.Event{Kind: report.RunStarted}
	for _, name := range declares {
		started.Resources = append(started.Resources, report.ResourceHeader{Name: name, Type: "file"})
	}
	for _, e := range append([]report.Event{started}, append(events, report.Event{Kind: report.RunFinished})...) {
		require.NoError(w, r.Record(w.Context(), e))
	}
	return id
}

func makes(resource, key string, dependsOn ...string) report.Event {
	return report.Event{Kind: report.ActionStarted, Resource: resource, Action: "create"}.With(&report.Made{
		Type: "file", Config: map[string]any{"path": key}, DependsOn: dependsOn, Identity: report.Identity{Key: key, Parts: map[string]string{"path": key, "engine": "this machine"}},
	})
}

func ends(resource string, status report.Status) report.Event {
	kind := report.ResourceFinished
	if status == report.Failed {
		kind = report.ResourceFailed
	}
	return report.Event{Kind: kind, Resource: resource, Status: status}
}

func (w *world) list(q managed.Question) (lines []string) {
	q.Here = w.here()
	for _, t := range must.Get(managed.List(w.Context(), w.log, q))(w.T) {
		r := t.Row()
		line := fmt.Sprintf("%s %s %s: %s", r.Manifest, r.Resource, r.Identity, r.Text())
		if r.Verdict != "" {
			line += fmt.Sprintf(", %s by %s", r.Verdict.Text(), r.VerdictBy)
		}
		lines = append(lines, line)
	}
	return lines
}

func of(file string) runs.Owner { return runs.Owner{Manifest: []string{file}} }

const web = "resources: {db: {type: file}, page: {type: file}}"

func TestWhatRunsMadeIsListedByManifest(t *testing.T) {
	w := newWorld(t)
	w.write("web.yaml", web)
	w.write("api.yaml", "name: api\nresources: {db: {type: file}}")
	w.run(of("web.yaml"), makes("db", "/db"), ends("db", report.Changed), makes("page", "/page", "db"), ends("page", report.Failed))
	w.run(runs.Owner{Name: "api", Manifest: []string{"api.yaml"}}, makes("db", "/api"), ends("db", report.Changed))
	w.run(of("web.yaml"), ends("db", report.Unchanged))
	assert.Equal(t, []string{
		"api db path /api: yes, changed by RUN2",
		"web.yaml db path /db: yes, as configured by RUN3",
		"web.yaml page path /page: yes, failed by RUN1",
	}, w.list(managed.Question{}), "each has the verdict of its own manifest")
	assert.Equal(t, []string{"api db path /api: yes, changed by RUN2"}, w.list(managed.Question{Manifest: "api"}))
	assert.Len(t, w.list(managed.Question{Manifest: "web.yaml"}), 2)
	assert.Empty(t, w.list(managed.Question{Orphans: true}))

	w.write("web.yaml", "resources: {db: {type: file}}")
	assert.Equal(t, []string{"web.yaml page path /page: no, failed by RUN1"}, w.list(managed.Question{Orphans: true}))
}

// Of a manifest that was sent to a server there is no file here: its newest run of all of it says what it declares.
func TestASentManifestDeclaresWhatItsNewestRunDid(t *testing.T) {
	type run struct {
		whole    bool
		at       string // the workspace; "" is that of the first
		declares []string
	}
	all, page := []string{"db", "page"}, []string{"page"}
	for name, tc := range map[string]struct {
		since []run // after one that made db and page
		want  []string
	}{
		"nothing since":                  {nil, nil},
		"one without db":                 {[]run{{true, "", page}}, []string{"db"}},
		"one of page alone":              {[]run{{false, "", page}}, nil},
		"one without any, and of a part": {[]run{{true, "", nil}, {false, "", page}}, []string{"db"}},
		"db was declared again":          {[]run{{true, "", page}, {true, "", all}}, nil},
		"elsewhere without db":           {[]run{{true, "/elsewhere", page}}, nil},
		"elsewhere with db":              {[]run{{true, "", page}, {true, "/elsewhere", all}}, nil},
		"by former versions":             {[]run{{false, "", page}, {false, "", page}}, nil},
		"many of page alone":             {slices.Repeat([]run{{false, "", page}}, 25), nil},
		"many elsewhere without db":      {slices.Repeat([]run{{true, "/elsewhere", page}}, 25), nil},
		"none without db, and many":      {append([]run{{true, "", page}}, slices.Repeat([]run{{false, "", page}}, 25)...), []string{"db"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i, r := range append([]run{{true, "", all}}, tc.since...) {
				o := runs.Options{Workspace: w.dir, Machine: "m1", Whole: r.whole, Carries: map[string]string{"web.yaml": "0"}}
				if r.at != "" {
					o.Workspace = r.at
				}
				var made []report.Event
				if i == 0 {
					made = []report.Event{makes("db", "/db"), makes("page", "/page")}
				}
				w.begin(of("web.yaml"), o, r.declares, made...)
			}
			var orphans []string
			for _, one := range must.Get(managed.List(t.Context(), w.log, managed.Question{Here: w.here(), Orphans: true}))(t) {
				orphans = append(orphans, one.Name)
			}
			assert.Equal(t, tc.want, orphans)
		})
	}
}

// An instance whose key a for_each no longer has is not declared.
func TestAnInstanceThatIsDropped(t *testing.T) {
	late := func(names ...string) report.Event {
		e := report.Event{Kind: report.ResourceExpanded, Resource: "w", Attempt: 1}
		for _, name := range names {
			e.Resources = append(e.Resources, report.ResourceHeader{Name: name, Type: "file"})
		}
		return e
	}
	type run struct {
		whole    bool
		declares []string
		expands  []report.Event
	}
	ab := []report.Event{makes("w[a]", "/a"), makes("w[b]", "/b")}
	for name, tc := range map[string]struct {
		file string
		runs []run // the first makes both
		want []string
	}{
		"a list that has it":                   {"for_each: [a, b]", nil, nil},
		"a list without it":                    {"for_each: [a, 7]", nil, []string{"w[b]"}},
		"a mapping without it":                 {"for_each: {a: 1}, when: '{{ each.value }}'", nil, []string{"w[b]"}},
		"no for_each any more":                 {"config: {}", []run{{true, []string{"w[a]", "w[b]"}, nil}, {true, []string{"w"}, nil}}, []string{"w[a]", "w[b]"}},
		"variables, of which nothing is known": {"for_each: '{{ all }}'", []run{{false, []string{"w[a]", "w[b]"}, nil}}, nil},
		"variables":                            {"for_each: '{{ all }}'", []run{{true, []string{"w[a]", "w[b]"}, nil}, {true, []string{"w[a]"}, nil}}, []string{"w[b]"}},
		"variables, and a part of it":          {"for_each: '{{ all }}'", []run{{true, []string{"w[a]", "w[b]"}, nil}, {false, []string{"w[a]"}, nil}}, nil},
		"states":                               {"for_each: '{{ d.state.all }}'", []run{{true, []string{"w"}, []report.Event{late("w[a]", "w[b]")}}, {true, []string{"w"}, []report.Event{late("w[a]")}}}, []string{"w[b]"}},
		"states, and a part of it":             {"for_each: '{{ d.state.all }}'", []run{{true, []string{"w"}, []report.Event{late("w[a]", "w[b]")}}, {false, []string{"w"}, []report.Event{late("w[a]")}}}, nil},
		"states that come to nothing":          {"for_each: '{{ d.state.all }}'", []run{{true, []string{"w"}, []report.Event{late("w[a]", "w[b]")}}, {true, []string{"w"}, []report.Event{late()}}}, []string{"w[a]", "w[b]"}},
		"what a list with expressions has":     {"for_each: ['{{ one }}', b]", []run{{true, []string{"w[a]", "w[b]"}, nil}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if len(tc.runs) == 0 {
				tc.runs = []run{{true, []string{"w[a]", "w[b]"}, nil}}
			}
			for i, r := range tc.runs {
				events := r.expands
				if i == 0 {
					events = append(events, ab...)
				}
				w.begin(of("web.yaml"), runs.Options{Workspace: w.dir, Machine: "m1", Whole: r.whole}, r.declares, events...)
			}
			w.write("web.yaml", "resources: {w: {type: file, "+tc.file+"}}")
			var orphans []string
			for _, one := range must.Get(managed.List(t.Context(), w.log, managed.Question{Here: w.here(), Orphans: true}))(t) {
				orphans = append(orphans, one.Name)
			}
			assert.Equal(t, tc.want, orphans)
		})
	}
}

func TestAManifestThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string // beside it, in place of it
		owner runs.Owner
		want  []string // of db
	}{
		"nothing":                    {nil, of("old.yaml"), []string{"old.yaml db path /db: no: manifest gone"}},
		"it may be renamed":          {map[string]string{"new.yaml": web}, of("old.yaml"), []string{"old.yaml db path /db: no: manifest gone, perhaps new.yaml"}},
		"of another type":            {map[string]string{"new.yaml": "resources: {db: {type: container}}"}, of("old.yaml"), []string{"old.yaml db path /db: no: manifest gone"}},
		"that one was applied":       {map[string]string{"other.yaml": web}, of("old.yaml"), []string{"old.yaml db path /db: no: manifest gone"}},
		"it says that it is renamed": {map[string]string{"new.yaml": "name: shop\n" + web}, runs.Owner{Name: "shop", Manifest: []string{"old.yaml"}}, []string{"shop db path /db: yes"}},
		"another name":               {map[string]string{"new.yaml": "name: other\n" + web}, runs.Owner{Name: "shop", Manifest: []string{"old.yaml"}}, []string{"shop db path /db: no: manifest gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(tc.owner, makes("db", "/db"))
			w.run(of("other.yaml"))
			for file, text := range tc.files {
				w.write(file, text)
			}
			assert.Equal(t, tc.want, w.list(managed.Question{}))
		})
	}
}

func TestAResourceThatIsAnotherThingByNow(t *testing.T) {
	w := newWorld(t)
	w.write("web.yaml", web)
	w.run(of("web.yaml"), makes("db", "/old"))
	e := makes("db", "/new")
	e.ID = "db#RUN2"
	w.run(of("web.yaml"), e, ends("db", report.Changed))
	assert.Equal(t, []string{"web.yaml db path /old: no: the old thing of db", "web.yaml db path /new: yes, changed by RUN2"}, w.list(managed.Question{}))
}

func (w *world) orphans(targets ...string) *managed.Orphans {
	return &managed.Orphans{Log: w.log, Question: managed.Question{Here: w.here()}, Engine: "this machine", Targets: targets}
}

func selected(t *testing.T, o *managed.Orphans) (removed []report.Undeclared, names, stays []string) {
	removed, left, err := o.Select(t.Context())
	require.NoError(t, err)
	for _, u := range removed {
		names = append(names, u.Target())
	}
	for _, l := range left {
		stays = append(stays, l.Name+": "+l.Why)
	}
	return removed, names, stays
}

func TestWhichOrphansAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.run(of("a.yaml"), makes("db", "/a"), makes("page", "/page", "db"), makes("other", "/other"))
	w.run(of("b.yaml"), makes("db", "/b"))
	_, names, stays := selected(t, w.orphans())
	assert.Equal(t, []string{"a.yaml#db", "a.yaml#other", "a.yaml#page", "b.yaml#db"}, names)
	assert.Empty(t, stays)
	_, names, _ = selected(t, w.orphans("a.yaml#db"))
	assert.Equal(t, []string{"a.yaml#db", "a.yaml#page"}, names, "what depends on it goes, too")
	_, names, _ = selected(t, w.orphans("db"))
	assert.Equal(t, []string{"a.yaml#db", "a.yaml#page", "b.yaml#db"}, names)
	_, _, err := w.orphans("nothing").Select(t.Context())
	assert.ErrorContains(t, err, "--target nothing: no orphan has this name")
}

func TestWhichOrphansStay(t *testing.T) {
	elsewhere := makes("db", "/db")
	elsewhere.Made().Identity.Parts["engine"] = "tcp://h2"
	for name, tc := range map[string]struct {
		made  report.Event
		files map[string]string
		want  string
	}{
		"made on another engine": {elsewhere, nil, `db: run RUN1 made it on the engine of tcp://h2, and this is that of this machine: run this with that engine, or remove it by hand, then "deployster state forget db --manifest a.yaml"`},
		"perhaps renamed":        {makes("db", "/db"), map[string]string{"b.yaml": web}, `db: b.yaml declares db, of the same type, so it may be a.yaml under another name: apply that, which takes it over; --target a.yaml#db removes it all the same`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(of("a.yaml"), tc.made)
			for file, text := range tc.files {
				w.write(file, text)
			}
			removed, _, stays := selected(t, w.orphans())
			assert.Empty(t, removed)
			assert.Equal(t, []string{tc.want}, stays)
		})
	}
}

// Another resource of its manifest is the same thing by now, and is declared.
func TestAnOrphanThatIsDeclaredUnderAnotherNameStays(t *testing.T) {
	w := newWorld(t)
	w.write("a.yaml", "resources: {new: {type: file}}")
	w.run(of("a.yaml"), makes("old", "/db"))
	w.run(of("a.yaml"), makes("new", "/db"))
	removed, _, stays := selected(t, w.orphans())
	assert.Empty(t, removed)
	assert.Equal(t, []string{`old: a.yaml manages the same thing, as its resource new: "deployster state forget old --manifest a.yaml" has it be of that alone`}, stays)
}

// Of a resource with several things, another one may have any.
func TestAnOrphanOfWhichAnotherHasSomeStays(t *testing.T) {
	w := newWorld(t)
	several := makes("old", "/a")
	several.Made().Identity.Also = []string{"/b"}
	w.write("b.yaml", "resources: {new: {type: file}}")
	w.run(of("a.yaml"), several)
	w.begin(of("b.yaml"), runs.Options{Workspace: w.dir, Machine: "m1"}, nil, makes("new", "/b"))
	removed, _, stays := selected(t, w.orphans())
	assert.Empty(t, removed)
	assert.Equal(t, []string{`old: b.yaml manages the same thing, as its resource new: "deployster state forget old --manifest a.yaml" has it be of that alone`}, stays)
}

// Between the question and the removal others go on.
func TestAnInstanceWhoseKeyIsADateIsDeclared(t *testing.T) {
	w := newWorld(t)
	w.write("web.yaml", "resources: {db: {type: file, for_each: [2024-01-01, 1.50]}, page: {type: file, for_each: [a, 7]}}")
	w.run(of("web.yaml"), makes("db[2024-01-01]", "/db"), makes("db[1.50]", "/e"), makes("page[a]", "/a"), makes("page[7]", "/7"), makes("page[b]", "/b"))
	assert.Equal(t, []string{"web.yaml page[b] path /b: no"}, w.list(managed.Question{Orphans: true}))
}

// A resource with "when" is declared if the newest run of all of its manifest found it to be.
func TestAResourceThatIsDeclaredOnACondition(t *testing.T) {
	w := newWorld(t)
	w.write("web.yaml", "resources: {db: {type: file, when: '{{ on }}'}, page: {type: file}}")
	o := runs.Options{Workspace: w.dir, Machine: "m1", Whole: true}
	w.begin(of("web.yaml"), o, []string{"db", "page"}, makes("db", "/db"), makes("page", "/page"))
	assert.Empty(t, w.list(managed.Question{Orphans: true}))
	w.begin(of("web.yaml"), o, []string{"page"})
	assert.Equal(t, []string{"web.yaml db path /db: no"}, w.list(managed.Question{Orphans: true}))
}

// What was only given another name in a file is not removed as an orphan, whether that was applied or not.
func TestAnOrphanThatMayBeDeclaredUnderAnotherNameStays(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		stays string // "" is that it goes
	}{
		"renamed in its manifest":       {map[string]string{"web.yaml": "resources: {data: {type: file, config: {path: /db}}}"}, `web.yaml declares data, which may be the same under another name: say so there, with moved: [{from: "db", to: "data"}], and apply that; --target web.yaml#db removes it all the same`},
		"by an expression":              {map[string]string{"web.yaml": "resources: {data: {type: file, config: {path: '{{ x }}'}}}"}, `web.yaml declares data`},
		"moved to another one":          {map[string]string{"web.yaml": "resources: {}", "new.yaml": "resources: {db: {type: file, config: {path: /db}}}"}, `new.yaml declares db, which may be the same under another name: say so there, with moved: [{from: "web.yaml#db", to: "db"}]`},
		"another path":                  {map[string]string{"web.yaml": "resources: {data: {type: file, config: {path: /other}}}"}, ""},
		"another type":                  {map[string]string{"web.yaml": "resources: {data: {type: volume, config: {path: /db}}}"}, ""},
		"what runs made as another one": {map[string]string{"web.yaml": "resources: {page: {type: file, config: {path: '{{ x }}'}}}"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("web.yaml", web)
			w.run(of("web.yaml"), makes("db", "/db"), makes("page", "/page"))
			for file, text := range tc.files {
				w.write(file, text)
			}
			_, removed, _ := selected(t, w.orphans("db"))
			assert.Contains(t, removed, "web.yaml#db", "it is named")
			_, removed, stays := selected(t, w.orphans())
			if tc.stays == "" {
				assert.Contains(t, removed, "web.yaml#db")
				return
			}
			assert.NotContains(t, removed, "web.yaml#db")
			assert.Contains(t, stays[0], "db: "+tc.stays)
		})
	}
}

func TestAnOrphanIsLookedAtOnceMoreWhenItHasItsTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*world)
		stays     string
	}{
		"nothing happened":     {func(*world) {}, ""},
		"it is declared again": {func(w *world) { w.write("a.yaml", web) }, "a.yaml declares it again, so it stays"},
		"another manifest has it": {func(w *world) {
			w.write("b.yaml", web)
			w.run(of("b.yaml"), makes("db", "/db"))
		}, "a run changed, took or removed it since it was listed, so it stays"},
		"it was removed": {func(w *world) {
			w.run(of("a.yaml"), report.Event{Kind: report.ResourceDestroyed, Resource: "db", Key: "/db"})
		}, "a run changed, took or removed it since it was listed, so it stays"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(of("a.yaml"), makes("db", "/db"))
			o := w.orphans()
			removed, _, _ := selected(t, o)
			require.Len(t, removed, 1)
			tc.meanwhile(w)
			err := o.Stays(t.Context(), removed[0])
			var why report.Skip
			if errors.As(err, &why) {
				err = nil
			}
			require.NoError(t, err)
			assert.Equal(t, tc.stays, why.Text)
		})
	}
}

// What a run of orphans removes is recorded as that of the manifest that made it.
func TestARunOfOrphansRecordsWhoseItRemoved(t *testing.T) {
	w := newWorld(t)
	w.write("b.yaml", web)
	w.run(of("a.yaml"), makes("db", "/a"))
	w.run(of("b.yaml"), makes("db", "/b"))
	removed, _, _ := selected(t, w.orphans())
	require.Len(t, removed, 1)
	w.run(of("orphans"), report.Event{Kind: report.ResourceDestroyed, Resource: "db", ID: removed[0].ID, Key: removed[0].Identity.Key, Owner: removed[0].Owner})
	assert.Equal(t, []string{"b.yaml db path /b: yes"}, w.list(managed.Question{}))
}
