package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/waittest"
)

// marked runs what leaves a file in directory.
func marked(image, directory, mark string) engine.Spec {
	return engine.Spec{
		Image:   image,
		Args:    []string{"write", "/mnt/mark", "ran"},
		Offline: true,
		Mounts:  []engine.Mount{{Source: directory, Target: "/mnt"}},
		Labels:  map[string]string{"deployster.enginetest": mark},
	}
}

// holdForEver is a process that runs a container held by the shim and never
// releases it.
func holdForEver(args []string) int {
	e, err := Open(context.Background(), Options{Shim: args[0]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	spec := marked(args[1], args[2], args[3])
	spec.Hold = make(chan struct{})
	_, err = e.Run(context.Background(), spec, engine.IO{Stdin: strings.NewReader("input")})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestTheProgramOfAKilledCallerNeverRuns(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	directory, mark := t.TempDir(), rand.Text()
	self, err := os.Executable()
	require.NoError(t, err)
	caller := exec.CommandContext(t.Context(), self, shimBinary(t), probe.ref, directory, mark)
	caller.Env = append(os.Environ(), actAs+"=hold")
	caller.Stderr = os.Stderr
	require.NoError(t, caller.Start())
	id := awaitContainer(t, e, mark, func(c engine.Container) bool { return c.Running }).ID
	defer func() {
		assert.NoError(t, e.Remove(context.WithoutCancel(t.Context()), id))
	}()
	require.NoError(t, caller.Process.Kill())
	_ = caller.Wait()
	exit, err := e.Wait(t.Context(), id)
	assert.True(t, err == nil && exit.Code == entrypoint.Failed, "exit %+v, error %v; want the shim's code", exit, err)
	if _, err := os.Stat(filepath.Join(directory, "mark")); !os.IsNotExist(err) {
		t.Errorf("the program ran (%v)", err)
	}
}

// awaitContainer returns the marked container once it is as wanted.
func awaitContainer(t *testing.T, e *Engine, mark string, wanted func(engine.Container) bool) engine.Container {
	t.Helper()
	var found []engine.Container
	waittest.Until(t, func() bool {
		var err error
		found, err = e.Containers(t.Context(), map[string]string{"deployster.enginetest": mark})
		require.NoError(t, err)
		return len(found) == 1 && wanted(found[0])
	}, "the container to be as wanted")
	return found[0]
}

func TestHeldWithoutAShim(t *testing.T) {
	probe := loadProbe(t, open(t))
	mounting := openWith(t, Options{})
	mounting.shim = "/no/such/shim/on/the/engines/host"
	for name, c := range map[string]struct {
		engine *Engine
		change func(*engine.Spec, *engine.IO)
	}{
		"none is given":              {engine: open(t)},
		"a useless one is given":     {engine: openWith(t, Options{Shim: "/no/such/shim"})},
		"the engine cannot mount it": {engine: mounting},
		"the container may have few threads": {engine: openWith(t, Options{Shim: shimBinary(t)}),
			change: func(spec *engine.Spec, _ *engine.IO) { spec.Pids = shimPids - 1 }},
		"the container has no stdin": {engine: openWith(t, Options{Shim: shimBinary(t)}),
			change: func(_ *engine.Spec, streams *engine.IO) { streams.Stdin = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			directory, mark := t.TempDir(), rand.Text()
			hold := make(chan struct{})
			spec, streams := marked(probe.ref, directory, mark), engine.IO{Stdin: strings.NewReader("input")}
			spec.Hold = hold
			if c.change != nil {
				c.change(&spec, &streams)
			}
			ended := make(chan error)
			go func() {
				_, err := c.engine.Run(t.Context(), spec, streams)
				ended <- err
			}()
			created := awaitContainer(t, c.engine, mark, func(engine.Container) bool { return true })
			assert.True(t, !created.Started, "the container is started before it is released")
			close(hold)
			require.NoError(t, <-ended)
			if _, err := os.Stat(filepath.Join(directory, "mark")); err != nil {
				t.Errorf("the program did not run: %v", err)
			}
		})
	}
}

func TestAShimMustRunInEveryContainer(t *testing.T) {
	file := shimBinary(t)
	assert.NoError(t, checkShim(file), "the real one")
	require.NoError(t, os.Chmod(file, 0o750))
	checkError(t, checkShim(file), nil, "not everybody")

	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	checkError(t, checkShim(script), nil, "not a Linux program")
	checkError(t, checkShim(filepath.Dir(script)), nil, "not everybody")
	checkError(t, checkShim(script+"-missing"), os.ErrNotExist)

	shell, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	checkError(t, checkShim(shell), nil, "dynamically linked")
}

// What a program sees is the same with a shim, except for the shim's file.
func TestTheShimChangesNothing(t *testing.T) {
	e := openWith(t, Options{Shim: shimBinary(t)})
	probe := loadProbe(t, e)
	over := make(chan struct{})
	close(over)
	for _, c := range []struct {
		name   string
		change func(*engine.Spec)
	}{
		{"the image's command", func(s *engine.Spec) { s.Args = nil }},
		{"no arguments", func(s *engine.Spec) { s.Args = []string{} }},
		{"arguments", func(s *engine.Spec) { s.Args = []string{"args", "two words", "", "$HOME"} }},
		{"an entrypoint without arguments", func(s *engine.Spec) { s.Entrypoint, s.Args = "/probe", nil }},
		{"an entrypoint found in PATH", func(s *engine.Spec) {
			s.Entrypoint, s.Args, s.Env = "probe", []string{"read", "/proc/self/cmdline"}, []string{"PATH=/nowhere:/"}
		}},
		{"an entrypoint that is relative", func(s *engine.Spec) {
			s.Entrypoint, s.WorkDir, s.Args = "./probe", "/", []string{"args"}
		}},
		{"an entrypoint that is not there", func(s *engine.Spec) { s.Entrypoint = "nope" }},
		{"an entrypoint that is a directory", func(s *engine.Spec) { s.Entrypoint = "/proc" }},
		{"a mount source that is not there", func(s *engine.Spec) { s.Mounts = []engine.Mount{{Source: "/no/such", Target: "/mnt"}} }},
		{"another user", func(s *engine.Spec) { s.User, s.Args = "crew", []string{"identity"} }},
		{"another directory", func(s *engine.Spec) { s.WorkDir, s.Args = "/made/for/it", []string{"cwd"} }},
		{"the environment", func(s *engine.Spec) { s.Args, s.Env = []string{"env"}, []string{"HOSTNAME=same", "A=1", "EMPTY="} }},
		{"a death by signal", func(s *engine.Spec) { s.Args = []string{"die"} }},
		{"output on both streams", func(s *engine.Spec) { s.Args = []string{"both", "1000"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := probe.spec("cwd")
			spec.Network = "host" // the quickest
			c.change(&spec)
			plain := outcome(t, e, spec)
			spec.Hold = over
			assert.Equal(t, plain, outcome(t, e, spec), "with a shim")
		})
	}
}

// outcome is all that a run shows. Of errors only our own text counts: Docker's
// differs in who looked for the program.
func outcome(t *testing.T, e *Engine, spec engine.Spec) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr})
	said, _, _ := strings.Cut(errorText(err), ": Error response")
	if at := strings.Index(said, ": exec: "); at >= 0 {
		said = said[:at]
	}
	return fmt.Sprintf("exit %+v, error %q, stdout %q, stderr %q", exit, said, stdout.String(), stderr.String())
}

func TestTheShimsWordsAreKeptFromStderr(t *testing.T) {
	for _, c := range []struct {
		name   string
		mark   string
		writes []string
		want   string
		reason string // "" is a program that ran
	}{
		{"a container without a shim", "", []string{"MARK", "x"}, "MARKx", ""},
		{"a program that writes nothing", "MARK", nil, "", ""},
		{"a program that writes at once", "MARK", []string{"hello ", "MARK"}, "hello MARK", ""},
		{"a program that begins like the mark", "MARK", []string{"MA", "STER", "MARK"}, "MASTERMARK", ""},
		{"a program that ends like the mark begins", "MARK", []string{"M", "A"}, "MA", ""},
		{"a shim that fails", "MARK", []string{"MARKno such file"}, "", "no such file"},
		{"a shim that fails in pieces", "MARK", []string{"M", "ARKno ", "such file"}, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := &shimReport{mark: c.mark, out: &out}
			for _, text := range c.writes {
				if n, err := io.WriteString(r, text); err != nil || n != len(text) {
					t.Fatalf("%q: %d written, %v", text, n, err)
				}
			}
			require.NoError(t, r.flush())
			if out.String() != c.want || r.failed() != (c.reason != "") || r.failed() && r.reason() != c.reason {
				t.Errorf("%q comes through, failed: %v, kept %q", out.String(), r.failed(), r.begun)
			}
		})
	}
}

