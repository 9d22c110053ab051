//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0})
	require.NoError(t, err)
	return s
}

// file is a regular file for a layer.
func file(name, content string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content: content}
}

func directory(name string, mode int64) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}}
}

func symlink(name, target string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

func hardLink(name, target string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}}
}

type tarEntry struct {
	tar.Header
	content string
}

// tarOf packs entries.
func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, entry := range entries {
		entry.Size = int64(len(entry.content))
		if entry.Typeflag != tar.TypeXGlobalHeader {
			entry.ModTime = time.Unix(1, 0)
		}
		require.NoError(t, w.WriteHeader(&entry.Header), "pack %.40q", entry.Name)
		if _, err := io.WriteString(w, entry.content); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, w.Close())
	return packed.Bytes()
}

// imageOf makes an image of layers, the lowest first, given as tars.
func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	var made []v1.Layer
	for _, content := range layers {
		made = append(made, static.NewLayer(content, types.OCIUncompressedLayer))
	}
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), made...)
	require.NoError(t, err)
	return forPlatform(t, image, amd64)
}

func forPlatform(t testing.TB, image v1.Image, platform v1.Platform) v1.Image {
	t.Helper()
	return withConfig(t, image, func(config *v1.ConfigFile) {
		config.OS, config.Architecture = platform.OS, platform.Architecture
	})
}

func withConfig(t testing.TB, image v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	change(config)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// save packs an image as `docker save` does.
func save(t testing.TB, ref string, image v1.Image) []byte {
	t.Helper()
	return saveAll(t, map[string]v1.Image{ref: image})
}

func saveAll(t testing.TB, images map[string]v1.Image) []byte {
	t.Helper()
	tags := map[name.Tag]v1.Image{}
	for ref, image := range images {
		tag, err := name.NewTag(ref)
		require.NoError(t, err)
		tags[tag] = image
	}
	var packed bytes.Buffer
	require.NoError(t, tarball.MultiWrite(tags, &packed))
	return packed.Bytes()
}

func load(t testing.TB, s *Store, packed []byte) Image {
	t.Helper()
	images, err := s.Load(t.Context(), bytes.NewReader(packed), nil)
	require.NoError(t, err)
	require.Len(t, images, 1, "images were loaded")
	return images[0]
}

// lease takes the layers of an image and gives them back at the end.
func lease(t testing.TB, s *Store, id string) *Lease {
	t.Helper()
	held, err := s.Rootfs(t.Context(), id)
	require.NoError(t, err)
	t.Cleanup(held.Release)
	return held
}

// checkError wants an error that is target (nil: any) and says the texts.
func checkError(t *testing.T, err, target error, texts ...string) {
	t.Helper()
	require.Error(t, err, "no error, want one that says %q", texts)
	assert.False(t, target != nil && !errors.Is(err, target), "error %q is not %q", err, target)
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "error %q does not say %q", err, text)
	}
}

// checkEmpty wants a store without images, layers and leftovers.
func checkEmpty(t *testing.T, s *Store) {
	t.Helper()
	images, err := s.List()
	assert.True(t, err == nil && len(images) <= 0, "the store lists %v, %v; want nothing", images, err)
	for _, dir := range []string{"images", "layers/sha256", "tmp"} {
		if left := namesIn(t, filepath.Join(s.dir, dir)); len(left) > 0 {
			t.Errorf("%s holds %v, want nothing", dir, left)
		}
	}
	for _, lock := range namesIn(t, filepath.Join(s.dir, "locks")) {
		assert.Equal(t, "index", lock, "the lock")
	}
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// tree lists what is below a directory, one line each: path, type and content
// or target, if there is one.
func tree(dir string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		line, about := name, ""
		switch entry.Type() {
		case fs.ModeDir:
			line += "/"
		case 0:
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			about = fmt.Sprintf("%q", content)
		case fs.ModeSymlink:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			about = "-> " + target
		default:
			about = entry.Type().String()
		}
		lines = append(lines, strings.TrimSpace(line+" "+about))
		return nil
	})
	return lines, err
}

func checkTree(t *testing.T, dir string, want ...string) {
	t.Helper()
	got, err := tree(dir)
	require.NoError(t, err)
	assert.True(t, slices.Equal(got, want), "%s holds\n  %s\nwant\n  %s", dir, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}
