package locked_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/lockfile"
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
		if want := (engine.Image{Ref: "r.example/web:1", ID: old.ID, Digest: old.Digest}); err != nil || got != want {
			t.Errorf("it is %+v, %v", got, err)
		}
	}
	if want := "image r.example/web:1 is " + digest("1") + ", as deployster.lock has it, although its name means " + digest("2") + ` here by now; "deployster lock --upgrade=r.example/web:1" takes that`; len(notes) != 1 || notes[0] != want {
		t.Errorf("notes are %q, want %q", notes, want)
	}
	for ref, want := range map[string]string{
		"gone:1":  "deployster.lock carries " + digest("3") + ", which is not to be had",
		"built:1": "on this engine it is " + digest("d") + ", and deployster.lock carries " + digest("c"),
		"other:1": "image other:1 is not in deployster.lock, and --locked uses nothing else",
	} {
		_, err := images.Image(t.Context(), ref, engine.PullMissing, nil)
		assert.ErrorContains(t, err, want, ref)
	}
	w.engine["deployster/file"] = engine.Image{ID: digest("e")}
	_, err := images.Image(t.Context(), "deployster/file", engine.PullMissing, nil)
	assert.NoError(t, err, "a type that ships")
}

func TestARunThatIsSentCarriesWhatIsLocked(t *testing.T) {
	lock := &lockfile.File{Images: map[string]lockfile.Image{"built:1": {ID: digest("c")}}}
	w := &world{engine: map[string]engine.Image{"built:1": {ID: digest("d")}, digest("c"): {ID: digest("c")}, "other:1": {ID: digest("e")}}}
	for _, all := range []bool{false, true} {
		text, err := locked.Encode(lock, all)
		require.NoError(t, err)
		images, err := locked.Decoded(text, w)
		require.NoError(t, err)
		if got, err := images.Image(t.Context(), "built:1", engine.PullMissing, nil); err != nil || got.ID != digest("c") {
			t.Errorf("it is %+v, %v", got, err)
		}
		_, err = images.Image(t.Context(), "other:1", engine.PullMissing, nil)
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
		t.Helper()
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
		if err != nil || pruned.Count != wantCount || !strings.Contains(left, wantLeft) || wantLeft == "" && left != "" {
			t.Errorf("of what %s, it removed %d, %q, %v", of, pruned.Count, left, err)
		}
	}
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	later := time.Now().Add(time.Hour) // until when nothing was used
	must(m.place(t.Context()))
	must(m.lock.Write(m.workspace))
	prune(later, false, 0, "", "the lock of a workspace names")
	broken := filepath.Join(t.TempDir(), "w")
	must(os.Mkdir(broken, 0o700))
	must(m.cache.Remember(broken))
	must(os.WriteFile(filepath.Join(broken, lockfile.Name), []byte("version: 99"), 0o600))
	must(os.Remove(filepath.Join(m.workspace, lockfile.Name)))
	prune(later, false, 0, broken, "a lock may name that cannot be read")
	must(os.RemoveAll(broken))
	prune(time.Now().Add(-time.Hour), false, 0, "", "was used")
	prune(later, true, 1, "", "nothing names, in a dry run")
	prune(later, false, 1, "", "nothing names")
	if all, err := m.cache.Workspaces(); err != nil || len(all) != 0 {
		t.Errorf("there are workspaces %q, %v", all, err)
	}
	assert.NoError(t, m.place(t.Context()), "it is not fetched again")
}
