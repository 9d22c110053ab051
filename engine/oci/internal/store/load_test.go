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
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

var arm64 = v1.Platform{OS: "linux", Architecture: "arm64"}

func gzipped(t testing.TB, content []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	must.Get(w.Write(content))(t)
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func zstandard(t testing.TB, content []byte) []byte {
	w := must.Get(zstd.NewWriter(nil))(t)
	defer w.Close()
	return w.EncodeAll(content, nil)
}

// compressed is a layer as registries deliver it.
type compressed struct {
	v1.Layer
	diffID v1.Hash
}

func (c compressed) DiffID() (v1.Hash, error) { return c.diffID, nil }

func imageWith(t testing.TB, kind types.MediaType, delivered, content []byte) v1.Image {
	t.Helper()
	return must.Get(mutate.AppendLayers(imageOf(t), compressed{static.NewLayer(delivered, kind), hashOf(content)}))(t)
}

func layoutOf(t testing.TB, add ...mutate.IndexAddendum) string {
	dir := t.TempDir()
	must.Get(layout.Write(dir, mutate.AppendManifests(empty.Index, add...)))(t)
	return dir
}

func named(image v1.Image, key, name string) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: map[string]string{key: name}}}
}

func variant(image v1.Image, platform v1.Platform) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}}
}

func tarOfDir(t testing.TB, dir string) []byte {
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
	config := must.Get(image.RawConfigFile())(t)
	old := tarOf(t, // as Docker wrote it when layers had directories of their own
		file("abc/layer.tar", string(content)), symlink("def/layer.tar", "../abc/layer.tar"), hardLink("ghi", "def/layer.tar"),
		file("./c.json", string(config)),
		file("manifest.json", `[{"Config":"c.json","RepoTags":["web:latest"],"Layers":["ghi"]}]`))
	both := tarOf(t, // a modern one is a layout too
		file("manifest.json", fmt.Sprintf(`[{"Config":"blobs/sha256/%s","RepoTags":["web:latest"],"Layers":["blobs/sha256/%s"]}]`, hashOf(config).Hex, hashOf(content).Hex)),
		file("index.json", `{"manifests":[]}`),
		file("blobs/sha256/"+hashOf(config).Hex, string(config)), file("blobs/sha256/"+hashOf(content).Hex, string(content)))
	for _, c := range []struct {
		name           string
		packed, config []byte
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
			images := must.Get(s.Load(t.Context(), bytes.NewReader(c.packed), func(now int64) {
				assert.True(t, now > done, "progress goes from %d to %d", done, now)
				done = now
			}))(t)
			assert.True(t, done == int64(len(c.packed)), "progress ends with %d bytes, want %d", done, len(c.packed))
			require.True(t, len(images) == 1 && slices.Equal(images[0].Names, []string{"web:latest"}) &&
				images[0].ID == hashOf(c.config).String(), "loaded were %+v", images)
			checkTree(t, lease(t, s, images[0].ID).Layers[0], `a "1"`)
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, c.packed, 0o600))
			again := must.Get(s.LoadPath(t.Context(), path, nil))(t)
			assert.True(t, len(again) == 1 && again[0].ID == images[0].ID, "loaded from the file were %v", again)
		})
	}
	t.Run("a directory with a layout", func(t *testing.T) {
		s := open(t, t.TempDir())
		var done int64
		images := must.Get(s.LoadPath(t.Context(), inLayout, func(now int64) { done = now }))(t)
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
			images := must.Get(s.LoadPath(t.Context(), layoutOf(t, named(imageWith(t, c.kind, c.delivered, content), fullNameAnnotation, "web")), nil))(t)
			checkTree(t, lease(t, s, images[0].ID).Layers[0], `a "1"`)
		})
	}
}

func TestSeveralImagesAtOnce(t *testing.T) {
	one, two := imageOf(t, tarOf(t, file("a", "1"))), imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	foreign := forPlatform(t, one, arm64)
	refName := func(image v1.Image, name string) mutate.IndexAddendum { return named(image, refNameAnnotation, name) }
	for _, c := range []struct {
		name, dir string
		want      []string // names, or "" for an image without one
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
			images := must.Get(s.LoadPath(t.Context(), c.dir, nil))(t)
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
		images := must.Get(s.Load(t.Context(), bytes.NewReader(saveAll(t, map[string]v1.Image{"one": one, "two": two})), nil))(t)
		assert.Len(t, images, 2)
	})
}

func TestLoadingEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe() // nobody will write more
	defer write.Close()
	done := make(chan error)
	go func() { _, err := s.Load(ctx, read, nil); done <- err }()
	must.Get(write.Write(make([]byte, 100)))(t)
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
		raw := must.Get(image.RawConfigFile())(t)
		configs = append(configs, file(fmt.Sprint(i), string(raw)))
		manifests = append(manifests, savedManifest{Config: fmt.Sprint(i), RepoTags: []string{"web:1"}, Layers: []string{"l"}})
	}
	raw := must.Get(json.Marshal(manifests))(t)
	s := open(t, t.TempDir())
	image := load(t, s, tarOf(t, append(configs, file("manifest.json", string(raw)))...))
	want := must.Get(ours.ConfigName())(t)
	assert.Equal(t, want.String(), image.ID, "loaded was %s, want %s", image.ID, want)
}

// Who holds a layer may be waiting for another, so that nobody waits for it to let go.
func TestALayerThatSomebodyHoldsIsShared(t *testing.T) {
	s := open(t, t.TempDir())
	wanted := layer{diffID: hashOf([]byte("unpacked by somebody else")), size: 5}
	other := must.Get(try(s.layerLock(wanted.diffID), shared))(t)
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
		err := <-done
		assert.True(t, err == nil && seen == wanted.size, "%d bytes seen, %v; want the layer", seen, err)
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
				_, err := s.Load(ctx, bytes.NewReader(packed), nil)
				assert.NoError(t, err)
			})
		}
		group.Wait()
	}
}

// small bounds what a test unpacks.
var small = limits{bytes: 1 << 20, entries: 1000, names: 1 << 16}

// unpackBeside unpacks into a directory that has a neighbour, which no layer may touch.
func unpackBeside(t testing.TB, content []byte, limit limits) (string, error) {
	return unpackIn(t, t.TempDir(), content, limit)
}

func unpackIn(t testing.TB, parent string, content []byte, limit limits) (string, error) {
	dir, neighbour := filepath.Join(parent, "root"), filepath.Join(parent, "outside")
	for _, made := range []string{dir, neighbour} {
		require.NoError(t, makeDir(made))
	}
	require.NoError(t, os.WriteFile(filepath.Join(neighbour, "canary"), []byte("alive"), 0o600))
	err := unpack(t.Context(), dir, bytes.NewReader(content), os.Geteuid() != 0, limit)
	got, _ := tree(neighbour)
	assert.True(t, len(got) == 1 && got[0] == `canary "alive"`, "the layer reached out: beside it is %q", got)
	assert.True(t, !isOpaque(neighbour, os.Geteuid() != 0), "the layer reached out: the directory beside it is opaque")
	names, _ := os.ReadDir(parent)
	assert.Len(t, names, 2, "the layer reached out: beside")
	return dir, err
}

func entryOf(kind byte, name string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: kind, Name: name, Mode: 0o644}}
}

func device(kind byte, name string, major, minor int64) tarEntry {
	made := entryOf(kind, name)
	made.Devmajor, made.Devminor = major, minor
	return made
}