// Whatever an image has in its root directory, the shim finds a place there.
func TestAnImageHasSomethingWithTheNameOfTheShim(t *testing.T) {
	e := openWith(t, Options{Shim: shimBinary(t)})
	image, err := enginetest.BuildImage(enginetest.ImageSpec{
		Binary: enginetest.Binary(t, "github.com/deployster-go/deployster/engine/enginetest/probe", runtime.GOARCH),
		Path:   "/probe", Entrypoint: []string{"/probe"}, Files: map[string]string{"/.deployster-entrypoint/": ""},
	})
	require.NoError(t, err)
	ref, directory, mark := "deployster-enginetest:"+strings.ToLower(rand.Text()), t.TempDir(), rand.Text()
	tar, err := enginetest.ImageTar(ref, image)
	require.NoError(t, err)
	t.Cleanup(func() { forget(t, e, ref) })
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	hold := make(chan struct{})
	spec := marked(ref, directory, mark)
	spec.Hold, spec.Whole = hold, true
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader("input")})
		ended <- err
	}()
	awaitContainer(t, e, mark, func(c engine.Container) bool { return c.Running || e.withoutShim(ref) })
	assert.True(t, !e.withoutShim(ref), "its containers are not shimmed")
	close(hold)
	require.NoError(t, <-ended)
}

