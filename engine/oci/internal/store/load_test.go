//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

var arm64 = v1.Platform{OS: "linux", Architecture: "arm64"}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func zstandard(t testing.TB, content []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll(content, nil)
}

// compressed is a layer as registries deliver it.
type compressed struct {
	v1.Layer
	diffID v1.Hash
}

func (c compressed) DiffID() (v1.Hash, error) { return c.diffID, nil }

// imageWith makes an image of one layer of any media type.
func imageWith(t testing.TB, kind types.MediaType, delivered, content []byte) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(imageOf(t), compressed{static.NewLayer(delivered, kind), hashOf(content)})
	require.NoError(t, err)
	return image
}

// layoutOf makes a directory with an OCI layout of an index.
func layoutOf(t testing.TB, add ...mutate.IndexAddendum) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, add...)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func named(image v1.Image, key, name string) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: map[string]string{key: name}}}
}

func variant(image v1.Image, platform v1.Platform) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}}
}

// tarOfDir packs a directory.
func tarOfDir(t testing.TB, dir string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func TestEveryFormOfAnImageCanBeLoaded(t *testing.T) {
	content := tarOf(t, file("a", "1"))
	image := imageOf(t, content)
	plain := save(t, "web", image)
	inLayout := layoutOf(t, named(image, fullNameAnnotation, "web"))
	config, err := image.RawConfigFile()
	require.NoError(t, err)
	old := tarOf(t, // as Docker wrote it when layers had directories of their own
		file("abc/layer.tar", string(content)), symlink("def/layer.tar", "../abc/layer.tar"), hardLink("ghi", "def/layer.tar"),
		file("./c.json", string(config)),
		file("manifest.json", `[{"Config":"c.json","RepoTags":["web:latest"],"Layers":["ghi"]}]`))
	both := tarOf(t, // a modern one is a layout too
		file("manifest.json", fmt.Sprintf(`[{"Config":"blobs/sha256/%s","RepoTags":["web:latest"],"Layers":["blobs/sha256/%s"]}]`, hashOf(config).Hex, hashOf(content).Hex)),
		file("index.json", `{"manifests":[]}`),
		file("blobs/sha256/"+hashOf(config).Hex, string(config)), file("blobs/sha256/"+hashOf(content).Hex, string(content)))
	for _, c := range []struct {
		name   string
		packed []byte
		config []byte
	}{
		{"docker save", plain, config},
		{"docker save, with gzip", gzipped(t, plain), config},
		{"docker save, with zstd", zstandard(t, plain), config},
		{"an older docker save, with links", old, config},
		{"a modern docker save", both, config},
		{"a layout", tarOfDir(t, inLayout), config},
		{"a layout, with gzip", gzipped(t, tarOfDir(t, inLayout)), config},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			var done int64
			images, err := s.Load(t.Context(), bytes.NewReader(c.packed), func(now int64) {
				assert.True(t, now > done, "progress goes from %d to %d", done, now)
				done = now
			})
			require.NoError(t, err)
			assert.True(t, done == int64(len(c.packed)), "progress ends with %d bytes, want %d", done, len(c.packed))
			if len(images) != 1 || !slices.Equal(images[0].Names, []string{"web:latest"}) || images[0].ID != hashOf(c.config).String() {
				t.Fatalf("loaded were %+v", images)
			}
			checkTree(t, lease(t, s, images[0].ID).Layers[0], `a "1"`)

			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, c.packed, 0o600))
			if again, err := s.LoadPath(t.Context(), path, nil); err != nil || len(again) != 1 || again[0].ID != images[0].ID {
				t.Errorf("loaded from the file were %v, %v", again, err)
			}
		})
	}
	t.Run("a directory with a layout", func(t *testing.T) {
		s := open(t, t.TempDir())
		var done int64
		images, err := s.LoadPath(t.Context(), inLayout, func(now int64) { done = now })
		require.NoError(t, err)
		assert.True(t, done == int64(len(content)), "progress ends with %d bytes, want %d", done, len(content))
		checkTree(t, lease(t, s, images[0].ID).Layers[0], `a "1"`)
	})
}

func TestLayersOfEveryCompression(t *testing.T) {
	content := tarOf(t, file("a", "1"))
	for _, c := range []struct {
		kind      types.MediaType
		delivered []byte
	}{
		{types.OCIUncompressedLayer, content},
		{types.OCILayer, gzipped(t, content)},
		{types.DockerLayer, gzipped(t, content)},
		{types.OCILayerZStd, zstandard(t, content)},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			s := open(t, t.TempDir())
			images, err := s.LoadPath(t.Context(), layoutOf(t, named(imageWith(t, c.kind, c.delivered, content), fullNameAnnotation, "web")), nil)
			require.NoError(t, err)
			checkTree(t, lease(t, s, images[0].ID).Layers[0], `a "1"`)
		})
	}
}

