package shipped

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
)

type counting struct {
	Engine
	loads atomic.Int32
	mu    sync.Mutex
	asked []string
	slow  time.Duration // that it takes to read each piece of a load
}

// slowly reads as a slow connection does.
type slowly struct {
	io.Reader
	pause time.Duration
}

func (s slowly) Read(p []byte) (int, error) {
	timer := time.NewTimer(s.pause)
	<-timer.C
	return s.Reader.Read(p)
}

func (c *counting) Load(ctx context.Context, tar io.Reader) error {
	c.loads.Add(1)
	return c.Engine.Load(ctx, slowly{tar, c.slow})
}

func (c *counting) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	c.mu.Lock()
	c.asked = append(c.asked, ref+" "+string(policy))
	c.mu.Unlock()
	return c.Engine.Image(ctx, ref, policy, progress)
}

func images(t *testing.T, arch string, fake *enginetest.Fake) (*Images, *counting) {
	dir := t.TempDir()
	if fake.Loads == nil {
		fake.Loads = func(string) (enginetest.FakeImage, error) { return enginetest.FakeImage{}, nil }
	}
	c := &counting{Engine: fake}
	return &Images{
		engine: c, options: Options{Version: "1.2", OS: "linux", Arch: arch},
		source: Source{Executable: put(t, filepath.Join(dir, "deployster"), static(t)), GOOS: "linux", GOARCH: "amd64", CacheDir: filepath.Join(dir, "cache")},
	}, c
}

func TestAllTypesAreLoadedOnce(t *testing.T) {
	i, c := images(t, "amd64", &enginetest.Fake{})
	var all sync.WaitGroup
	for range 4 {
		for _, name := range Names() {
			all.Go(func() {
				image, err := i.Image(t.Context(), "deployster/"+name, engine.PullMissing, nil)
				assert.True(t, err == nil && image.Ref == "deployster/"+name && image.ID != "", "%s: %+v, %v", name, image, err)
			})
		}
	}
	all.Wait()
	n := c.loads.Load()
	assert.True(t, n == 1, "loaded %d times", n)
}

// A load that takes long reports how far it is.
func TestALongLoadIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, c := images(t, "amd64", &enginetest.Fake{})
		var reports []engine.Progress
		image := func(name string) {
			must.Get(i.Image(t.Context(), "deployster/"+name, engine.PullMissing, func(p engine.Progress) { reports = append(reports, p) }))(t)
		}
		c.slow = 300 * time.Millisecond
		image("file")
		size := must.Get(os.Stat(i.source.Executable))(t).Size()
		require.NotEmpty(t, reports)
		for n, p := range reports {
			assert.True(t, p.Sent && p.Total == size && (n == 0 || p.Current >= reports[n-1].Current), "%+v", reports)
		}
		reports = nil
		image("http") // which is there
		assert.Empty(t, reports)
	})
}

func TestOtherImagesAreTheEngines(t *testing.T) {
	i, c := images(t, "amd64", &enginetest.Fake{Registry: map[string]enginetest.FakeImage{
		"acme/vm:1": {}, "deployster/file:1.0": {}, "registry.example/deployster/file": {}, "deployster/a/b": {},
	}})
	want := []string{"acme/vm:1", "deployster/file:1.0", "registry.example/deployster/file", "deployster/a/b"}
	for _, ref := range want {
		assert.NoError(t, must.Fail(i.Image(t.Context(), ref, engine.PullAlways, nil)), ref)
	}
	for n, ref := range want {
		assert.True(t, c.asked[n] == ref+" always", "asked for %v", c.asked)
	}
	assert.ErrorIs(t, must.Fail(i.Image(t.Context(), "deployster/file@sha256:00", engine.PullNever, nil)), engine.ErrNoImage, "by digest")
	assert.True(t, c.loads.Load() == 0, "something was loaded")
}

