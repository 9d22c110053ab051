package artifacts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func unpacked(t *testing.T, s *artifacts.Store, files map[string]string) (digest, path string) {
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

// changing is a context that changes a directory when it is looked at for the nth time, as
// something that a job left running does.
type changing struct {
	context.Context
	after  int
	change func()
}

func (c *changing) Err() error {
	if c.after--; c.after == 0 {
		c.change()
	}
	return c.Context.Err()
}

func TestWhatChangesWhileItIsReadIsRefused(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	changes := map[string]func(dir string) error{
		"longer":       func(dir string) error { return appendTo(filepath.Join(dir, "a"), "more") },
		"shorter":      func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), 10) },
		"other bytes":  func(dir string) error { return overwrite(filepath.Join(dir, "a")) },
		"another file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) },
		"a file less":  func(dir string) error { return os.Remove(filepath.Join(dir, "z")) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "z")), os.Symlink("/etc/passwd", filepath.Join(dir, "z")))
		},
		"a link inside": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "m")), os.Symlink("n", filepath.Join(dir, "m")))
		},
		"a dir for file": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "z")), os.Mkdir(filepath.Join(dir, "z"), 0o700))
		},
	}
	for what, change := range changes {
		for after := 3; after <= 6; after++ { // once it is listed
			t.Run(fmt.Sprint(what, after), func(t *testing.T) {
				s, store := newStore(t)
				dir := write(t, map[string]string{"a": big, "m/x": "1", "n/x": "2", "z": big})
				waitForClock(t, dir)
				ctx := &changing{t.Context(), after, func() { must(t, change(dir)) }}
				a, err := s.Collect(ctx, dir, artifacts.Limits{})
				refused := new(artifacts.RefusedError)
				assert.True(t, errors.As(err, &refused) && refused.Path != "", "it is %v, %v", a, err)
				wantNothingHalf(t, store)
			})
		}
	}
}

// waitForClock returns when what changes has another time than what is in a directory.
func waitForClock(t *testing.T, dir string) {
	was, err := os.Stat(filepath.Join(dir, "z"))
	must(t, err)
	clock := filepath.Join(t.TempDir(), "clock")
	for {
		must(t, os.WriteFile(clock, []byte("x"), 0o600))
		if is, err := os.Stat(clock); err != nil || is.ModTime().After(was.ModTime().Add(20*time.Millisecond)) {
			must(t, err)
			return
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestAttestationsAreBesideAnArtifact(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	digest := must1(name.NewDigest(ref))
	const predicate = "https://slsa.dev/provenance/v1"
	for _, one := range []artifacts.Attestation{
		{"application/vnd.in-toto+json", predicate, []byte(`{"signed":false}`)},
		{artifacts.EnvelopeType, predicate, []byte(`{"signed":1}`)},
		{artifacts.EnvelopeType, predicate, []byte(`{"signed":2}`)},
	} {
		for range 2 {
			at, err := artifacts.Attach(t.Context(), ref, one)
			must(t, err)
			image, err := remote.Image(must1(name.NewDigest(at)))
			must(t, err)
			manifest, err := image.Manifest()
			must(t, err)
			if manifest.Subject == nil || manifest.Subject.Digest.String() != a.Digest || manifest.ArtifactType != "application/vnd.in-toto+json" || manifest.Annotations["in-toto.io/predicate-type"] != predicate {
				t.Errorf("the referrer is %+v", manifest)
			}
			assert.Equal(t, string(one.Content), contentOf(t, image, 0))
		}
	}
	index, err := remote.Referrers(digest)
	must(t, err)
	list, err := index.IndexManifest()
	must(t, err)
	assert.True(t, len(list.Manifests) == 3, "listed are %+v", list.Manifests)
	signed, err := remote.Image(digest.Context().Tag(strings.Replace(a.Digest, ":", "-", 1) + ".att"))
	must(t, err)
	manifest, err := signed.Manifest()
	must(t, err)
	if len(manifest.Layers) != 2 || manifest.Layers[1].Annotations["predicateType"] != predicate || contentOf(t, signed, 1) != `{"signed":2}` {
		t.Errorf("at the tag of cosign are %+v", manifest.Layers)
	}
}

func contentOf(t *testing.T, image v1.Image, layer int) string {
	layers, err := image.Layers()
	must(t, err)
	content, err := layers[layer].Compressed()
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, err)
	return string(text)
}

func TestWhatCannotBeAttachedIsRefused(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	one := artifacts.Attestation{artifacts.EnvelopeType, "x", []byte("{}")}
	for to, want := range map[string]string{
		r.Host + "/builds/gcc:9.1":           "write REGISTRY/REPOSITORY@sha256:…",
		r.Host + "/builds/other@" + a.Digest: "does not have it",
		ref[:len(ref)-8] + "00000000":        "does not have it",
	} {
		at, err := artifacts.Attach(t.Context(), to, one)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %s, %v", to, at, err)
	}
	// What others have at the tag of cosign is not replaced.
	digest := must1(name.NewDigest(ref))
	tag := digest.Context().Tag(strings.Replace(a.Digest, ":", "-", 1) + ".att")
	many := v1.Manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json", Layers: make([]v1.Descriptor, 1000)}
	for i := range many.Layers {
		many.Layers[i].Digest = v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	}
	text, err := json.Marshal(many)
	must(t, err)
	must(t, remote.Put(tag, raw(text)))
	assert.ErrorContains(t, errOf(artifacts.Attach(t.Context(), ref, one)), "remove it", "beside 1000 others")
}

type raw []byte

func (r raw) RawManifest() ([]byte, error) { return r, nil }
func (r raw) MediaType() (types.MediaType, error) {
	return "application/vnd.oci.image.manifest.v1+json", nil
}
