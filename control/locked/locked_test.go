package locked_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/gittest"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/manifest"
)

// world is an engine and a registry, which know contents by names.
type world struct {
	engine, registry map[string]engine.Image
	pulled           []string
}

func (w *world) Image(_ context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	if ref == "" {
		return engine.Image{}, errors.New("invalid reference format") // as of engines, which is not engine.ErrNoImage
	}
	image, here := w.engine[ref]
	if policy == engine.PullAlways || policy == engine.PullMissing && !here {
		w.pulled = append(w.pulled, ref)
		if image, here = w.registry[ref]; here {
			w.engine[ref] = image
		}
	}
	if !here {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, engine.ErrNoImage)
	}
	return image, nil
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func TestWhatIsLockedIsUsedWhereverATagPoints(t *testing.T) {
	old, now := engine.Image{ID: digest("a"), Digest: digest("1")}, engine.Image{ID: digest("b"), Digest: digest("2")}
	w := &world{
		engine:   map[string]engine.Image{"r.example/web:1": now},
		registry: map[string]engine.Image{"r.example/web@" + digest("1"): old, "r.example/web:1": now},
	}
	lock := &lockfile.File{Images: map[string]lockfile.Image{
		"r.example/web:1": {Digest: digest("1")}, "gone:1": {Digest: digest("3")}, "built:1": {ID: digest("c")},
	}}
	w.engine["built:1"] = engine.Image{ID: digest("d")}
	var notes []string
	images := locked.NewImages(lock, w, true, func(text string) { notes = append(notes, text) })
	for range 2 {
		got, err := images.Image(t.Context(), "r.example/web:1", engine.PullMissing, nil)
		want := (engine.Image{Ref: "r.example/web:1", ID: old.ID, Digest: old.Digest})
		assert.True(t, err == nil && got == want, "it is %+v, %v", got, err)
	}
	if want := "image r.example/web:1 is " + digest("1") + ", as deployster.lock has it, although its name means " + digest("2") + ` here by now; "deployster lock --upgrade=r.example/web:1" takes that`; len(notes) != 1 || notes[0] != want {
		t.Errorf("notes are %q, want %q", notes, want)
	}
	for ref, want := range map[string]string{
		"gone:1":  "deployster.lock carries " + digest("3") + ", which is not to be had",
		"built:1": "on this engine it is " + digest("d") + ", and deployster.lock carries " + digest("c"),
		"other:1": "image other:1 is not in deployster.lock, and --locked uses nothing else",
	} {
		assert.ErrorContains(t, must.Fail(images.Image(t.Context(), ref, engine.PullMissing, nil)), want, ref)
	}
	w.engine["deployster/file"] = engine.Image{ID: digest("e")}
	_, err := images.Image(t.Context(), "deployster/file", engine.PullMissing, nil)
	assert.NoError(t, err, "a type that ships")
}

func TestARunThatIsSentCarriesWhatIsLocked(t *testing.T) {
	lock := &lockfile.File{Images: map[string]lockfile.Image{"built:1": {ID: digest("c")}}}
	w := &world{engine: map[string]engine.Image{"built:1": {ID: digest("d")}, digest("c"): {ID: digest("c")}, "other:1": {ID: digest("e")}}}
	for _, all := range []bool{false, true} {
		text := must.Get(locked.Encode(lock, all))(t)
		images := must.Get(locked.Decoded(text, w))(t)
		assert.Equal(t, digest("c"), must.Get(images.Image(t.Context(), "built:1", engine.PullMissing, nil))(t).ID)
		_, err := images.Image(t.Context(), "other:1", engine.PullMissing, nil)
		assert.Equal(t, all, err != nil, "what is not locked, with all")
	}
}