func TestNewImagesServesTheRunningProgram(t *testing.T) {
	i := must.Get(NewImages(&enginetest.Fake{Images: map[string]enginetest.FakeImage{"acme/vm:1": {}}}, Options{Version: "1", OS: "linux", Arch: "amd64"}))(t)
	assert.NoError(t, must.Fail(i.Image(t.Context(), "acme/vm:1", engine.PullNever, nil)))
	self, err := os.Executable()
	assert.True(t, err == nil && i.source.Executable == self, "source %+v, %v", i.source, err)
}

func TestUnknownType(t *testing.T) {
	i, c := images(t, "amd64", &enginetest.Fake{})
	for ref, hint := range map[string]string{
		"deployster/fiel": "did you mean deployster/file?", "deployster/files": "did you mean deployster/file?",
		"deployster/net": "did you mean deployster/network?", "deployster/contaner": "did you mean deployster/container?",
		"deployster/zebra": "is not a resource type that ships with Deployster (there are command, container, file, http, kubernetes, network, volume;",
	} {
		assert.ErrorContains(t, must.Fail(i.Image(t.Context(), ref, engine.PullMissing, nil)), hint, ref)
	}
	assert.True(t, len(c.asked) == 0, "the engine was asked: %v", c.asked)
}

func TestNoBinaryForThePlatform(t *testing.T) {
	i, _ := images(t, "arm64", &enginetest.Fake{})
	_, err := i.Image(t.Context(), "deployster/file", engine.PullMissing, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "deployster-linux-arm64") && strings.Contains(err.Error(), "--types-image"), "got %v", err)
	i, _ = images(t, "amd64", &enginetest.Fake{})
	i.options.OS = "windows"
	assert.ErrorContains(t, must.Fail(i.Image(t.Context(), "deployster/file", engine.PullMissing, nil)), "this one runs windows")
}

func TestBinaryOutOfAnImage(t *testing.T) {
	content := forArm64(t)
	fake := &enginetest.Fake{
		Registry: map[string]enginetest.FakeImage{
			"registry.example/deployster:1.2": {Entrypoint: []string{"/deployster"}, Program: func(_ context.Context, c enginetest.Call) int {
				if !slices.Equal(c.Args, []string{"type", "binary"}) {
					return 3
				}
				_, _ = c.Stdout.Write(content)
				return 0
			}},
			"registry.example/other:1": {Entrypoint: []string{"/other"}, Program: func(_ context.Context, c enginetest.Call) int {
				_, _ = c.Stderr.Write([]byte("what?"))
				return 2
			}},
			"registry.example/text:1": {Entrypoint: []string{"/text"}, Program: func(_ context.Context, c enginetest.Call) int {
				_, _ = c.Stdout.Write([]byte("usage: text\n and much more of it, so that it is longer than a header"))
				return 0
			}},
		},
	}
	i, c := images(t, "arm64", fake)
	i.options.TypesImage = "registry.example/deployster:1.2"
	for _, name := range []string{"file", "http"} {
		image, err := i.Image(t.Context(), "deployster/"+name, engine.PullMissing, nil)
		assert.True(t, err == nil && image.Ref == "deployster/"+name, "%+v, %v", image, err)
	}
	runs := len(fake.Runs())
	assert.True(t, runs == 1 && c.loads.Load() == 1, "%d runs, %d loads", runs, c.loads.Load())
	for ref, want := range map[string]string{
		"registry.example/other:1":   `"type binary" ended with 2: what?`,
		"registry.example/text:1":    "it is not an image of Deployster for linux/arm64",
		"registry.example/missing:1": "--types-image: ",
	} {
		i.options.TypesImage = ref
		assert.ErrorContains(t, must.Fail(i.Image(t.Context(), "deployster/file", engine.PullMissing, nil)), want)
	}
}

