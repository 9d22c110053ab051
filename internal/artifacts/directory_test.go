package artifacts_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// unpacked stores and unpacks a directory.
func unpacked(t *testing.T, s *artifacts.Store, files map[string]string) (digest, path string) {
	t.Helper()
	digest = collect(t, s, write(t, files)).Digest
	path, err := s.Directory(t.Context(), digest)
	must(t, err)
	return digest, path
}

// layerOf finds the layer of the only artifact of a store.
func layerOf(t *testing.T, store, digest string) string {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(store, "blobs", "sha256", "*"))
	must(t, err)
	for _, blob := range blobs {
		if len(blobs) == 2 && !strings.HasSuffix(digest, filepath.Base(blob)) {
			return blob
		}
	}
	t.Fatalf("the blobs are %v", blobs)
	return ""
}

// overwrite changes a file that nobody may write to, keeping its size and time.
func overwrite(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[len(content)/2] ^= 1
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600), os.Chmod(path, info.Mode()), os.Chtimes(path, info.ModTime(), info.ModTime()))
}

func TestWhatWasAlteredOnDiskIsRefusedUntilItIsMadeAgain(t *testing.T) {
	manifestOf := func(store, digest string) string {
		return filepath.Join(store, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	tests := map[string]struct {
		alter  func(t *testing.T, store, digest, files string) error
		want   error
		unseen bool // by Directory, as it is of no use for what is unpacked; or by Verify
	}{
		"a byte of a file": {func(_ *testing.T, _, _, files string) error { return overwrite(filepath.Join(files, "README")) }, artifacts.ErrAltered, false},
		"a file more": {func(_ *testing.T, _, _, files string) error {
			return os.WriteFile(filepath.Join(files, "more"), nil, 0o444)
		}, artifacts.ErrAltered, false},
		"much more": {func(_ *testing.T, _, _, files string) error {
			return os.WriteFile(filepath.Join(files, "more"), make([]byte, 1<<20), 0o444)
		}, artifacts.ErrAltered, false},
		"a file less": {func(_ *testing.T, _, _, files string) error { return os.Remove(filepath.Join(files, "zero")) }, artifacts.ErrAltered, false},
		"a link elsewhere": {func(_ *testing.T, _, _, files string) error {
			return errors.Join(os.Remove(filepath.Join(files, "bin/cc")), os.Symlink("/bin/sh", filepath.Join(files, "bin/cc")))
		}, artifacts.ErrAltered, false},
		"a mode": {func(_ *testing.T, _, _, files string) error { return os.Chmod(filepath.Join(files, "README"), 0o666) }, artifacts.ErrAltered, false},
		"a time": {func(_ *testing.T, _, _, files string) error {
			return os.Chtimes(filepath.Join(files, "README"), time.Now(), time.Now())
		}, artifacts.ErrAltered, false},
		"all of the copy":      {func(_ *testing.T, _, _, files string) error { return os.RemoveAll(files) }, artifacts.ErrAltered, false},
		"a byte of the layer":  {func(t *testing.T, store, digest, _ string) error { return overwrite(layerOf(t, store, digest)) }, artifacts.ErrAltered, false},
		"the end of the layer": {func(t *testing.T, store, digest, _ string) error { return os.Truncate(layerOf(t, store, digest), 512) }, artifacts.ErrAltered, false},
		"the layer":            {func(t *testing.T, store, digest, _ string) error { return os.Remove(layerOf(t, store, digest)) }, artifacts.ErrMissing, false},
		"a pipe for the layer": {func(t *testing.T, store, digest, _ string) error {
			l := layerOf(t, store, digest)
			return errors.Join(os.Remove(l), os.Mkdir(l, 0o700))
		}, artifacts.ErrAltered, false},
		"a byte of the manifest": {func(_ *testing.T, store, digest, _ string) error { return overwrite(manifestOf(store, digest)) }, artifacts.ErrAltered, false},
		"a huge manifest": {func(_ *testing.T, store, digest, _ string) error {
			return os.Truncate(manifestOf(store, digest), 1<<40)
		}, artifacts.ErrAltered, false},
		"the manifest": {func(_ *testing.T, store, digest, _ string) error { return os.Remove(manifestOf(store, digest)) }, artifacts.ErrMissing, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, store := newStore(t)
			digest, files := unpacked(t, s, toolchain)
			must(t, test.alter(t, store, digest, files))
			for range 2 { // it is not taken for right because it was looked at
				got, err := s.Directory(t.Context(), digest)
				assert.True(t, errors.Is(err, test.want) && got == "" && strings.Contains(err.Error(), digest), "it is unpacked at %q, %v", got, err)
				err = s.Verify(t.Context(), digest)
				assert.True(t, errors.Is(err, test.want) && !errors.Is(err, fs.ErrNotExist), "it is verified: %v", err)
			}
			if info, err := os.Stat(layerOrNothing(store, digest)); err == nil && info.IsDir() {
				must(t, s.Remove(t.Context(), digest))
			}
			assert.Equal(t, digest, collect(t, s, write(t, toolchain)).Digest, "made again")
			again, err := s.Directory(t.Context(), digest)
			must(t, err)
			assert.Equal(t, digest, collect(t, s, again).Digest, "unpacked again")
			must(t, s.Verify(t.Context(), digest))
			wantNothingHalf(t, store)
		})
	}
}

// layerOrNothing is a blob of a store that is not the manifest.
func layerOrNothing(store, digest string) string {
	blobs, _ := filepath.Glob(filepath.Join(store, "blobs", "sha256", "*"))
	for _, blob := range blobs {
		if !strings.HasSuffix(digest, filepath.Base(blob)) {
			return blob
		}
	}
	return ""
}

// Whatever byte of a layer is another, that is found.
func TestEveryByteOfALayerCounts(t *testing.T) {
	s, store := newStore(t)
	digest := collect(t, s, write(t, map[string]string{"a/b!": "program", "c": "-> a/b"})).Digest
	layer := layerOf(t, store, digest)
	right, err := os.ReadFile(layer)
	must(t, err)
	for i := 0; i < len(right); i += ringtest.Cases(7, 1) {
		wrong := bytes.Clone(right)
		wrong[i] ^= byte(1 + i%255)
		must(t, os.WriteFile(layer, wrong, 0o600))
		require.ErrorIs(t, s.Verify(t.Context(), digest), artifacts.ErrAltered, "byte %d", i)
	}
	must(t, os.WriteFile(layer, append(right, 0), 0o600))
	assert.ErrorIs(t, s.Verify(t.Context(), digest), artifacts.ErrAltered, "a byte more")
}

// A store that was brought back from a backup has other times, and is as right as it was.
func TestACopyWithAnotherFingerprintIsReadAndKept(t *testing.T) {
	s, store := newStore(t)
	digest, files := unpacked(t, s, toolchain)
	must(t, os.Chmod(filepath.Join(files, "README"), 0o400))
	must(t, os.Chmod(filepath.Join(files, "README"), 0o444))
	print := filepath.Join(filepath.Dir(files), "fingerprint")
	before, err := os.ReadFile(print)
	must(t, err)
	require.NoError(t, errOf(s.Directory(t.Context(), digest)))
	after, err := os.ReadFile(print)
	assert.True(t, err == nil && !bytes.Equal(before, after), "the fingerprint is the same, %v", err)
	wantNothingHalf(t, store)
}

// When the machine stops, what was unpacked may not be on the disk yet.
func TestACopyThatWasLostWithTheMachineIsMadeAgain(t *testing.T) {
	s, store := newStore(t)
	digest, files := unpacked(t, s, toolchain)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(files), "fingerprint"), []byte("another start\n"), 0o600))
	must(t, os.Truncate(filepath.Join(files, "README"), 0))
	again, err := s.Directory(t.Context(), digest)
	must(t, err)
	text, err := os.ReadFile(filepath.Join(again, "README"))
	assert.True(t, err == nil && string(text) == "hello\n", "it is %q, %v", text, err)
	wantNothingHalf(t, store)
}

