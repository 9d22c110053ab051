package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/reachable"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/rundirs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// registry is an engine with what it holds, and what it can get, by reference.
type registry struct {
	held, pulled map[string]engine.Image
	asked        []string
}

func (r *registry) Image(_ context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	r.asked = append(r.asked, string(policy)+" "+ref)
	if image, ok := r.held[ref]; ok && policy != engine.PullAlways {
		return image, nil
	}
	if image, ok := r.pulled[ref]; ok && policy != engine.PullNever {
		return image, nil
	}
	return engine.Image{}, fmt.Errorf("image %q: %w", ref, engine.ErrNoImage)
}

func TestAnImageHasTheContentThatItsRevisionCarries(t *testing.T) {
	one, two := engine.Image{ID: "sha256:1", Digest: "sha256:a"}, engine.Image{ID: "sha256:2", Digest: "sha256:b"}
	type images = map[string]engine.Image
	digested, local := revision.Image{Image: "reg:5000/x:1", ID: "sha256:1", Digest: "sha256:a"}, revision.Image{Image: "x:1", ID: "sha256:1"}
	for name, c := range map[string]struct {
		carried      revision.Image
		held, pulled images
		want         string // id, or what the error says
	}{
		"held by its digest":           {digested, images{"reg:5000/x@sha256:a": one, "reg:5000/x:1": two}, nil, "sha256:1"},
		"held by its id":               {digested, images{"sha256:1": one, "reg:5000/x:1": two}, nil, "sha256:1"},
		"of a registry":                {digested, images{"reg:5000/x:1": two}, images{"reg:5000/x@sha256:a": one, "reg:5000/x:1": two}, "sha256:1"},
		"gone from the registry":       {digested, images{"reg:5000/x:1": two}, images{"reg:5000/x:1": two}, "the revision carries sha256:a, which is not to be had: "},
		"local":                        {local, images{"sha256:1": one, "x:1": two}, nil, "sha256:1"},
		"local, on another engine":     {local, images{"x:1": one}, nil, "sha256:1"},
		"local, and another elsewhere": {local, images{"x:1": two}, nil, "on this engine it is sha256:2, and the revision carries sha256:1: load that"},
		"local, and gone":              {local, nil, nil, "the revision carries sha256:1, of no registry, which is not to be had: "},
		"unpinned":                     {revision.Image{Image: "x:1", Unpinned: "why"}, images{"x:1": two}, nil, "sha256:2"},
		"of an older version":          {revision.Image{}, images{"x:1": two}, nil, "sha256:2"},
	} {
		r := &registry{c.held, c.pulled, nil}
		ref := c.carried.Image
		if ref == "" {
			ref = "x:1"
		}
		p := revision.Pinned{Holder: r, Carried: []revision.Image{c.carried}, Carrier: "the revision", Anew: "make a new revision"}
		got, err := p.Image(t.Context(), ref, engine.PullAlways, nil)
		if c.carried.ID == "" { // it is asked for as it is
			got, err = p.Image(t.Context(), ref, engine.PullMissing, nil)
		}
		if err == nil && (got.ID != c.want || got.Ref != ref && c.carried.ID != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want %s (asked for %q)", name, got, err, c.want, r.asked)
		}
	}
	broken := errors.New("the engine is away")
	p := revision.Pinned{Holder: failing{broken}, Carried: []revision.Image{local}}
	_, err := p.Image(t.Context(), "x:1", engine.PullMissing, nil)
	assert.True(t, errors.Is(err, broken) && !strings.Contains(err.Error(), "not to be had"), "of an engine that is away: %v", err)
}

type failing struct{ err error }

func (f failing) Image(context.Context, string, engine.PullPolicy, func(engine.Progress)) (engine.Image, error) {
	return engine.Image{}, f.err
}

func TestAnImageIsNamedWithItsDigest(t *testing.T) {
	for ref, want := range map[string]string{
		"x": "x@d", "x:1": "x@d", "reg:5000/x": "reg:5000/x@d", "reg:5000/x:1": "reg:5000/x@d", "a/b:1@sha256:0": "a/b@d", "x@sha256:0": "x@d",
	} {
		assert.Equal(t, want, revision.At(ref, "d"), ref)
	}
}