func TestALockIsBroughtUpToDate(t *testing.T) {
	w := &world{
		engine: map[string]engine.Image{
			"r.example/web:1": {ID: digest("a"), Digest: digest("1")}, "built:1": {ID: digest("c")}, "stays:1": {ID: digest("d")},
		},
		registry: map[string]engine.Image{"r.example/web:1": {ID: digest("b"), Digest: digest("2")}, "r.example/tool:1": {ID: digest("e"), Digest: digest("3")}},
	}
	lock := &lockfile.File{
		Images:  map[string]lockfile.Image{"stays:1": {ID: digest("9")}, "unused:1": {ID: digest("8")}},
		Modules: map[string]lockfile.Module{},
	}
	update := func(upgrade bool, refs ...string) []locked.Change {
		u := &locked.Update{Lock: lock, Holder: w, Policy: engine.PullMissing, Upgrade: func(string) bool { return upgrade }}
		for _, ref := range append(refs, "deployster/file", "x@"+digest("7")) {
			typ := ""
			if strings.Contains(ref, "tool") {
				typ = "built:1"
			}
			require.NoError(t, u.Image(t.Context(), ref, typ))
		}
		if upgrade {
			u.Prune()
		}
		return u.Changes()
	}
	got := update(false, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1")
	assert.Equal(t, []locked.Change{
		{"image", "built:1", "", digest("c")}, {"image", "r.example/tool:1", "", digest("3")}, {"image", "r.example/web:1", "", digest("1")},
	}, got, "changes")
	assert.Len(t, update(false, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1"), 0)
	got = update(true, "r.example/web:1", "built:1", "stays:1", "r.example/tool:1")
	assert.Equal(t, []locked.Change{
		{"image", "r.example/web:1", digest("1"), digest("2")}, {"image", "stays:1", digest("9"), digest("d")}, {"image", "unused:1", digest("8"), ""},
	}, got, "upgraded, changes")
	assert.Equal(t, map[string]lockfile.Image{
		"r.example/web:1": {Digest: digest("2")}, "built:1": {ID: digest("c")}, "stays:1": {ID: digest("d")},
		"r.example/tool:1": {Digest: digest("3"), For: []string{"built:1"}},
	}, lock.Images)
	u := &locked.Update{Lock: lock, Holder: w, Policy: engine.PullMissing, Upgrade: func(string) bool { return true }}
	if err := u.Image(t.Context(), "none:1", ""); !errors.Is(err, engine.ErrNoImage) || lock.Images["none:1"].Content() != "" {
		t.Errorf("what there is not: %v, %+v", err, lock.Images["none:1"])
	}
}

func TestModulesThatNoLockNamesAreRemoved(t *testing.T) {
	m := newModules(t)
	prune := func(before time.Time, dryRun bool, wantCount int, wantLeft, of string) {
		t.Helper()
		pruned, left, err := locked.PruneModules(t.Context(), m.cache, before, dryRun)
		assert.True(t, err == nil && pruned.Count == wantCount && strings.Contains(left, wantLeft) &&
			(wantLeft != "" || left == ""), "of what %s, it removed %d, %q, %v", of, pruned.Count, left, err)
	}
	later := time.Now().Add(time.Hour) // until when nothing was used
	require.NoError(t, m.place(t.Context()))
	require.NoError(t, m.lock.Write(m.workspace))
	prune(later, false, 0, "", "the lock of a workspace names")
	broken := filepath.Join(t.TempDir(), "w")
	require.NoError(t, os.Mkdir(broken, 0o700))
	require.NoError(t, m.cache.Remember(broken))
	require.NoError(t, os.WriteFile(filepath.Join(broken, lockfile.Name), []byte("version: 99"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(m.workspace, lockfile.Name)))
	prune(later, false, 0, broken, "a lock may name that cannot be read")
	require.NoError(t, os.RemoveAll(broken))
	prune(time.Now().Add(-time.Hour), false, 0, "", "was used")
	prune(later, true, 1, "", "nothing names, in a dry run")
	prune(later, false, 1, "", "nothing names")
	assert.Empty(t, must.Get(m.cache.Workspaces())(t))
	assert.NoError(t, m.place(t.Context()), "it is not fetched again")
}

// modules is a workspace with a module of a repository that is locked.
type modules struct {
	workspace, source string
	lock              *lockfile.File
	cache             *modulesource.Cache
}

func newModules(t *testing.T) *modules {
	repository := gittest.New(t)
	for name, text := range map[string]string{"module.yaml": "outputs: {a: b}\n", "files/one": "1", "files/two/deep": strings.Repeat("2", 100_000)} {
		repository.Write(name, text)
	}
	require.NoError(t, os.Symlink("files/one", filepath.Join(repository.Dir, "link")))
	repository.Commit()
	m := &modules{workspace: t.TempDir(), source: "git::file://" + repository.Dir, cache: modulesource.In(t.TempDir())}
	m.lock = &lockfile.File{Images: map[string]lockfile.Image{}, Modules: map[string]lockfile.Module{}}
	u := &locked.Update{Lock: m.lock, Upgrade: func(string) bool { return false }}
	must.Get(u.Module(t.Context(), m.cache, m.source))(t)
	return m
}

func (m *modules) place(ctx context.Context) error {
	return locked.Place(ctx, m.workspace, m.lock, func() (*modulesource.Cache, error) { return m.cache, nil })
}

func (m *modules) at(path ...string) string {
	return filepath.Join(append([]string{m.workspace, filepath.FromSlash(manifest.RemoteModules)}, path...)...)
}

func (m *modules) placed(path ...string) string {
	return m.at(append([]string{filepath.Base(manifest.RemoteDir(m.source))}, path...)...)
}

func TestProcessesThatPlaceTheSameModulesTakeTurns(t *testing.T) {
	m := newModules(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { assert.NoError(t, m.place(t.Context())) })
	}
	all.Wait()
	found, err := os.ReadDir(m.at())
	assert.True(t, err == nil && len(found) == 1, "there are %v, %v", found, err)
	text, err := os.ReadFile(m.placed("link"))
	assert.True(t, err == nil && string(text) == "1", "it has %q, %v", text, err)
}

func TestWhatAnotherProcessPlacesJustNowStays(t *testing.T) {
	m := newModules(t)
	require.NoError(t, errors.Join(os.MkdirAll(m.at("new-1", "files"), 0o700), os.WriteFile(m.at()+".lock", nil, 0o600)))
	other := must.Get(filelock.Acquire(t.Context(), m.at()+".lock", filelock.Exclusive))(t)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := m.place(ctx); !errors.Is(err, enough) || !strings.Contains(err.Error(), "waiting for the lock") {
		t.Errorf("with a module to place, it does not wait for the other process: %v", err)
	}
	locks := m.lock.Modules
	m.lock.Modules = nil
	assert.NoError(t, m.place(t.Context()), "with none to place")
	_, err := os.Stat(m.at("new-1", "files"))
	assert.NoError(t, err, "what the other process makes is gone")
	other.Release() // it has died, and left that
	m.lock.Modules = locks
	require.NoError(t, m.place(t.Context()))
	assert.ErrorIs(t, must.Fail(os.Stat(m.at("new-1"))), os.ErrNotExist, "what nobody makes any more")
}

func TestWhoeverReadsAModuleWhileItIsReplacedFindsOne(t *testing.T) {
	m := newModules(t)
	require.NoError(t, m.place(t.Context()))
	ended := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if text, err := os.ReadFile(m.placed("module.yaml")); err != nil || len(text) == 0 {
				t.Errorf("it has %q, %v", text, err)
				return
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	for range ringtest.Cases(30, 300) {
		require.NoError(t, errors.Join(os.WriteFile(m.placed("files", "one"), []byte("x"), 0o600), m.place(t.Context())))
	}
	close(ended)
	reader.Wait()
	require.NoError(t, m.place(t.Context()))
	assert.Len(t, must.Get(os.ReadDir(m.at()))(t), 1)
}

func TestAModuleIsPlacedAnewWhateverWasDoneToIt(t *testing.T) {
	m := newModules(t)
	for name, do := range map[string]func(m *modules) error{
		"another content":  func(m *modules) error { return os.WriteFile(m.placed("files", "one"), []byte("x"), 0o600) },
		"less at the end":  func(m *modules) error { return os.Truncate(m.placed("files", "two", "deep"), 99_999) },
		"one more":         func(m *modules) error { return os.WriteFile(m.placed("files", "two", "more"), nil, 0o600) },
		"one less":         func(m *modules) error { return os.Remove(m.placed("files", "one")) },
		"another link":     func(m *modules) error { return relink("files/two/deep", m.placed("link")) },
		"a link for a dir": func(m *modules) error { return errors.Join(os.RemoveAll(m.placed()), os.Symlink("/", m.placed())) },
		"a FIFO": func(m *modules) error {
			return errors.Join(os.Remove(m.placed("files", "one")), syscall.Mkfifo(m.placed("files", "one"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, m.place(t.Context()))
			require.NoError(t, do(m))
			require.NoError(t, m.place(t.Context()))
			text, err := os.ReadFile(m.placed("files", "two", "deep"))
			if one, failed := os.ReadFile(m.placed("link")); err != nil || failed != nil || string(one) != "1" || len(text) != 100_000 {
				t.Errorf("it has %q, %v, and %d bytes, %v", one, failed, len(text), err)
			}
			assert.ErrorIs(t, must.Fail(os.Lstat(m.placed("files", "two", "more"))), os.ErrNotExist, "what was added")
		})
	}
}

func relink(target, path string) error { return errors.Join(os.Remove(path), os.Symlink(target, path)) }

func TestNothingIsRemovedBehindALink(t *testing.T) {
	m := newModules(t)
	elsewhere := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(elsewhere, "precious"), nil, 0o600), os.MkdirAll(filepath.Dir(m.at()), 0o700), os.Symlink(elsewhere, m.at())); err != nil {
		t.Fatal(err)
	}
	assert.ErrorContains(t, m.place(t.Context()), "is a link", "it is placed")
	_, err := os.Stat(filepath.Join(elsewhere, "precious"))
	assert.NoError(t, err)
}