func TestManyStoreAndUnpackTheSameAtOnce(t *testing.T) {
	_, store := newStore(t)
	dir := write(t, toolchain)
	digests := make([]string, 16)
	var all sync.WaitGroup
	for i := range digests {
		all.Go(func() {
			s := artifacts.In(store)
			a, err := s.Collect(t.Context(), dir, artifacts.Limits{})
			if err == nil {
				_, err = s.Directory(t.Context(), a.Digest)
			}
			if err == nil && i%4 == 0 {
				_, err = s.Prune(t.Context(), time.Now().Add(-time.Hour), func(string) bool { return false }, false)
			}
			if err == nil {
				err = s.Verify(t.Context(), a.Digest)
			}
			assert.NoError(t, err)
			digests[i] = a.Digest
		})
	}
	all.Wait()
	for _, digest := range digests {
		assert.Equal(t, digests[0], digest, "the digests are %q", digests)
	}
	wantNothingHalf(t, store)
}

// What has holes takes more of the disk in the store than it took before.
func TestAFileWithHolesIsRefusedWhereTheDiskHasNoRoomForIt(t *testing.T) {
	s, dir := newStore(t)
	from := t.TempDir()
	var disk syscall.Statfs_t
	must(t, syscall.Statfs(from, &disk))
	free := uint64(disk.Bavail) * uint64(disk.Bsize) //nolint:unconvert // types differ among systems
	must(t, os.WriteFile(filepath.Join(from, "holes"), []byte("x"), 0o600))
	must(t, os.Truncate(filepath.Join(from, "holes"), 15<<30))
	_, err := s.Collect(t.Context(), from, artifacts.Limits{MinFree: free - min(free, 1<<30)})
	var refused *artifacts.RefusedError
	assert.True(t, errors.As(err, &refused) && refused.Path == "holes" && strings.Contains(refused.Reason, "has 16106127360 bytes with its holes"), "it is %v", err)
	must(t, os.WriteFile(filepath.Join(from, "holes"), []byte("text"), 0o600))
	if _, err = s.Collect(t.Context(), from, artifacts.Limits{MinFree: 1 << 62}); !errors.Is(err, syscall.ENOSPC) || errors.As(err, &refused) {
		t.Errorf("without holes it is %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "tmp", "*"))
	assert.True(t, len(left) == 0, "left is %q", left)
}