var hostileLayers = []struct {
	name    string
	entries []tarEntry
	leaves  []string // what is unpacked
	fails   string   // or why it is not
}{
	{name: "names that climb stay inside",
		entries: []tarEntry{file("../../evil", "1"), file("a/../../../b", "2"), directory("../outside", 0o755), file("../outside/canary", "3")},
		leaves:  []string{`b "2"`, `evil "1"`, `outside/`, `outside/canary "3"`}},
	{name: "absolute names stay inside", entries: []tarEntry{file("/etc/passwd", "1")}, leaves: []string{`etc/`, `etc/passwd "1"`}},
	{name: "an absolute symlink is kept, and leads inside",
		entries: []tarEntry{symlink("link", "/etc"), directory("etc", 0o755), file("link/passwd", "1")},
		leaves:  []string{`etc/`, `etc/passwd "1"`, `link -> /etc`}},
	{name: "a symlink that climbs is kept, and leads inside",
		entries: []tarEntry{symlink("link", "../../outside"), file("link/canary", "1")},
		leaves:  []string{`link -> ../../outside`, `outside/`, `outside/canary "1"`}},
	{name: "symlinks that lead to each other end",
		entries: []tarEntry{symlink("a", "b"), symlink("b", "a"), file("a/file", "1")}, fails: "too many links"},
	{name: "a file replaces a symlink and does not follow it",
		entries: []tarEntry{symlink("link", "../outside/canary"), file("link", "1")}, leaves: []string{`link "1"`}},
	{name: "a directory replaces a symlink and does not follow it",
		entries: []tarEntry{symlink("link", "../outside"), directory("link", 0o700), file("link/canary", "1")},
		leaves:  []string{`link/`, `link/canary "1"`}},
	{name: "the root stays a directory",
		entries: []tarEntry{file("a", "1"), symlink("./", "/etc"), directory(".", 0o700), file("b", "2")},
		leaves:  []string{`a "1"`, `b "2"`}},
	{name: "hard links lead to the same layer",
		entries: []tarEntry{file("a", "1"), directory("d", 0o755), hardLink("d/b", "a"), hardLink("c", "/a")},
		leaves:  []string{`a "1"`, `c "1"`, `d/`, `d/b "1"`}},
	{name: "a hard link does not climb", entries: []tarEntry{hardLink("stolen", "../outside/canary")}, fails: "no such file"},
	{name: "a hard link does not follow a symlink out",
		entries: []tarEntry{symlink("dir", "../outside"), hardLink("stolen", "dir/canary")}, fails: "no such file"},
	{name: "a hard link to a symlink is one to the symlink",
		entries: []tarEntry{symlink("link", "../outside/canary"), hardLink("copy", "link")},
		leaves:  []string{`copy -> ../outside/canary`, `link -> ../outside/canary`}},
	{name: "a hard link to a later entry", entries: []tarEntry{hardLink("a", "b"), file("b", "1")}, fails: "no such file"},
	{name: "a hard link to a directory",
		entries: []tarEntry{directory("d", 0o755), hardLink("a", "d")}, fails: "operation not permitted"},
	{name: "devices are left out, also those that would delete",
		entries: []tarEntry{device(tar.TypeChar, "null", 1, 3), device(tar.TypeBlock, "disk", 8, 0), device(tar.TypeChar, "deleted", 0, 0), file("a", "1")},
		leaves:  []string{`a "1"`}},
	{name: "pipes are kept", entries: []tarEntry{entryOf(tar.TypeFifo, "pipe")}, leaves: []string{`pipe p---------`}},
	{name: "a type that nobody knows", entries: []tarEntry{entryOf('Z', "what")}, fails: "type"},
	{name: "a file below a file", entries: []tarEntry{file("a", "1"), file("a/b", "2")}, fails: "not a directory"},
	{name: "a name that is too long", entries: []tarEntry{file(strings.Repeat("a", 300), "1")}, fails: "file name too long"},
	{name: "a path that is too long", entries: []tarEntry{file(strings.Repeat("a/", 3000)+"a", "1")}, fails: "4096 bytes"},
	{name: "an owner that is no number of a user",
		entries: []tarEntry{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "a", Uid: 1 << 32}}}, fails: "owner 4294967296:0"},
	{name: "a whiteout becomes a device",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.gone", "")}, leaves: []string{`d/`, `d/gone Dc---------`}},
	{name: "a whiteout does not delete what its own layer brings",
		entries: []tarEntry{file("a", "1"), file(".wh.a", ""), file(".wh.b", ""), file("b", "2")},
		leaves:  []string{`a "1"`, `b "2"`}},
	{name: "a whiteout has no name", entries: []tarEntry{file(".wh.", "")}, fails: "invalid whiteout"},
	{name: "a whiteout climbs", entries: []tarEntry{directory("d", 0o755), file("d/.wh...", "")}, fails: "invalid whiteout"},
	{name: "a whiteout below a symlink stays inside",
		entries: []tarEntry{symlink("link", "../outside"), file("link/.wh.canary", "")},
		leaves:  []string{`link -> ../outside`, `outside/`, `outside/canary Dc---------`}},
	{name: "a whiteout whose directory becomes a symlink out",
		entries: []tarEntry{file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), symlink("d", "../outside")}, fails: "escapes"},
	{name: "a whiteout whose directory becomes an absolute symlink",
		entries: []tarEntry{file("d/.wh.other", ""), symlink("d", "/tmp")}, fails: "escapes"},
	{name: "a whiteout whose directory becomes a file",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), file("d", "1")},
		leaves:  []string{`d "1"`}},
	{name: "a whiteout whose directory becomes a pipe",
		entries: []tarEntry{directory("d", 0o755), file("d/.wh.other", ""), file("d/.wh..wh..opq", ""), entryOf(tar.TypeFifo, "d")},
		leaves:  []string{`d p---------`}},
	{name: "notes of a union file system", entries: []tarEntry{file(".wh..wh.plnk", ""), file(".wh..wh.aufs", "")}},
	{name: "a directory that may not be entered, and a file in it",
		entries: []tarEntry{directory("d", 0), {Header: tar.Header{Typeflag: tar.TypeReg, Name: "d/a", Mode: 0}, content: "1"}, file("d/.wh.b", "")},
		leaves:  []string{`d/`, `d/a "1"`, `d/b Dc---------`}},
	{name: "notes for the whole archive",
		entries: []tarEntry{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "1"}}}, file("a", "1")},
		leaves:  []string{`a "1"`}},
}