// fleet is hosts h0, h1 and so on, of which some answer; of the others, those that hang do not even refuse.
type fleet struct {
	engine.Engine
	names, answer []string
	hang          bool
	held          map[string]engine.Image // nil are x:1 and y:1

	mu    sync.Mutex
	asked []string
}

func (f *fleet) Info(context.Context) (engine.Info, error) { return engine.Info{}, nil }
func (f *fleet) Close() error                              { return nil }

func (f *fleet) dial(ctx context.Context, host inventory.Host) (*Connection, error) {
	f.mu.Lock()
	f.asked = append(f.asked, host.Name)
	f.mu.Unlock()
	if slices.Contains(f.answer, host.Name) {
		held := f.held
		if held == nil {
			held = map[string]engine.Image{"x:1": {ID: "sha256:1"}, "y:1": {ID: "sha256:2"}}
		}
		return &Connection{Engine: f, Images: &registry{held: held}}, nil
	}
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("refused")
}

// pin pins the images of two manifests with two types, each for all hosts.
func (f *fleet) pin(t *testing.T, hosts int) (*Collection, error) {
	list := "hosts:\n"
	for i := range hosts {
		f.names = append(f.names, fmt.Sprintf("h%d", i))
		list += fmt.Sprintf("  - {name: h%d, engine: oci}\n", i)
	}
	c := newCheckout(t, map[string]string{"inventory.yaml": list})
	pool := NewEnginePool(c.pool().hosts, f.dial)
	must.Get(pool.hosts.Inventory())(t)
	var sources []manifest.Source
	for _, name := range []string{"one.yaml", "two.yaml"} {
		sources = append(sources, manifest.Source{Name: name, Data: []byte("resources: {a: {type: 'x:1', config: {}}, b: {type: 'y:1', config: {}}}")})
	}
	collected := must.Get(Collect(c.dir, nil, nil, sources...))(t)
	return collected, collected.PinImages(t.Context(), ImagePinning{Pool: pool, Policy: engine.PullMissing, Places: func(string) (places []Place, _ error) {
		for _, name := range slices.Concat(f.names, f.names[:1]) {
			places = append(places, Place{Host: name})
		}
		return places, nil
	}})
}

func TestImagesAreThoseOfAHostThatAnswersHoweverManyDoNot(t *testing.T) {
	f := &fleet{answer: []string{"h7"}}
	assert.Contains(t, string(must.Get(f.pin(t, 9))(t).Files[revision.ImagesName]), "sha256:2")
	slices.Sort(f.asked)
	assert.Len(t, f.asked, len(slices.Compact(slices.Clone(f.asked))), "hosts were asked again")
	f = &fleet{answer: []string{"h0", "h1"}}
	if _, err := f.pin(t, 3); err != nil || !slices.Equal(f.asked, []string{"h0"}) {
		t.Errorf("where the first host answers %v were asked: %v", f.asked, err)
	}
	f = &fleet{}
	_, err := f.pin(t, 5)
	if says := "no host answers (5 of 5 were asked, for at most 30s): host h0: refused host h1: refused host h2: refused, and 2 more"; err == nil || !strings.Contains(err.Error(), says) || len(f.asked) != 5 {
		t.Errorf("with none of five hosts, of which %v were asked: %v, want %q", f.asked, err, says)
	}
}

func TestHostsThatHangAreAskedForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{hang: true}
		began := time.Now()
		_, err := f.pin(t, 80)
		if says := " of 80 were asked, for at most 30s)"; err == nil || !strings.Contains(err.Error(), says) || len(f.asked) < 30 {
			t.Errorf("with 80 hosts that hang, of which %d were asked: %v, want %q", len(f.asked), err, says)
		}
		assert.Equal(t, reachable.Timeout, time.Since(began))
	})
}

