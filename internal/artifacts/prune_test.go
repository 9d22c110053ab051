package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, errOf(s.Directory(t.Context(), digests[name])))
	}
	blobs, err := filepath.Glob(filepath.Join(store, "blobs", "sha256", "*"))
	must(t, err)
	for _, path := range blobs {
		if path != manifestPath(store, digests["young"]) {
			must(t, os.Chtimes(path, old, old))
		}
	}
	collect(t, s, write(t, map[string]string{"file": "again"}))
	require.NoError(t, errOf(s.Directory(t.Context(), digests["mounted"])))
	half := filepath.Join(store, "blobs", "sha256", strings.Repeat("1", 64))
	must(t, os.WriteFile(half, []byte("a layer of no manifest"), 0o600))
	must(t, os.Chtimes(half, old, old))
	must(t, os.MkdirAll(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o700))
	must(t, os.Chmod(filepath.Join(store, "tmp", "of-the-dead", "copy"), 0o555))
	must(t, os.WriteFile(filepath.Join(store, "tmp", "layer-of-the-dead"), []byte("half"), 0o600))

	var would artifacts.Pruned
	for _, dryRun := range []bool{true, false} {
		pruned, err := s.Prune(t.Context(), before, func(digest string) bool { return digest == digests["needed"] }, dryRun)
		assert.True(t, err == nil && pruned.Count == 1 && pruned.Oldest.Equal(old) && pruned.Bytes >= 2048+22, "dry run %v: it removed %+v, %v", dryRun, pruned, err)
		if dryRun {
			would = pruned
		} else if pruned != would {
			t.Errorf("it removed %+v, not %+v", pruned, would)
		}
	}
	wantPruned(t, s, digests, "old")
	for dir, want := range map[string]int{"blobs/sha256": 8, "unpacked": 4, "tmp": 0} {
		left, err := os.ReadDir(filepath.Join(store, dir))
		assert.True(t, err == nil && len(left) == want, "in %s are %v, %v", dir, left, err)
	}
	pruned, err := artifacts.In(t.TempDir()).Prune(t.Context(), before, nil, false)
	assert.True(t, err == nil && pruned == (artifacts.Pruned{}), "of nothing: %+v, %v", pruned, err)
}

func wantPruned(t *testing.T, s *artifacts.Store, digests map[string]string, gone string) {
	t.Helper()
	for name, digest := range digests {
		err := s.Verify(t.Context(), digest)
		assert.True(t, name == gone == errors.Is(err, artifacts.ErrMissing) && (name == gone || err == nil), "%s: %v", name, err)
		if name == gone {
			continue
		}
		assert.NoError(t, errOf(s.Directory(t.Context(), digest)), name)
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
		assert.True(t, err == nil && freed >= 3, "dry run %v: it freed %d, %v", dryRun, freed, err)
		for name, dir := range copies {
			_, err := os.Stat(dir)
			assert.True(t, errors.Is(err, os.ErrNotExist) == (name == "old" && !dryRun), "dry run %v: %s: %v", dryRun, name, err)
		}
	}
	wantPruned(t, s, digests, "") // what is gone is unpacked again
	freed, err := artifacts.In(t.TempDir()).PruneCopies(t.Context(), before, nil, false)
	assert.True(t, err == nil && freed == 0, "of nothing: %d, %v", freed, err)
}

func TestAnArtifactIsRemoved(t *testing.T) {
	s, store := newStore(t)
	digest, _ := unpacked(t, s, toolchain)
	for range 2 {
		must(t, s.Remove(t.Context(), digest))
		_, err := s.Directory(t.Context(), digest)
		assert.True(t, !s.Has(digest) && errors.Is(err, artifacts.ErrMissing), "it is there: %v", err)
	}
	for _, dir := range []string{"blobs/sha256", "unpacked", "tmp"} {
		left, err := os.ReadDir(filepath.Join(store, dir))
		assert.True(t, err == nil && len(left) == 0, "in %s are %v, %v", dir, left, err)
	}
	for _, digest := range []string{"", "sha256:../../../etc", "sha256:" + strings.Repeat("A", 64)} {
		assert.ErrorContains(t, s.Remove(t.Context(), digest), "is not the digest of an artifact", "%q", digest)
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
				assert.True(t, (err == nil || errors.Is(err, artifacts.ErrMissing)) && (err != nil || files != ""), "unpacked: %q, %v", files, err)
				err = s.Verify(t.Context(), a.Digest)
				assert.True(t, err == nil || errors.Is(err, artifacts.ErrMissing), "verified: %v", err)
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 40 {
				assert.NoError(t, errOf(artifacts.In(store).Prune(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false }, false)))
			}
		})
	}
	all.Wait()
	for _, dir := range dirs {
		a := collect(t, s, dir)
		assert.NoError(t, errOf(s.Directory(t.Context(), a.Digest)))
		must(t, s.Verify(t.Context(), a.Digest))
	}
	wantNothingHalf(t, store)
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }
