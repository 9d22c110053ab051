package objects_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/objects"
)

func TestObjectsThatNobodyNeedsArePruned(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	old, before := time.Now().Add(-3*objects.MinAge), time.Now().Add(-objects.MinAge)
	hashes := map[string]string{}
	for _, name := range []string{"needed", "young", "old", "again"} {
		hash, err := store.Keep([]byte(name))
		require.NoError(t, err)
		hashes[name] = hash
		if path := filepath.Join(dir, "sha256", hash); name != "young" {
			require.NoError(t, os.Chtimes(path, old, old))
		}
	}
	for name, at := range map[string]time.Time{".deployster-new-1": old, ".removed-1": old, ".deployster-new-2": time.Now(), "another": old} {
		path := filepath.Join(dir, "sha256", name)
		require.NoError(t, errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.Chtimes(path, at, at)))
	}
	if err := store.KeepAll([]byte("needed"), []byte("again")); err != nil { // what is stored again is as new
		t.Fatal(err)
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, "sha256", hashes["needed"]), old, old))
	needed := func(hash string) bool { return hash == hashes["needed"] }
	for _, dryRun := range []bool{true, false} {
		pruned, err := store.Prune(t.Context(), before, needed, dryRun)
		assert.True(t, err == nil && pruned.Count == 3 && pruned.Bytes == 11 && pruned.Oldest.Before(before), "dry run %v: it removed %+v, %v", dryRun, pruned, err)
	}
	for name, hash := range hashes {
		_, err := store.Load(hash)
		assert.True(t, name == "old" == errors.Is(err, objects.ErrMissing), "%s: %v", name, err)
	}
	wantLeft(t, filepath.Join(dir, "sha256"))
	pruned, err := objects.In(t.TempDir(), nil).Prune(t.Context(), before, needed, false)
	assert.True(t, err == nil && pruned.Count == 0, "of nothing: %+v, %v", pruned, err)
}

// Who takes an object away may be killed before it sees that this is new, or needed.
func TestWhatWasTakenAwayIsBroughtBack(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	old, before := time.Now().Add(-3*objects.MinAge), time.Now().Add(-objects.MinAge)
	at := func(name string) string { return filepath.Join(dir, "sha256", name) }
	taken := func(content string, used time.Time) (hash string) {
		t.Helper()
		hash = keep(t, store, content)
		require.NoError(t, errors.Join(os.Rename(at(hash), at(".removed-"+hash)), os.Chtimes(at(".removed-"+hash), used, used)))
		return hash
	}
	loaded := taken("loaded", old)
	wantContent(t, store, loaded, "loaded")
	needed, young, rest := taken("needed", old), taken("young", time.Now()), taken("rest", old)
	is := func(hash string) bool { return hash == needed || hash == loaded }
	for _, dryRun := range []bool{true, false, false} {
		pruned, err := store.Prune(t.Context(), before, is, dryRun)
		require.NoError(t, err, "dry run %v: it removed %+v,", dryRun, pruned)
		_, err = os.Lstat(at(needed))
		assert.True(t, dryRun == (err != nil), "dry run %v: of what is needed: %v", dryRun, err)
	}
	for hash, content := range map[string]string{loaded: "loaded", needed: "needed", young: "young"} {
		assert.NoError(t, errOf(os.Lstat(at(hash))), "%s is not back", content)
		wantContent(t, store, hash, content)
	}
	refused(t, store, rest, objects.ErrMissing)
	for _, hash := range []string{loaded, needed, rest} {
		assert.ErrorIs(t, errOf(os.Lstat(at(".removed-"+hash))), os.ErrNotExist, "its other name stays")
	}
}

func wantLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(entries) == 5 && strings.HasPrefix(entries[0].Name(), ".deployster-new-2"), "left are %v, %v", entries, err)
}
