package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// signalled reports the first write.
type signalled struct {
	io.Writer
	first chan struct{}
	told  bool
}

func (s *signalled) Write(p []byte) (int, error) {
	if !s.told {
		s.told = true
		close(s.first)
	}
	return s.Writer.Write(p)
}

// underway is a run whose container has written something and waits for stdin.
type underway struct {
	id    string
	stdin *io.PipeWriter
	exit  engine.Exit
	err   error
	ended chan struct{}
}

func begin(t *testing.T, e *Engine, spec engine.Spec) *underway {
	t.Helper()
	mark := rand.Text()
	spec.Labels = map[string]string{"deployster.enginetest": mark}
	stdin, writer := io.Pipe()
	u := &underway{stdin: writer, ended: make(chan struct{})}
	output := &signalled{Writer: io.Discard, first: make(chan struct{})}
	go func() {
		defer close(u.ended)
		u.exit, u.err = e.Run(t.Context(), spec, engine.IO{Stdin: stdin, Stdout: output})
	}()
	t.Cleanup(func() {
		_ = writer.Close()
		<-u.ended
	})
	select {
	case <-output.first:
	case <-u.ended:
		t.Fatalf("exit %+v, error %v", u.exit, u.err)
	}
	found, err := e.Containers(t.Context(), spec.Labels)
	require.True(t, err == nil && len(found) == 1, "found %v, error %v", found, err)
	u.id = found[0].ID
	return u
}

func TestKilledFromOutside(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	u := begin(t, e, probe.spec("read-exit", "0"))
	if _, err := e.client.ContainerKill(t.Context(), u.id, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	<-u.ended
	if u.err != nil || u.exit != (engine.Exit{Code: 137}) {
		t.Errorf("exit %+v, error %v; want 137", u.exit, u.err)
	}
}

// A run keeps its container out of Docker's log, where output of any size would
// fill the engine's disk, and mounts nothing that was not asked for.
func TestContainerIsAsAskedFor(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	u := begin(t, e, probe.spec("read-exit", "0"))
	inspected, err := e.client.ContainerInspect(t.Context(), u.id, client.ContainerInspectOptions{})
	require.NoError(t, err)
	c := inspected.Container
	if c.HostConfig.LogConfig.Type != "none" || c.HostConfig.NetworkMode != "none" || len(c.Mounts) > 0 || c.HostConfig.Privileged {
		t.Errorf("%+v, mounts %v", c.HostConfig, c.Mounts)
	}
}

func TestNeverStartedContainer(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	labels := map[string]string{"deployster.enginetest": rand.Text()}
	created, err := e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: probe.ref, Labels: labels}})
	require.NoError(t, err)
	found, err := e.Containers(t.Context(), labels)
	if err != nil || len(found) != 1 || found[0].Started || found[0].Running {
		t.Errorf("found %+v, error %v; want one that was never started", found, err)
	}
	if exit, err := e.Wait(t.Context(), created.ID); err != nil || exit != (engine.Exit{}) {
		t.Errorf("Wait: exit %+v, error %v", exit, err)
	}
	assert.NoError(t, e.Remove(t.Context(), created.ID))
}

func TestRunFails(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("this is no program\n"), 0o600))
	bare := load(t, e, enginetest.ImageSpec{Binary: text})
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name   string
		change func(*engine.Spec)
		says   []string
	}{
		{"no such network", func(s *engine.Spec) { s.Network = "no-such-network" }, []string{`network "no-such-network"`, "docker network ls"}},
		{"no such entrypoint", func(s *engine.Spec) { s.Entrypoint = "/nope" }, []string{`entrypoint "/nope"`, probe.ref, "executable"}},
		{"an entrypoint that is a directory", func(s *engine.Spec) { s.Entrypoint = "/proc" }, []string{`entrypoint "/proc"`, probe.ref}},
		{"nothing to execute", func(s *engine.Spec) { s.Image, s.Args = bare, nil }, []string{bare, "neither entrypoint nor command"}},
		{"a user that is not known", func(s *engine.Spec) { s.User = "nobody-here" }, []string{"nobody-here"}},
		{"a missing mount source among others", func(s *engine.Spec) {
			s.Mounts = []engine.Mount{{Source: filepath.Dir(missing), Target: "/a"}, {Source: missing, Target: "/b"}}
		}, []string{"mount source " + missing + " does not exist"}},
		{"a relative mount source", func(s *engine.Spec) { s.Mounts = []engine.Mount{{Source: "here", Target: "/a"}} }, []string{"here", "absolute"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := probe.spec("exit", "0")
			spec.Labels = map[string]string{"deployster.enginetest": rand.Text()}
			c.change(&spec)
			exit, err := e.Run(t.Context(), spec, engine.IO{})
			require.Error(t, err, "exit %+v, want an error", exit)
			checkError(t, err, nil, append(c.says, spec.Image)...)
			if left, err := e.Containers(t.Context(), spec.Labels); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
	t.Run("a program of no known format", func(t *testing.T) {
		var stderr bytes.Buffer
		exit, err := e.Run(t.Context(), engine.Spec{Image: bare, Entrypoint: "/text", Offline: true}, engine.IO{Stderr: &stderr})
		if said := stderr.String() + errorText(err); !strings.Contains(said, "exec format error") || exit.Code == 0 && err == nil {
			t.Errorf("exit %+v, error %v, stderr %q", exit, err, stderr.String())
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// load puts an image into the engine until the test ends.
func load(t *testing.T, e *Engine, spec enginetest.ImageSpec) string {
	t.Helper()
	image, err := enginetest.BuildImage(spec)
	require.NoError(t, err)
	ref := "deployster-enginetest:" + strings.ToLower(rand.Text())
	tar, err := enginetest.ImageTar(ref, image)
	require.NoError(t, err)
	t.Cleanup(func() { forget(t, e, ref) })
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	return ref
}

// Whenever the cancel comes, nothing stays behind.
func TestCancelAtAnyMoment(t *testing.T) {
	var log bytes.Buffer
	e := openWith(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	probe := loadProbe(t, e)
	labels := map[string]string{"deployster.enginetest": rand.Text()}
	// ping, create, attach, wait, start: after these the container hangs.
	for after := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		watched := openWith(t, Options{Logger: e.log})
		options, err := watched.endpoint.clientOptions()
		require.NoError(t, err)
		answered := client.WithHTTPResponseHook(func(*http.Response) {
			if seen++; seen > after {
				cancel()
			}
		})
		if watched.client, err = client.New(append(options, answered)...); err != nil {
			t.Fatal(err)
		}
		spec := probe.spec("hang")
		spec.Labels = labels
		if exit, err := watched.Run(ctx, spec, engine.IO{Stdin: strings.NewReader("x")}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d answers: exit %+v, error %v", after, exit, err)
		}
		cancel()
		if left, err := e.Containers(t.Context(), labels); err != nil || len(left) > 0 {
			t.Errorf("cancelled after %d answers: left behind %v (%v)", after, left, err)
		}
		_ = watched.client.Close()
	}
	assert.True(t, log.Len() <= 0, "warnings: %s", log.String())
}
