package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// The test binary stands in for other programs when this variable names one.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case "":
		code := m.Run()
		forgetShared()
		os.Exit(code)
	case "dial-stdio":
		os.Exit(dialStdio(os.Args[len(os.Args)-1]))
	case "hold":
		os.Exit(holdForEver(os.Args[1:]))
	case "die":
		e, err := Open(context.Background(), Options{Shim: os.Args[1]})
		if err == nil {
			e.idle = 10 * time.Second
			e.passed = dieAt(os.Args[3])
			err = enginetest.Die(e, os.Args[2])
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "open":
		_, err := Open(context.Background(), Options{Host: os.Args[len(os.Args)-1], Env: func(string) string { return "/" }})
		fmt.Fprintln(os.Stdout, errors.Is(err, engine.ErrUnavailable), err)
	}
}

// open connects to the engine that the tests use: the environment's, as for
// anybody.
func open(tb testing.TB) *Engine {
	tb.Helper()
	return openWith(tb, Options{})
}

func openWith(tb testing.TB, options Options) *Engine {
	tb.Helper()
	e, err := Open(tb.Context(), options)
	require.NoError(tb, err, "these tests need a Docker Engine")
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// shimBinary compiles a program that is nothing but the shim.
func shimBinary(tb testing.TB) string {
	tb.Helper()
	return enginetest.Binary(tb, "github.com/deployster-go/deployster/engine/docker/testdata/entrypoint", runtime.GOARCH)
}

// fixture is the probe's image, in the engine under a name of this process's own.
type fixture struct {
	ref   string
	tar   []byte
	image v1.Image
}

// shared is the image that loadProbe has loaded, for all tests; TestMain removes it.
var shared fixture

func loadProbe(tb testing.TB, e *Engine) fixture {
	tb.Helper()
	if shared.tar != nil {
		return shared
	}
	f := fixture{ref: "deployster-enginetest:" + strings.ToLower(rand.Text()), image: enginetest.ProbeImage(tb, "")}
	var err error
	f.tar, err = enginetest.ImageTar(f.ref, f.image)
	require.NoError(tb, err)
	require.NoError(tb, e.Load(tb.Context(), bytes.NewReader(f.tar)))
	shared = f
	return f
}

func forgetShared() {
	if shared.tar == nil {
		return
	}
	e, err := Open(context.Background(), Options{})
	if err == nil {
		_, err = e.client.ImageRemove(context.Background(), shared.ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "removing the image of the tests:", err)
	}
}

// forget removes an image from the engine if it is there.
func forget(tb testing.TB, e *Engine, ref string) {
	tb.Helper()
	_, err := e.client.ImageRemove(context.WithoutCancel(tb.Context()), ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	if err != nil && !strings.Contains(err.Error(), "No such image") {
		tb.Errorf("remove image %s: %v", ref, err)
	}
}

// spec is a run of the probe without a network, which is quickest.
func (f fixture) spec(args ...string) engine.Spec {
	return engine.Spec{Image: f.ref, Args: args, Offline: true}
}

// leave starts a container as a crashed run leaves it, and attaches nothing but
// its stdin.
func (f fixture) leave(t *testing.T, e *Engine, labels map[string]string) (string, func()) {
	t.Helper()
	created, err := e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{
			Image: f.ref, Cmd: []string{"read-exit", "7"}, Labels: labels, OpenStdin: true, StdinOnce: true, NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	require.NoError(t, err)
	attached, err := e.client.ContainerAttach(t.Context(), created.ID, client.ContainerAttachOptions{Stream: true, Stdin: true})
	require.NoError(t, err)
	if _, err := e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return created.ID, attached.Close
}

// writeJSON writes a file of the test's own.
func writeJSON(tb testing.TB, file string, content any) {
	tb.Helper()
	encoded, err := json.Marshal(content)
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, encoded, 0o600))
}