func TestFailedLoad(t *testing.T) {
	i, _ := images(t, "amd64", &enginetest.Fake{Loads: func(string) (enginetest.FakeImage, error) {
		return enginetest.FakeImage{}, errors.New("disk full")
	}})
	assert.ErrorContains(t, must.Fail(i.Image(t.Context(), "deployster/file", engine.PullMissing, nil)), "disk full")
}

// On a real engine: the image is loaded, and its container is the type.
func TestOnDocker(t *testing.T) {
	e, err := docker.Open(t.Context(), docker.Options{})
	require.NoError(t, err, "this test needs a Docker Engine")
	defer e.Close()
	info := must.Get(e.Info(t.Context()))(t)
	dir := t.TempDir()
	c := &counting{Engine: e}
	i := &Images{engine: c, options: Options{Version: "test", OS: info.OS, Arch: info.Arch}, source: Source{
		Executable: put(t, filepath.Join(dir, "deployster"), static(t)), GOOS: "linux", GOARCH: info.Arch,
	}}
	t.Cleanup(func() { removeImages(t, i, info.Arch) })
	for range 2 {
		require.NoError(t, must.Fail(i.Image(t.Context(), "deployster/file", engine.PullNever, nil)))
	}
	image := must.Get(i.Image(t.Context(), "deployster/http", engine.PullAlways, nil))(t)
	n := c.loads.Load()
	assert.True(t, n == 1, "loaded %d times", n)

	var stdout, stderr bytes.Buffer
	exit, err := e.Run(t.Context(), engine.Spec{Image: image.ID, Network: "none"}, engine.IO{Stdin: strings.NewReader("{}"), Stdout: &stdout, Stderr: &stderr})
	require.True(t, err == nil && exit.Code == 0, "init: %+v, %v: %s", exit, err, &stderr)
	answer, err := protocol.DecodeInit(stdout.Bytes())
	assert.True(t, err == nil && answer.StateAction.Args[0] == "state", "init answered %s: %v", &stdout, err)
	stdout.Reset()
	input := `{"name":"x","config":{"url":"https://127.0.0.1:1/","request_timeout":"2s"}}`
	exit, err = e.Run(t.Context(), engine.Spec{Image: image.ID, Args: []string{"state"}, Network: "none"},
		engine.IO{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
	require.True(t, err == nil && exit.Code == 0, "state: %+v, %v: %s", exit, err, &stderr)
	if answer, err := protocol.DecodeState(stdout.Bytes()); err != nil || answer.Status != protocol.Stale {
		t.Errorf("state answered %s: %v", &stdout, err)
	}

	// The program in an image is the program.
	var copied bytes.Buffer
	exit, err = e.Run(t.Context(), engine.Spec{Image: image.ID, Entrypoint: "/deployster", Args: []string{"type", "binary"}, Network: "none"}, engine.IO{Stdout: &copied})
	assert.True(t, err == nil && exit.Code == 0 && bytes.Equal(copied.Bytes(), static(t)), "type binary: %+v, %v, %d bytes", exit, err, copied.Len())
}

func removeImages(t *testing.T, i *Images, arch string) {
	ctx := context.WithoutCancel(t.Context())
	api := must.Get(client.New(client.FromEnv))(t)
	defer api.Close()
	b := must.Get(i.source.Binary(arch))(t)
	for _, name := range Names() {
		assert.NoError(t, must.Fail(api.ImageRemove(ctx, Tag(name, i.options.Version, b), client.ImageRemoveOptions{Force: true, PruneChildren: true})))
	}
}

func binary(t *testing.T, content string) Binary {
	path := filepath.Join(t.TempDir(), "deployster")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	sum := sha256.Sum256([]byte(content))
	return Binary{Path: path, Arch: "arm64", SHA256: hex.EncodeToString(sum[:])}
}

func archive(t *testing.T, b Binary, names ...string) []byte {
	var out bytes.Buffer
	require.NoError(t, WriteArchive(&out, "1.2", b, names...))
	return out.Bytes()
}

func TestArchiveIsReadByOthers(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 100_000} { // around the blocks of a tar
		content := strings.Repeat("x", size)
		b := binary(t, content)
		packed := archive(t, b, "container", "file", "http", "network")
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
		images := map[string]v1.Hash{}
		for typ, program := range map[string]string{"container": "docker", "file": "file", "http": "http", "network": "docker"} {
			tag := must.Get(name.NewTag(Tag(typ, "1.2", b)))(t)
			image := must.Get(tarball.Image(open, &tag))(t)
			config, err := image.ConfigFile()
			require.NoError(t, err)
			want := []string{"/deployster", "type", "run", program}
			assert.True(t, slices.Equal(config.Config.Entrypoint, want) && config.Architecture == "arm64" && config.OS == "linux", "configuration: %+v", config)
			if images[typ], err = image.ConfigName(); err != nil {
				t.Fatal(err)
			}
			text := onlyLayer(t, image)
			sum := sha256.Sum256(text)
			assert.True(t, hex.EncodeToString(sum[:]) == config.RootFS.DiffIDs[0].Hex, "%d bytes: the layer's hash is not the one in the configuration", size)
			files := filesOf(t, text)
			assert.True(t, len(files) == 2 && files["deployster 755"] == content && files["tmp/ 1777"] == "", "%d bytes: the layer holds %d files", size, len(files))
		}
		if images["container"] != images["network"] || images["file"] == images["http"] || images["file"] == images["network"] {
			t.Errorf("images, of which two are one: %v", images)
		}
	}
}

// onlyLayer is the one layer of an image, as a tar.
func onlyLayer(t *testing.T, image v1.Image) []byte {
	layers, err := image.Layers()
	require.True(t, err == nil && len(layers) == 1, "layers: %v, %v", layers, err)
	layer := must.Get(layers[0].Uncompressed())(t)
	text := must.Get(io.ReadAll(layer))(t)
	return text
}

func filesOf(t *testing.T, packed []byte) map[string]string {
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		inside := must.Get(io.ReadAll(r))(t)
		files[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(inside)
	}
}

func TestArchiveIsTheSameEveryTime(t *testing.T) {
	b := binary(t, "program")
	assert.True(t, bytes.Equal(archive(t, b, Names()...), archive(t, b, Names()...)), "two archives of one binary differ")
	elsewhere := binary(t, "program")
	assert.True(t, bytes.Equal(archive(t, b, "file"), archive(t, elsewhere, "file")), "the path of the binary is part of the archive")
}

func TestTag(t *testing.T) {
	b := binary(t, "program")
	tag := Tag("file", "1.2.3", b)
	_, err := name.NewTag(tag)
	assert.True(t, err == nil && strings.HasPrefix(tag, "deployster/file:1.2.3-") && len(tag) == len("deployster/file:1.2.3-")+12, "tag: %s, %v", tag, err)
	other := binary(t, "another program")
	arch := b
	arch.Arch = "amd64"
	for what, changed := range map[string]string{"type": Tag("http", "1.2.3", b), "binary": Tag("file", "1.2.3", other), "architecture": Tag("file", "1.2.3", arch)} {
		assert.True(t, changed[len(changed)-12:] != tag[len(tag)-12:], "another %s has the same hash", what)
	}
	for _, version := range []string{"", "(devel)", "v1.0.0+dirty", "../x", ".1", strings.Repeat("9", 300), "1 2", "é"} {
		assert.NoError(t, must.Fail(name.NewTag(Tag("file", version, b))), "version %q", version)
	}
}

func TestABinaryThatChangesIsNotPacked(t *testing.T) {
	b := binary(t, "program")
	require.NoError(t, os.WriteFile(b.Path, []byte("progran"), 0o600))
	assert.ErrorContains(t, WriteArchive(io.Discard, "1", b, "file"), "changed while it was read")
}
