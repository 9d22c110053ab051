// Package dockertest gives tests a Docker Engine and images to run on it.
// Without an engine the tests fail. What is made here is removed when the test
// ends.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"
)

// Client connects to the engine of the environment.
func Client(t testing.TB) *client.Client {
	t.Helper()
	docker, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = docker.Close() })
	if _, err := docker.Ping(t.Context(), client.PingOptions{}); err != nil {
		t.Fatalf("these tests need a Docker Engine: %v", err)
	}
	return docker
}

// Name makes a name that no other test uses.
func Name(prefix string) string {
	return "deployster-test-" + prefix + "-" + strings.ToLower(rand.Text()[:10])
}

// Image loads an image around the test program, with the given configuration,
// and returns a reference to it.
func Image(t testing.TB, docker *client.Client, config v1.Config) string {
	t.Helper()
	ref := Name("image") + ":1"
	Load(t, docker, ref, config)
	return ref
}

// Load is Image under a reference of the caller's choice; loading again with
// another configuration moves the tag.
func Load(t testing.TB, docker *client.Client, ref string, config v1.Config) {
	t.Helper()
	if config.Entrypoint == nil {
		config.Entrypoint = []string{"/program"}
	}
	image, err := mutate.AppendLayers(empty.Image, layer(t))
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: config, RootFS: rootFS(t, image),
		Author: ref, // no two tests share an image, which the first to end would remove
	})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := tarball.Write(tag, image, &packed); err != nil {
		t.Fatal(err)
	}
	loaded, err := docker.ImageLoad(t.Context(), &packed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loaded.Close() }()
	if _, err := io.Copy(io.Discard, loaded); err != nil {
		t.Fatal(err)
	}
	inspected, err := docker.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // by id: the tag may have moved
		for _, r := range []string{ref, inspected.ID} {
			_, _ = docker.ImageRemove(context.WithoutCancel(t.Context()), r, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		}
	})
}

func rootFS(t testing.TB, image v1.Image) v1.RootFS {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.RootFS
}

// layer is the test program at /program, and an empty /data.
func layer(t testing.TB) v1.Layer {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, h := range []*tar.Header{
		{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o777},
		{Name: "program", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(binary); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// program is the test program, static, built once per test binary.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "deployster-test")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "github.com/deployster-go/deployster/resources/internal/dockertest/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, &buildError{string(text), err}
	}
	return os.ReadFile(out)
})

type buildError struct {
	output string
	err    error
}

func (e *buildError) Error() string { return e.err.Error() + ": " + e.output }
func (e *buildError) Unwrap() error { return e.err }
