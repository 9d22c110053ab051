package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/artifacts"
)

func manifestPath(store, digest string) string {
	return filepath.Join(store, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

func TestArtifactsThatNobodyNeedsArePruned(t *testing.T) {
	s, store := newStore(t)
	old, before := time.Now().Add(-3*artifacts.MinAge), time.Now().Add(-artifacts.MinAge)
	digests := map[string]string{}
	for _, name := range []string{"needed", "young", "old", "again", "mounted"} {
		digests[name] = collect(t, s, write(t, map[string]string{"file": name})).Digest
		if _, err := s.Directory(t.Context(), digests[name]); err != nil {
			t.Fatal(err)
		}
	}
	blobs, err := filepath.Glob(filepath.Join(store, "blobs", "sha256", "*"))
	must(t, err)
	for _, path := range blobs {
		if path != manifestPath(store, digests["young"]) {
			must(t, os.Chtimes(path, old, old))
		}
	}
	collect(t, s, write(t, map[string]string{"file": "again"}))
	if _, err := s.Directory(t.Context(), digests["mounted"]); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(store, "blobs", "sha256", strings.Repeat("1", 64))
	must(t, os.WriteFile(half, []byte("a layer of no manifest"), 0o600))
	must(t, os.Chtimes(half, old, old))
	must(t, os.MkdirAll(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o700))
	must(t, os.Chmod(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o555))
	must(t, os.WriteFile(filepath.Join(store, "tmp", "layer-of-the-dead"), []byte("half"), 0o600))

	var would artifacts.Pruned
	for _, dryRun := range []bool{true, false} {
		pruned, err := s.Prune(t.Context(), before, func(digest string) bool { return digest == digests["needed"] }, dryRun)
		if err != nil || pruned.Count != 1 || !pruned.Oldest.Equal(old) || pruned.Bytes < 2048+22 {
			t.Errorf("dry run %v: it removed %+v, %v", dryRun, pruned, err)
		}
		if dryRun {
			would = pruned
		} else if pruned != would {
			t.Errorf("it removed %+v, not %+v", pruned, would)
		}
	}
	wantPruned(t, s, digests, "old")
	for dir, want := range map[string]int{"blobs/sha256": 8, "unpacked": 4, "tmp": 0} {
		if left, err := os.ReadDir(filepath.Join(store, dir)); err != nil || len(left) != want {
			t.Errorf("in %s are %v, %v", dir, left, err)
		}
	}
	if pruned, err := artifacts.In(t.TempDir()).Prune(t.Context(), before, nil, false); err != nil || pruned != (artifacts.Pruned{}) {
		t.Errorf("of nothing: %+v, %v", pruned, err)
	}
}

func wantPruned(t *testing.T, s *artifacts.Store, digests map[string]string, gone string) {
	t.Helper()
	for name, digest := range digests {
		err := s.Verify(t.Context(), digest)
		if name == gone != errors.Is(err, artifacts.ErrMissing) || name != gone && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == gone {
			continue
		}
		if _, err := s.Directory(t.Context(), digest); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsUnpackedAndNotUsedIsRemoved(t *testing.T) {
	s, store := newStore(t)
	old, before := time.Now().Add(-3*artifacts.MinAge), time.Now().Add(-artifacts.MinAge)
	copies := map[string]string{}
	digests := map[string]string{}
	for _, name := range []string{"old", "young", "used"} {
		digests[name] = collect(t, s, write(t, map[string]string{"file": name})).Digest
		dir, err := s.Directory(t.Context(), digests[name])
		must(t, err)
		copies[name] = dir
		if name != "young" {
			must(t, os.Chtimes(manifestPath(store, digests[name]), old, old))
		}
	}
	for _, dryRun := range []bool{true, false} {
		freed, err := s.PruneCopies(t.Context(), before, func(digest string) bool { return digest == digests["used"] }, dryRun)
		if err != nil || freed < 3 {
			t.Errorf("dry run %v: it freed %d, %v", dryRun, freed, err)
		}
		for name, dir := range copies {
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) != (name == "old" && !dryRun) {
				t.Errorf("dry run %v: %s: %v", dryRun, name, err)
			}
		}
	}
	wantPruned(t, s, digests, "") // what is gone is unpacked again
	if freed, err := artifacts.In(t.TempDir()).PruneCopies(t.Context(), before, nil, false); err != nil || freed != 0 {
		t.Errorf("of nothing: %d, %v", freed, err)
	}
}

func TestAnArtifactIsRemoved(t *testing.T) {
	s, store := newStore(t)
	digest, _ := unpacked(t, s, toolchain)
	for range 2 {
		must(t, s.Remove(t.Context(), digest))
		if _, err := s.Directory(t.Context(), digest); s.Has(digest) || !errors.Is(err, artifacts.ErrMissing) {
			t.Errorf("it is there: %v", err)
		}
	}
	for _, dir := range []string{"blobs/sha256", "unpacked", "tmp"} {
		if left, err := os.ReadDir(filepath.Join(store, dir)); err != nil || len(left) > 0 {
			t.Errorf("in %s are %v, %v", dir, left, err)
		}
	}
	for _, digest := range []string{"", "sha256:../../../etc", "sha256:" + strings.Repeat("A", 64)} {
		if err := s.Remove(t.Context(), digest); err == nil || !strings.Contains(err.Error(), "is not the digest of an artifact") {
			t.Errorf("%q: %v", digest, err)
		}
	}
}

// What is removed at once with being stored and unpacked is there whole, or not at all.
func TestPruningBesideEverythingElse(t *testing.T) {
	s, store := newStore(t)
	dirs := []string{write(t, toolchain), write(t, map[string]string{"a": "1"}), write(t, map[string]string{"b/c": "2"})}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			s := artifacts.In(store)
			for range 15 {
				a, err := s.Collect(t.Context(), dirs[i%len(dirs)], artifacts.Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				files, err := s.Directory(t.Context(), a.Digest)
				if err != nil && !errors.Is(err, artifacts.ErrMissing) || err == nil && files == "" {
					t.Errorf("unpacked: %q, %v", files, err)
				}
				if err := s.Verify(t.Context(), a.Digest); err != nil && !errors.Is(err, artifacts.ErrMissing) {
					t.Errorf("verified: %v", err)
				}
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 40 {
				if _, err := artifacts.In(store).Prune(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false }, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, dir := range dirs {
		a := collect(t, s, dir)
		if _, err := s.Directory(t.Context(), a.Digest); err != nil {
			t.Error(err)
		}
		must(t, s.Verify(t.Context(), a.Digest))
	}
	wantNothingHalf(t, store)
}