func TestHostileLayers(t *testing.T) {
	for _, c := range hostileLayers {
		t.Run(c.name, func(t *testing.T) {
			dir, err := unpackBeside(t, tarOf(t, c.entries...), small)
			if c.fails != "" {
				checkError(t, err, nil, c.fails)
				return
			}
			require.NoError(t, err)
			checkTree(t, dir, c.leaves...)
		})
	}
}

func TestOpaqueDirectoriesAreMarked(t *testing.T) {
	dir := must.Get(unpackBeside(t, tarOf(t,
		directory("opaque", 0o755), file("opaque/.wh..wh..opq", ""), file("opaque/new", ""),
		file(".wh.again", ""), directory("again", 0o755), file("again/new", ""),
		directory("plain", 0o755),
	), small))(t)
	checkTree(t, dir, `again/`, `again/new ""`, `opaque/`, `opaque/new ""`, `plain/`)
	for name, want := range map[string]bool{"opaque": true, "again": true, "plain": false} {
		assert.Equal(t, want, isOpaque(filepath.Join(dir, name), os.Geteuid() != 0), "%s is opaque", name)
	}
}

func TestOwnersModesAndAttributes(t *testing.T) {
	owned := tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "owned", Mode: 0o4711, Uid: os.Geteuid(), Gid: os.Getegid(), PAXRecords: map[string]string{
		"SCHILY.xattr.user.overlay.redirect":   "/etc",
		"SCHILY.xattr.user.other":              "1",
		"SCHILY.xattr.trusted.overlay.opaque":  "y",
		"SCHILY.xattr.security.capability":     "1",
		"SCHILY.xattr.system.posix_acl_access": "1",
	}}}
	if os.Geteuid() == 0 {
		owned.Uid, owned.Gid = 1234, 5678
	}
	dir := must.Get(unpackBeside(t, tarOf(t, owned), small))(t)
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, "owned"), &stat))
	wantMode := uint32(0o4711)
	if os.Geteuid() != 0 {
		wantMode |= 0o600
	}
	if int(stat.Uid) != owned.Uid || int(stat.Gid) != owned.Gid || stat.Mode&0o7777 != wantMode {
		t.Errorf("the file belongs to %d:%d with mode %o, want %d:%d and %o", stat.Uid, stat.Gid, stat.Mode&0o7777, owned.Uid, owned.Gid, wantMode)
	}
	assert.Equal(t, 0, must.Get(unix.Llistxattr(filepath.Join(dir, "owned"), nil))(t))
}

