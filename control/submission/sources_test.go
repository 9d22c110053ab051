package submission_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/gittest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/registrytest"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest/vars"
)

func TestTheCommitOfTheSourcesIsCarried(t *testing.T) {
	const text = "group: g\njob: {image: build:1}\npackages:\n  a: {sources: [src/a]}\n  b: {sources: [src]}\n  c: {build: [lib], sources: [src/a]}\n  d: {sources: [src/b, src/gone]}\n  lib: {released: {path: lib}}\n  none: {}\n"
	change := func(name string) func(w *world) { return func(w *world) { w.write(name, "changed") } }
	remove := func(name string) func(w *world) {
		return func(w *world) { require.NoError(w, os.RemoveAll(filepath.Join(w.dir, name))) }
	}
	for name, c := range map[string]struct {
		change          func(w *world)
		touched         string
		recorded, exact bool
	}{
		"as it was committed":             {func(*world) {}, "a b c", true, true},
		"one package is changed":          {change("src/b/x"), "a b c", true, false},
		"a file is new":                   {change("src/b/new"), "b", true, false},
		"a file is missing":               {remove("src/b/x"), "b", true, false},
		"what is not read is changed":     {change("src/b/x"), "a c", true, true},
		"what was released is changed":    {change("lib/l"), "a b c", true, true},
		"what cannot be built is changed": {change("src/b/x"), "a d", true, true},
		"there are no sources":            {func(*world) {}, "none", false, false},
		"there is no repository":          {remove(".git"), "a b c", false, false},
		"there is no git":                 {func(w *world) { w.TB.(*testing.T).Setenv("PATH", "/nowhere") }, "a b c", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"src/a": "a", "src/b/x": "x", "lib/l": "l"})
			g := gittest.Repository{TB: w, Dir: w.dir}
			g.Git("init", "-q")
			g.Git("remote", "add", "origin", "https://user:swordfish@example.org/base.git?token=swordfish")
			commit := g.Commit()
			c.change(w)
			got := w.collected(text, strings.Fields(c.touched)...).Submit
			want := &record.Source{Repository: "https://example.org/base.git", Commit: commit, Exact: c.exact}
			if !c.recorded {
				want = nil
			}
			assert.True(t, reflect.DeepEqual(got.Source, want) &&
				(!c.recorded || got.Commit == commit), "it is %+v, %q", got.Source, got.Commit)
		})
	}
}

// Whatever leads to what Deployster keeps, no source has anything of it: sources go to
// registries, and the log has what nobody else is to read.
func TestWhatDeploysterKeepsIsNoSource(t *testing.T) {
	const leads = "where Deployster keeps its state"
	for name, c := range map[string]struct {
		links map[string]string // to what they lead
		text  string
		want  string // in the cause why a cannot be built; "" is that its sources are only src/f
	}{
		"a link to it":                   {map[string]string{"kept": ".deployster"}, "sources: [kept]", leads},
		"a link to what is in it":        {map[string]string{"kept": ".deployster/objects"}, "sources: [kept]", leads},
		"a link to a file of it":         {map[string]string{"kept": ".deployster/log.db"}, "sources: [kept]", leads},
		"a link to a link":               {map[string]string{"kept": "other", "other": ".deployster"}, "sources: [kept]", leads},
		"a path through a link":          {map[string]string{"kept": ".deployster"}, "sources: [kept/log.db]", leads},
		"released as a link to it":       {map[string]string{"kept": ".deployster"}, "build: [old]", leads},
		"the directory that it leads to": {map[string]string{}, "sources: [moved]", leads},
		"all that is above it":           {map[string]string{"src/moved": "../src"}, "sources: [src]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"src/f": "f", ".deployster/log.db": "secret", ".deployster/objects/x": "secret"})
			for from, to := range c.links {
				require.NoError(t, os.Symlink(to, filepath.Join(w.dir, from)))
			}
			if strings.Contains(c.text, "moved") { // what is kept is elsewhere in the workspace
				at := filepath.Join(w.dir, ".deployster")
				require.NoError(t, os.Rename(at, filepath.Join(w.dir, "moved")))
				require.NoError(t, os.Symlink("moved", at))
			}
			got := w.collected("group: g\njob: {image: build:1}\npackages: {old: {released: {path: kept}}, a: {"+c.text+"}, b: {}}\n", "a", "b")
			if c.want == "" {
				require.Len(t, got.Sources, 1)
				assert.EqualValues(t, 1, got.Sources[0].Size)
				return
			}
			require.Len(t, got.Submit.Unbuildable, 1)
			assert.Contains(t, got.Submit.Unbuildable[0].Cause, c.want)
		})
	}
}

// A workspace whose state is elsewhere in it is submitted as a whole without that.
func TestStateUnderAnotherNameIsNoSource(t *testing.T) {
	w := newWorld(t, map[string]string{"all/f": "f", "all/kept/log.db": "secret"})
	require.NoError(t, os.Symlink("all/kept", filepath.Join(w.dir, ".deployster")))
	got := w.collected("group: g\njob: {image: build:1}\npackages: {a: {sources: [all]}}\n")
	assert.True(t, len(got.Sources) == 1 && got.Sources[0].Size == 1 && got.Sources[0].Files == 2, "kept are %+v", got.Sources)
}