// An inventory is known by its name wherever its file lies, and without one by its path.
func TestTheIdentityOfAnInventory(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	path := filepath.Join(dir, "a", "inventory.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	want := func(h *Hosts, identity string) { t.Helper(); assert.Equal(t, identity, h.Identity()) }
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	h := NewHosts(path)
	want(h, "")
	write("") // an empty file is no inventory
	want(h, "")
	write("hosts: []")
	want(h, path)

	// Through a link it is the same, and a moved checkout has another.
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Dir(path), link))
	want(NewHosts(filepath.Join(link, "inventory.yaml")), path)
	t.Chdir(filepath.Dir(path))
	want(NewHosts("inventory.yaml"), path)
	require.NoError(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "b")))
	want(NewHosts(filepath.Join(dir, "b", "inventory.yaml")), filepath.Join(dir, "b", "inventory.yaml"))
	require.NoError(t, os.Rename(filepath.Join(dir, "b"), filepath.Dir(path)))

	// The name counts wherever it is; one that is broken stays what it was.
	write("{name: fleet, hosts: []}")
	want(h, "fleet")
	want(NewHosts(filepath.Join(link, "inventory.yaml")), "fleet")
	write("{name: fleet, hosts: [")
	want(h, "fleet")
	write("")
	want(h, "fleet")
	write("# no name any more\nhosts: []")
	want(h, path)
}

func TestOldRevisionsOfAnEnvironmentAreNotKept(t *testing.T) {
	dir := t.TempDir()
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(dir, "deployments.db"), sqlite.Options{}))(t)
	defer log.Close()
	now := time.Now()
	var k rundirs.Kept
	var want []string
	const revisions = 3 * gc.KeptRuns
	for revision := 1; revision <= revisions; revision++ {
		for _, task := range []tasks.Task{
			{Environment: "eu/prod", Host: "web-1"}, {Environment: "eu/prod", Host: "web-2"}, {Environment: "eu/test", Host: "web-1"},
		} {
			task.Revision = revision
			at := now.Add(time.Duration(revision-1000) * 24 * time.Hour)
			run := ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()
			target := deploylog.Target(invoke.Placed("run/web.yaml", placeOf(task)))
			begun := deploylog.Event{Deployment: run, Target: target, Name: "run-started", Attempt: 1, Data: []byte(`{}`)}
			ended := begun
			ended.Name = "run-finished-successfully"
			must.Get(log.Append(t.Context(), begun, ended))(t)
			work := filepath.Join(dir, "work", run)
			require.NoError(t, errors.Join(os.MkdirAll(work, 0o700), os.Chtimes(work, at, at)))
			if revision > revisions-gc.KeptRuns {
				want = append(want, run)
			}
			k.Add(placeOf(task), filepath.Join(dir, "elsewhere", run))
		}
	}
	assert.Equal(t, 3, k.Places(), "a process remembers")
	c := gc.Collector{Log: log, Dir: dir, Now: now, Before: now.Add(-gc.DefaultAge)}
	assert.Equal(t, 3*(revisions-gc.KeptRuns), must.Get(c.Collect(t.Context()))(t)[0].Count)
	entries := must.Get(os.ReadDir(filepath.Join(dir, "work")))(t)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(want)
	assert.Equal(t, want, left)
}

// identities of tasks in a workspace with two hosts.
func (c checkout) identities() Identities {
	c.write("inventory.yaml", "hosts:\n  - {name: a, engine: oci, attributes: {zone: east}}\n  - {name: b, engine: oci, attributes: {zone: west}}\n  - {name: far, engine: docker, endpoint: 'ssh://far'}\n")
	hosts := NewHosts(filepath.Join(c.dir, "inventory.yaml"))
	must.Get(hosts.Inventory())(c)
	return Identities{
		Inputs: Inputs{Workspace: c.dir, Version: "test", Now: time.Now, Hide: func(any) {}}, Hosts: hosts,
		Texts: NewTexts(filepath.Join(c.dir, ".deployster", "objects"), c.dir, nil),
	}
}

type definedTask struct{ text, environment, host, vars string }

