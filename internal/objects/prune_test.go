package objects_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/objects"
)

func TestObjectsThatNobodyNeedsArePruned(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	old, before := time.Now().Add(-3*objects.MinAge), time.Now().Add(-objects.MinAge)
	hashes := map[string]string{}
	for _, name := range []string{"needed", "young", "old", "again"} {
		hash, err := store.Keep([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		hashes[name] = hash
		if path := filepath.Join(dir, "sha256", hash); name != "young" {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, at := range map[string]time.Time{".deployster-new-1": old, ".removed-1": old, ".deployster-new-2": time.Now(), "another": old} {
		path := filepath.Join(dir, "sha256", name)
		if err := errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.KeepAll([]byte("needed"), []byte("again")); err != nil { // what is stored again is as new
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "sha256", hashes["needed"]), old, old); err != nil {
		t.Fatal(err)
	}
	needed := func(hash string) bool { return hash == hashes["needed"] }
	for _, dryRun := range []bool{true, false} {
		pruned, err := store.Prune(t.Context(), before, needed, dryRun)
		if err != nil || pruned.Count != 3 || pruned.Bytes != 11 || !pruned.Oldest.Before(before) {
			t.Errorf("dry run %v: it removed %+v, %v", dryRun, pruned, err)
		}
	}
	for name, hash := range hashes {
		if _, err := store.Load(hash); name == "old" != errors.Is(err, objects.ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantLeft(t, filepath.Join(dir, "sha256"))
	if pruned, err := objects.In(t.TempDir(), nil).Prune(t.Context(), before, needed, false); err != nil || pruned.Count != 0 {
		t.Errorf("of nothing: %+v, %v", pruned, err)
	}
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
		if err := errors.Join(os.Rename(at(hash), at(".removed-"+hash)), os.Chtimes(at(".removed-"+hash), used, used)); err != nil {
			t.Fatal(err)
		}
		return hash
	}
	loaded := taken("loaded", old)
	wantContent(t, store, loaded, "loaded")
	needed, young, rest := taken("needed", old), taken("young", time.Now()), taken("rest", old)
	is := func(hash string) bool { return hash == needed || hash == loaded }
	for _, dryRun := range []bool{true, false, false} {
		pruned, err := store.Prune(t.Context(), before, is, dryRun)
		if err != nil {
			t.Fatalf("dry run %v: it removed %+v, %v", dryRun, pruned, err)
		}
		if _, err := os.Lstat(at(needed)); dryRun != (err != nil) {
			t.Errorf("dry run %v: of what is needed: %v", dryRun, err)
		}
	}
	for hash, content := range map[string]string{loaded: "loaded", needed: "needed", young: "young"} {
		if _, err := os.Lstat(at(hash)); err != nil {
			t.Errorf("%s is not back: %v", content, err)
		}
		wantContent(t, store, hash, content)
	}
	refused(t, store, rest, objects.ErrMissing)
	for _, hash := range []string{loaded, needed, rest} {
		if _, err := os.Lstat(at(".removed-" + hash)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its other name stays: %v", err)
		}
	}
}

func wantLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 || !strings.HasPrefix(entries[0].Name(), ".deployster-new-2") {
		t.Errorf("left are %v, %v", entries, err)
	}
}