// What fails because of one image, or of something else, leaves the shim to others.
func TestWhichContainersDoWithoutTheShim(t *testing.T) {
	const file, target = "/usr/bin/deployster", shimTarget + "X"
	for _, c := range []struct {
		name     string
		err      string
		one, all bool
	}{
		{"the engine has another file system", `invalid mount config for type "bind": bind source path does not exist: ` + file, true, true},
		{"the engine is another platform", "exec " + target + ": exec format error", true, true},
		{"the image lets nobody in", `exec: "` + target + `": permission denied`, true, false},
		{"the image cannot have a file there", `error mounting "` + file + `" to rootfs at "` + target + `": not a directory`, true, false},
		{"a plug is missing that is named like the shim", "bind source path does not exist: " + file + "-data", false, false},
		{"a plug is missing below it", "bind source path does not exist: " + file + "/data", false, false},
		{"an image is missing that is named like the shim", "No such image: registry.example" + file + ":latest", false, false},
		{"the engine is out of something", "no space left on device", false, false},
		{"the engine has no room to mount it", `error mounting "` + file + `" to rootfs at "` + target + `": no space left on device`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Engine{shim: file, log: slog.New(slog.DiscardHandler)}
			assert.Equal(t, c.one, e.shimFailed(t.Context(), "one", "MARK", errors.New(c.err)), "this container is to do without")
			if e.withoutShim("one") != c.one || e.withoutShim("other") != c.all {
				t.Errorf("without it from now on: %v, and others: %v", e.withoutShim("one"), e.withoutShim("other"))
			}
		})
	}
}

// A caller that relies on a whole input is warned, once, that a large one may be cut short.
func TestALargeInputWithoutAShimIsWarnedOf(t *testing.T) {
	var said bytes.Buffer
	e := openWith(t, Options{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	probe := loadProbe(t, e)
	for _, c := range []struct {
		size  int
		whole bool
		want  int
	}{{ahead - 1, true, 0}, {ahead + 1, false, 0}, {ahead + 1, true, 1}, {ahead + 1, true, 1}} {
		spec := probe.spec("cwd")
		spec.Whole = c.whole
		if _, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader(strings.Repeat("x", c.size))}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(said.String(), "cut short"); got != c.want {
			t.Errorf("after %+v: %d warnings\n%s", c, got, said.String())
		}
	}
}