func TestWhichTasksMakeOneThing(t *testing.T) {
	const (
		plug    = "plugs: {root: {path: '/srv'}, docker: {path: /var/run/docker.sock}}\n"
		web     = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web}}}"
		copied  = "# another text\n" + plug + "resources: {other: {type: deployster/container, config: {image: j, name: web}}}"
		named   = plug + "resources: {web: {type: deployster/container, config: {image: j}}}"
		task    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: '{{ task }}'}}}"
		zone    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: 'web-{{ host_attributes.zone }}'}}}"
		east    = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web-east}}}"
		volume  = plug + "resources: {c: {type: deployster/volume, config: {name: web}}}"
		file    = plug + "resources: {f: {type: deployster/file, config: {path: a/../conf, content: x}}}"
		other   = "plugs: {root: {path: '/opt'}}\nresources: {f: {type: deployster/file, config: {path: conf, content: x}}}"
		same    = "plugs: {root: {path: '/srv/'}}\nresources: {f: {type: deployster/file, config: {path: conf, content: y}}}"
		higher  = "plugs: {root: {path: /}}\nresources: {f: {type: deployster/file, config: {path: srv/conf, content: y}}}"
		only    = plug + "resources: {f: {type: deployster/file, readonly: true, config: {path: conf, content: y}}}"
		secret  = plug + "resources: {c: {type: deployster/container, config: {image: i, name: web, secret_env: {P: '{{ password }}'}}}}"
		foreign = "resources: {x: {type: acme/vm:1, config: {name: '{{ environment }}'}}}"
		foreig2 = "resources: {x: {type: acme/vm:1, config: {name: '{{ task }}'}}}"
		broken  = "resources: {x: {type: acme/vm:1, config: {name: '{{ '}}}"
	)
	for name, test := range map[string]struct {
		a, b definedTask
		want bool
	}{
		"copies of a manifest":              {definedTask{web, "one", "a", ""}, definedTask{copied, "two", "a", ""}, true},
		"a name that is the resource's":     {definedTask{web, "one", "a", ""}, definedTask{named, "two", "a", ""}, true},
		"names of their tasks":              {definedTask{task, "one", "a", ""}, definedTask{task, "two", "a", ""}, false},
		"other variables":                   {definedTask{web, "one", "a", "1"}, definedTask{web, "two", "a", "2"}, true},
		"an attribute":                      {definedTask{zone, "one", "a", ""}, definedTask{east, "two", "a", ""}, true},
		"another attribute":                 {definedTask{zone, "one", "b", ""}, definedTask{east, "two", "b", ""}, false},
		"another kind":                      {definedTask{web, "one", "a", ""}, definedTask{volume, "two", "a", ""}, false},
		"a path":                            {definedTask{file, "one", "a", ""}, definedTask{same, "two", "a", ""}, true},
		"a path below another plug":         {definedTask{file, "one", "a", ""}, definedTask{other, "two", "a", ""}, false},
		"a path below a plug higher up":     {definedTask{file, "one", "a", ""}, definedTask{higher, "two", "a", ""}, true},
		"one that only observes":            {definedTask{file, "one", "a", ""}, definedTask{only, "two", "a", ""}, false},
		"a variable that is not known here": {definedTask{web, "one", "a", ""}, definedTask{secret, "two", "a", ""}, true},
		"a foreign type":                    {definedTask{foreign, "one", "a", ""}, definedTask{foreign, "two", "a", ""}, true},
		"a foreign type, other variables":   {definedTask{foreign, "one", "a", "1"}, definedTask{foreign, "two", "a", "2"}, false},
		"a foreign type by its task":        {definedTask{foreig2, "one", "a", ""}, definedTask{foreig2, "two", "a", ""}, false},
	} {
		c := newCheckout(t, nil)
		i := c.identities()
		a, b := c.things(i, test.a), c.things(i, test.b)
		assert.Equal(t, test.want, slices.ContainsFunc(a, func(k string) bool { return slices.Contains(b, k) }), "%s: they make %q and %q", name, a, b)
	}
	c := newCheckout(t, nil)
	i := c.identities()
	for _, text := range []string{broken, "resources: {h: {type: deployster/http, config: {url: 'http://a'}}}"} {
		assert.Empty(t, c.things(i, definedTask{text, "one", "a", ""}))
	}
}