func TestSeveralImagesAtOnce(t *testing.T) {
	one, two := imageOf(t, tarOf(t, file("a", "1"))), imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	foreign := forPlatform(t, one, arm64)
	refName := func(image v1.Image, name string) mutate.IndexAddendum { return named(image, refNameAnnotation, name) }
	for _, c := range []struct {
		name string
		dir  string
		want []string // names, or "" for an image without one
	}{
		{"two names", layoutOf(t, named(one, fullNameAnnotation, "one:1"), refName(two, "two:2")), []string{"one:1", "two:2"}},
		{"a name that is only a tag", layoutOf(t, refName(one, "latest")), []string{""}},
		{"no names", layoutOf(t, mutate.IndexAddendum{Add: one}, mutate.IndexAddendum{Add: two}), []string{"", ""}},
		{"one image for two platforms", layoutOf(t, variant(foreign, arm64), variant(two, amd64)), []string{""}},
		{"an index for two platforms", layoutOf(t, mutate.IndexAddendum{
			Add:        mutate.AppendManifests(empty.Index, variant(foreign, arm64), variant(two, amd64)),
			Descriptor: v1.Descriptor{Annotations: map[string]string{fullNameAnnotation: "web"}},
		}), []string{"web:latest"}},
		{"what a builder attaches", layoutOf(t, variant(two, amd64), variant(foreign, v1.Platform{OS: "unknown", Architecture: "unknown"})), []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			images, err := s.LoadPath(t.Context(), c.dir, nil)
			require.NoError(t, err)
			var got []string
			for _, image := range images {
				got = append(got, strings.Join(image.Names, " "))
				lease(t, s, image.ID)
			}
			assert.True(t, slices.Equal(got, c.want), "the names are %q, want %q", got, c.want)
		})
	}
	t.Run("docker save with two images", func(t *testing.T) {
		s := open(t, t.TempDir())
		images, err := s.Load(t.Context(), bytes.NewReader(saveAll(t, map[string]v1.Image{"one": one, "two": two})), nil)
		assert.True(t, err == nil && len(images) == 2, "loaded were %v, %v; want two", images, err)
	})
}

func TestLoadingEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe() // nobody will write more
	defer write.Close()
	done := make(chan error)
	go func() {
		_, err := s.Load(ctx, read, nil)
		done <- err
	}()
	if _, err := write.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel()
	checkError(t, <-done, context.Canceled, "load images")
	checkEmpty(t, s)
}

func TestOfAnImageSavedForSeveralPlatformsOneIsTaken(t *testing.T) {
	content := tarOf(t, file("a", "1"))
	ours := imageOf(t, content)
	configs := []tarEntry{file("l", string(content))}
	var manifests []savedManifest
	for i, image := range []v1.Image{forPlatform(t, ours, arm64), ours} {
		raw, err := image.RawConfigFile()
		require.NoError(t, err)
		configs = append(configs, file(fmt.Sprint(i), string(raw)))
		manifests = append(manifests, savedManifest{Config: fmt.Sprint(i), RepoTags: []string{"web:1"}, Layers: []string{"l"}})
	}
	raw, err := json.Marshal(manifests)
	require.NoError(t, err)
	s := open(t, t.TempDir())
	image := load(t, s, tarOf(t, append(configs, file("manifest.json", string(raw)))...))
	if want, err := ours.ConfigName(); err != nil || image.ID != want.String() {
		t.Errorf("loaded was %s, want %s, %v", image.ID, want, err)
	}
}

// Who holds a layer may be waiting for another, so that nobody waits for it to
// let go.
func TestALayerThatSomebodyHoldsIsShared(t *testing.T) {
	s := open(t, t.TempDir())
	wanted := layer{diffID: hashOf([]byte("unpacked by somebody else")), size: 5}
	other, err := try(s.layerLock(wanted.diffID), shared)
	require.NoError(t, err)
	defer other.release()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var seen int64
		done := make(chan error)
		go func() {
			held, err := s.layer(ctx, nil, wanted, func(n int64) { seen += n })
			if err == nil {
				held.release()
			}
			done <- err
		}()
		synctest.Wait() // until it waits
		assert.NoError(t, makeDir(s.layerDir(wanted.diffID)))
		if err := <-done; err != nil || seen != wanted.size {
			t.Errorf("%d bytes seen, %v; want the layer", seen, err)
		}
	})
}

// Each of two may hold what the other is waiting for, which shows only sometimes.
func TestLoadsOfTheSameLayersDoNotWaitForEachOther(t *testing.T) {
	var layers [][]byte
	for i := range 12 {
		layers = append(layers, tarOf(t, file(fmt.Sprintf("f%d", i), fmt.Sprint(i))))
	}
	packed := save(t, "x:1", imageOf(t, layers...))
	for range ringtest.Cases(5, 40) {
		dir := t.TempDir()
		ctx := waittest.Context(t)
		var group sync.WaitGroup
		for range 2 {
			s := open(t, dir)
			group.Go(func() {
				if _, err := s.Load(ctx, bytes.NewReader(packed), nil); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}