func TestALayerOrArchiveIsBounded(t *testing.T) {
	var many, long []tarEntry
	for i := range 11 {
		many = append(many, directory(fmt.Sprint(i), 0o755))
		long = append(long, symlink(fmt.Sprintf(".wh.%095d", i), strings.Repeat("b", 100)))
	}
	for _, c := range []struct {
		name    string
		content []byte
		limit   limits
		says    string
	}{
		{"too many entries", tarOf(t, many...), limits{bytes: 1 << 20, entries: 10, names: 1 << 20}, "more than 10 entries"},
		{"a large file", tarOf(t, file("a", strings.Repeat("a", 3000))), limits{bytes: 2999, entries: 10, names: 1 << 20}, "more than 2999 bytes"},
		{"large files together", tarOf(t, file("a", strings.Repeat("a", 2000)), file("b", strings.Repeat("a", 1000))), limits{bytes: 2999, entries: 10, names: 1 << 20}, "more than 2999 bytes"},
		{"a file of nothing but holes", sparse(t, 1<<62), limits{bytes: 1 << 20, entries: 10, names: 1 << 20}, "more than 1048576 bytes"},
		{"headers without end", tarOf(t, many...), limits{bytes: 3000, entries: 100, names: 1 << 20}, "more than 3000 bytes"},
		{"long names and links together", tarOf(t, long...), limits{bytes: 1 << 20, entries: 100, names: 2000}, "names have more than 2000 bytes"},
		{"a name that no path can be", tarOf(t, file(strings.Repeat("a/", 3000)+"a", "")), limits{bytes: 1 << 20, entries: 100, names: 1 << 20}, "name of more than 4096 bytes"},
		{"a link that no path can be", tarOf(t, symlink("a", strings.Repeat("a/", 3000))), limits{bytes: 1 << 20, entries: 100, names: 1 << 20}, "name of more than 4096 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := unpackBeside(t, c.content, c.limit)
			checkError(t, err, nil, c.says, "limit")
			in := must.Get(open(t, t.TempDir()).newWorkspace())(t)
			_, err = extract(in, bytes.NewReader(c.content), c.limit)
			checkError(t, err, nil, c.says, "limit")
			assert.NoError(t, in.remove())
		})
	}
}

// sparse is a tar of a file that is a hole of this size: a few bytes, which the reader of Go takes for all of it.
func sparse(t *testing.T, size int64) []byte {
	record := func(key, value string) string {
		length := len(key) + len(value) + 3
		for n := length; ; {
			line := fmt.Sprintf("%d %s=%s\n", n, key, value)
			if len(line) == n {
				return line
			}
			n = len(line)
		}
	}
	records := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.name", "a") +
		record("GNU.sparse.size", fmt.Sprint(size)) + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", fmt.Sprintf("%d,0", size))
	header := func(kind byte, size int) []byte {
		block := make([]byte, 512)
		copy(block, "a")
		copy(block[100:], "0000644\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
		block[156] = kind
		copy(block[257:], "ustar\x0000")
		copy(block[148:], "        ")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		return block
	}
	content := header('x', len(records))
	content = append(content, records...)
	content = append(content, make([]byte, 512-len(records)%512)...)
	content = append(content, header('0', 0)...)
	content = append(content, make([]byte, 1024)...)
	require.Equal(t, size, must.Get(tar.NewReader(bytes.NewReader(content)).Next())(t).Size)
	return content
}

func TestDamagedTarsAreRefused(t *testing.T) {
	whole := tarOf(t, file("a", strings.Repeat("a", 1000)), file("b", "1"))
	for _, c := range []struct {
		name    string
		content []byte
	}{
		{"noise", bytes.Repeat([]byte("noise"), 500)},
		{"an end within a header", whole[:300]},
		{"an end within a file", whole[:1000]},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Error(t, must.Fail(unpackBeside(t, c.content, small)), "it was unpacked")
		})
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error)
	go func() { done <- unpack(ctx, t.TempDir(), read, true, small) }()
	content := tarOf(t, file("a", "1"), file("b", "2"))
	must.Get(write.Write(content[:1024]))(t)
	cancel()
	must.Get(write.Write(content[1024:1536]))(t)
	assert.ErrorIs(t, <-done, context.Canceled, "unpacking ended with")
}
