package shipped

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/moby/moby/client"
)

// counting counts what reaches an engine.
type counting struct {
	Engine
	loads atomic.Int32
	mu    sync.Mutex
	asked []string
}

func (c *counting) Load(ctx context.Context, tar io.Reader) error {
	c.loads.Add(1)
	return c.Engine.Load(ctx, tar)
}

func (c *counting) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	c.mu.Lock()
	c.asked = append(c.asked, ref+" "+string(policy))
	c.mu.Unlock()
	return c.Engine.Image(ctx, ref, policy, progress)
}

func images(t *testing.T, arch string, fake *enginetest.Fake) (*Images, *counting) {
	t.Helper()
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
				if err != nil || image.Ref != "deployster/"+name || image.ID == "" {
					t.Errorf("%s: %+v, %v", name, image, err)
				}
			})
		}
	}
	all.Wait()
	if n := c.loads.Load(); n != 1 {
		t.Errorf("loaded %d times", n)
	}
}

func TestOtherImagesAreTheEngines(t *testing.T) {
	i, c := images(t, "amd64", &enginetest.Fake{Registry: map[string]enginetest.FakeImage{
		"acme/vm:1": {}, "deployster/file:1.0": {}, "registry.example/deployster/file": {}, "deployster/a/b": {},
	}})
	want := []string{"acme/vm:1", "deployster/file:1.0", "registry.example/deployster/file", "deployster/a/b"}
	for _, ref := range want {
		if _, err := i.Image(t.Context(), ref, engine.PullAlways, nil); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for n, ref := range want {
		if c.asked[n] != ref+" always" {
			t.Errorf("asked for %v", c.asked)
		}
	}
	if _, err := i.Image(t.Context(), "deployster/file@sha256:00", engine.PullNever, nil); !errors.Is(err, engine.ErrNoImage) {
		t.Errorf("by digest: %v", err)
	}
	if c.loads.Load() != 0 {
		t.Error("something was loaded")
	}
}

func TestNewImagesServesTheRunningProgram(t *testing.T) {
	i, err := NewImages(&enginetest.Fake{Images: map[string]enginetest.FakeImage{"acme/vm:1": {}}}, Options{Version: "1", OS: "linux", Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Image(t.Context(), "acme/vm:1", engine.PullNever, nil); err != nil {
		t.Error(err)
	}
	if self, err := os.Executable(); err != nil || i.source.Executable != self {
		t.Errorf("source %+v, %v", i.source, err)
	}
}

func TestUnknownType(t *testing.T) {
	i, c := images(t, "amd64", &enginetest.Fake{})
	for ref, hint := range map[string]string{
		"deployster/fiel": "did you mean deployster/file?", "deployster/files": "did you mean deployster/file?",
		"deployster/net": "did you mean deployster/network?", "deployster/contaner": "did you mean deployster/container?",
		"deployster/zebra": "is not a resource type that ships with Deployster (there are command, container, file, http, kubernetes, network, volume;",
	} {
		if _, err := i.Image(t.Context(), ref, engine.PullMissing, nil); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if len(c.asked) != 0 {
		t.Errorf("the engine was asked: %v", c.asked)
	}
}

func TestNoBinaryForThePlatform(t *testing.T) {
	i, _ := images(t, "arm64", &enginetest.Fake{})
	_, err := i.Image(t.Context(), "deployster/file", engine.PullMissing, nil)
	if err == nil || !strings.Contains(err.Error(), "deployster-linux-arm64") || !strings.Contains(err.Error(), "--types-image") {
		t.Errorf("got %v", err)
	}
	i, _ = images(t, "amd64", &enginetest.Fake{})
	i.options.OS = "windows"
	if _, err := i.Image(t.Context(), "deployster/file", engine.PullMissing, nil); err == nil || !strings.Contains(err.Error(), "this one runs windows") {
		t.Errorf("got %v", err)
	}
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
		if image, err := i.Image(t.Context(), "deployster/"+name, engine.PullMissing, nil); err != nil || image.Ref != "deployster/"+name {
			t.Errorf("%+v, %v", image, err)
		}
	}
	if runs := len(fake.Runs()); runs != 1 || c.loads.Load() != 1 {
		t.Errorf("%d runs, %d loads", runs, c.loads.Load())
	}
	for ref, want := range map[string]string{
		"registry.example/other:1":   `"type binary" ended with 2: what?`,
		"registry.example/text:1":    "it is not an image of Deployster for linux/arm64",
		"registry.example/missing:1": "--types-image: ",
	} {
		i.options.TypesImage = ref
		if _, err := i.Image(t.Context(), "deployster/file", engine.PullMissing, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

func TestFailedLoad(t *testing.T) {
	i, _ := images(t, "amd64", &enginetest.Fake{Loads: func(string) (enginetest.FakeImage, error) {
		return enginetest.FakeImage{}, errors.New("disk full")
	}})
	if _, err := i.Image(t.Context(), "deployster/file", engine.PullMissing, nil); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

// On a real engine: the image is loaded, and its container is the type.
func TestOnDocker(t *testing.T) {
	e, err := docker.Open(t.Context(), docker.Options{})
	if err != nil {
		t.Fatalf("this test needs a Docker Engine: %v", err)
	}
	defer e.Close()
	info, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &counting{Engine: e}
	i := &Images{engine: c, options: Options{Version: "test", OS: info.OS, Arch: info.Arch}, source: Source{
		Executable: put(t, filepath.Join(dir, "deployster"), static(t)), GOOS: "linux", GOARCH: info.Arch,
	}}
	t.Cleanup(func() { removeImages(t, i, info.Arch) })
	for range 2 {
		if _, err := i.Image(t.Context(), "deployster/file", engine.PullNever, nil); err != nil {
			t.Fatal(err)
		}
	}
	image, err := i.Image(t.Context(), "deployster/http", engine.PullAlways, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.loads.Load(); n != 1 {
		t.Errorf("loaded %d times", n)
	}

	var stdout, stderr bytes.Buffer
	exit, err := e.Run(t.Context(), engine.Spec{Image: image.ID, Network: "none"}, engine.IO{Stdin: strings.NewReader("{}"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || exit.Code != 0 {
		t.Fatalf("init: %+v, %v: %s", exit, err, &stderr)
	}
	if answer, err := protocol.DecodeInit(stdout.Bytes()); err != nil || answer.StateAction.Args[0] != "state" {
		t.Errorf("init answered %s: %v", &stdout, err)
	}
	stdout.Reset()
	input := `{"name":"x","config":{"url":"https://127.0.0.1:1/","request_timeout":"2s"}}`
	exit, err = e.Run(t.Context(), engine.Spec{Image: image.ID, Args: []string{"state"}, Network: "none"},
		engine.IO{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
	if err != nil || exit.Code != 0 {
		t.Fatalf("state: %+v, %v: %s", exit, err, &stderr)
	}
	if answer, err := protocol.DecodeState(stdout.Bytes()); err != nil || answer.Status != protocol.Stale {
		t.Errorf("state answered %s: %v", &stdout, err)
	}

	// The program in an image is the program.
	var copied bytes.Buffer
	exit, err = e.Run(t.Context(), engine.Spec{Image: image.ID, Entrypoint: "/deployster", Args: []string{"type", "binary"}, Network: "none"}, engine.IO{Stdout: &copied})
	if err != nil || exit.Code != 0 || !bytes.Equal(copied.Bytes(), static(t)) {
		t.Errorf("type binary: %+v, %v, %d bytes", exit, err, copied.Len())
	}
}

func removeImages(t *testing.T, i *Images, arch string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	b, err := i.source.Binary(arch)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if _, err := api.ImageRemove(ctx, Tag(name, i.options.Version, b), client.ImageRemoveOptions{Force: true, PruneChildren: true}); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkHash measures what finding out an image's tag costs at every start.
func BenchmarkHash(b *testing.B) {
	content, err := program()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	path := filepath.Join(dir, "deployster")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	for name, cache := range map[string]string{"computed": "", "remembered": filepath.Join(dir, "cache")} {
		s := Source{CacheDir: cache}
		if cache != "" {
			first, err := s.hashed(path, "amd64")
			if err != nil {
				b.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			id, _, err := identity(f)
			if err != nil {
				b.Fatal(err)
			}
			_ = f.Close()
			remember(s.remembered(path, id), first.SHA256)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				if _, err := s.hashed(path, "amd64"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