// Links lead to one thing by several paths: whoever wrote them, its owners would undo each
// other's work. Where the machine is another, what its links are is not known here.
func TestLinksLeadToOneThing(t *testing.T) {
	file := func(root, path string) string {
		return "plugs: {root: {path: '" + root + "'}}\nresources: {f: {type: deployster/file, config: {path: '" + path + "', content: x}}}"
	}
	socket := func(path string) string {
		return "plugs: {docker: {path: '" + path + "'}}\nresources: {c: {type: deployster/container, config: {image: i, name: web}}}"
	}
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	for _, made := range []error{
		os.MkdirAll(at("real/etc"), 0o755), os.MkdirAll(at("other/etc"), 0o755), os.WriteFile(at("real/docker.sock"), nil, 0o600),
		os.Symlink("real", at("link")), os.Symlink("etc", at("real/conf.d")), os.Symlink("link", at("again")),
		os.Symlink("motd", at("real/etc/last")), os.Symlink("loop", at("loop")), os.Symlink("nowhere", at("dangling")),
	} {
		require.NoError(t, made)
	}
	for name, test := range map[string]struct {
		a, b, host string
		want       bool
	}{
		"a link as the plug":           {file(at("real"), "etc/motd"), file(at("link"), "etc/motd"), "a", true},
		"a link to a link":             {file(at("real"), "etc/motd"), file(at("again"), "etc/motd"), "a", true},
		"a link within the plug":       {file(at("real"), "etc/motd"), file(at("real"), "conf.d/motd"), "a", true},
		"a link above the plug":        {file(at("real/etc"), "motd"), file(at("again/conf.d"), "motd"), "a", true},
		"what is not there yet":        {file(at("real"), "new/motd"), file(at("link"), "new/motd"), "a", true},
		"a link to a socket":           {socket(at("real/docker.sock")), socket(at("link/docker.sock")), "a", true},
		"another directory":            {file(at("real"), "etc/motd"), file(at("other"), "etc/motd"), "a", false},
		"a link is a thing of its own": {file(at("real"), "etc/motd"), file(at("real"), "etc/last"), "a", false},
		"a link in a circle":           {file(at("real"), "etc/motd"), file(at("loop"), "etc/motd"), "a", false},
		"a link to nothing":            {file(at("real"), "etc/motd"), file(at("dangling"), "etc/motd"), "a", false},
		"links of another machine":     {file(at("real"), "etc/motd"), file(at("link"), "etc/motd"), "far", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t, nil)
			i := c.identities()
			a, b := c.things(i, definedTask{test.a, "one", test.host, ""}), c.things(i, definedTask{test.b, "two", test.host, ""})
			assert.True(t, slices.Equal(a, b) == test.want && len(a) == 1 && len(b) == 1, "they make %q and %q", a, b)
		})
	}
}

// things are the keys of what a task makes. Its text is not kept before.
func (c checkout) things(i Identities, m definedTask) (keys []string) {
	files := Carried{m.environment + ".yaml": []byte(m.text)}
	if collected, err := Collect(c.dir, nil, nil, manifest.Source{Name: m.environment + ".yaml", Data: []byte(m.text)}); err == nil {
		files = collected.Files
	}
	digests := files.Digests()
	spec := definition.TaskSpec{Manifest: m.environment + ".yaml", Digest: digests[m.environment+".yaml"], Includes: map[string]string{}}
	if m.vars != "" {
		spec.Vars = map[string]any{"v": m.vars}
	}
	i.Drafts = files
	for _, thing := range i.Things(tasks.Task{Environment: m.environment, Host: m.host, Revision: 1, Spec: spec}) {
		assert.True(c, thing.Key != "" && thing.Name != "" && !strings.ContainsAny(thing.Name, "\x00\n"), "it makes %+v", thing)
		keys = append(keys, thing.Key)
	}
	return keys
}

func TestWhatATaskMakesIsKnownWhateverBecameOfItsSecrets(t *testing.T) {
	const text = "plugs: {docker: {path: /var/run/docker.sock}}\nresources: {c: {type: deployster/container, config: {image: i, name: web, secret_env: {P: '{{ mine }}'}}}}"
	for label, now := range map[string]string{"as it was": "mine: hush-1\n", "changed": "mine: hush-2\n", "gone": "other: 1\n", "half saved": "mine: *hush\n"} {
		t.Run(label, func(t *testing.T) {
			c := newCheckout(t, map[string]string{"m.yaml": text, "home/.deployster/vars.auto.yaml": "mine: hush-1\n"})
			w, files, err := c.pinned(nil)
			require.NoError(t, err)
			c.write("home/.deployster/vars.auto.yaml", now)
			i := c.identities()
			i.Inputs, i.Texts = w.Inputs, w.Texts
			digests := files.Digests()
			spec := definition.TaskSpec{Manifest: "m.yaml", Digest: digests["m.yaml"], Includes: digests}
			got := i.Things(tasks.Task{Environment: "one", Host: "a", Revision: 1, Spec: spec})
			assert.True(t, len(got) == 1 && strings.Contains(got[0].Name, "web"), "it makes %+v", got)
		})
	}
}