// What a registry does not have is the fault of the file; that it does not answer, or lets
// nobody in, is not, and nothing is submitted.
func TestWhatIsReleasedInARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("{}")))
	for name, c := range map[string]struct {
		status int
		body   string
		fault  bool
	}{
		"is not there":    {http.StatusNotFound, "", true},
		"is no artifact":  {http.StatusOK, "{}", true},
		"is not shown":    {http.StatusUnauthorized, "", false},
		"is not served":   {http.StatusTooManyRequests, "", false},
		"gets no answer":  {0, "", false},
		"is not for this": {http.StatusForbidden, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			if c.status == 0 {
				server.Close()
			}
			text := fmt.Sprintf("group: g\nartifacts: %s/base\njob: {image: build:1}\npackages: {old: {released: {artifact: %q}}, a: {build: [old]}, b: {}}\n", strings.TrimPrefix(server.URL, "http://"), digest)
			got, err := newWorld(t, nil).collect(text, "a", "b")
			if !c.fault {
				assert.ErrorContains(t, err, "getting what was released of old: ", "it is submitted")
				return
			}
			if err != nil || len(got.Submit.Unbuildable) != 1 || !strings.HasPrefix(got.Submit.Unbuildable[0].Cause, "it needs what was released of old: ") {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
}

// What a registry has is fetched when the group is submitted, so that its jobs need no registry.
func TestWhatIsReleasedIsPulledOnce(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	registry := registrytest.Serve(t, new(registrytest.Registry))
	from := newWorld(t, map[string]string{"libc/lib/libc.so": "released"})
	made := must.Get(from.store.Collect(t.Context(), filepath.Join(from.dir, "libc"), artifacts.Limits{}))(t)
	must.Get(from.store.Push(t.Context(), made.Digest, registry.Host+"/base", "libc", nil))(t)
	w := newWorld(t, nil)
	text := fmt.Sprintf("group: g\nartifacts: %s/base\njob: {image: build:1}\npackages: {libc: {released: {artifact: %q}}, a: {build: [libc]}}\n", registry.Host, made.Digest)
	for range 2 {
		uses := w.collected(text, "a").Submit.Jobs[0].Uses
		require.Len(t, uses, 1)
		require.Equal(t, made.Digest, uses[0].Artifact, "it uses %+v", uses)
		dir := must.Get(w.store.Directory(t.Context(), made.Digest))(t)
		assert.Equal(t, "released", string(must.Get(os.ReadFile(filepath.Join(dir, "lib/libc.so")))(t)))
		registry.Close() // what is here is not fetched again
	}
}

// world is a workspace with workers.
type world struct {
	testing.TB
	submission.Collector
	dir      string
	store    *artifacts.Store
	hosts    []inventory.Host
	err      error                   // why it is not known which hosts there are
	builds   map[string][]string     // platforms of hosts, as their engines say
	away     map[string]error        // hosts that do not answer
	images   map[string]engine.Image // that every engine has
	asked    []string                // images
	variable []vars.Flag
}

func newWorld(t testing.TB, files map[string]string) *world {
	w := &world{
		TB: t, dir: t.TempDir(), hosts: []inventory.Host{{Name: "local"}}, builds: map[string][]string{"local": {"linux/amd64"}}, away: map[string]error{},
		images: map[string]engine.Image{"build:1": image("aa"), "build:2": image("bb")},
	}
	for name, text := range files {
		w.write(name, text)
	}
	w.Texts = work.NewTexts(filepath.Join(w.dir, ".deployster/objects"), w.dir, objects.Give(nil))
	w.store = artifacts.In(filepath.Join(w.dir, ".deployster/artifacts"))
	w.Artifacts = w.store
	w.Inputs = work.Inputs{Workspace: w.dir, Now: time.Now, Hide: func(any) {}}
	w.Policy, w.Own, w.Platform = engine.PullMissing, "this group", "linux/"+runtime.GOARCH
	w.Engine = func(_ context.Context, worker string) (*work.Connection, error) {
		return &work.Connection{Images: w}, w.away[worker]
	}
	return w
}

func image(id string) engine.Image {
	return engine.Image{ID: "sha256:" + strings.Repeat(id, 32), OS: "linux", Arch: "amd64"}
}

func (w *world) write(name, text string) {
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	require.NoError(w, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func (w *world) hostsNow() ([]inventory.Host, error) { return w.hosts, w.err }

// Look asks a host for its platforms.
func (w *world) Look(_ context.Context, name string) ([]string, error) {
	return w.builds[name], w.away[name]
}

func (w *world) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	w.asked = append(w.asked, ref)
	i, known := w.images[ref]
	if !known {
		return i, fmt.Errorf("image %s: %w", ref, engine.ErrNoImage)
	}
	return i, nil
}

type fleetOf struct{ *world }

func (f fleetOf) Workers() ([]inventory.Host, error) { return f.hostsNow() }

func (w *world) collect(text string, touched ...string) (*submission.Collected, error) {
	w.Inputs.Variables = w.variable
	c := w.Collector
	c.Workers = fleetOf{w}
	got, err := c.Collect(context.Background(), submission.Request{File: "packages.yaml", Name: "packages.yaml", Text: []byte(text), Touched: touched})
	if err != nil {
		return nil, err
	}
	_, err = build.New("builds").Propose(got.Submit, time.Now())
	assert.True(w, err == nil || len(got.Submit.Jobs) == 0, "the machine refuses it: %v", err)
	return got, nil
}

func (w *world) collected(text string, touched ...string) *submission.Collected {
	return must.Get(w.collect(text, touched...))(w)
}

func (w *world) recipe(c *submission.Collected, job int) recipe.Recipe {
	index := c.Submit.Jobs[job-1].Recipe
	return must.Get(recipe.At(c.Files[recipe.Name(index)], index))(w)
}
