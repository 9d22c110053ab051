package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
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
	t.Cleanup(func() { _ = writer.Close(); <-u.ended })
	select {
	case <-output.first:
	case <-u.ended:
		t.Fatalf("exit %+v, error %v", u.exit, u.err)
	}
	found := must.Get(e.Containers(t.Context(), spec.Labels))(t)
	require.Len(t, found, 1)
	u.id = found[0].ID
	return u
}

func TestKilledFromOutside(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	u := begin(t, e, probe.spec("read-exit", "0"))
	must.Get(e.client.ContainerKill(t.Context(), u.id, client.ContainerKillOptions{Signal: "KILL"}))(t)
	<-u.ended
	assert.True(t, u.err == nil && u.exit == (engine.Exit{Code: 137}), "exit %+v, error %v; want 137", u.exit, u.err)
}

// A run keeps its container out of Docker's log, where output of any size would
// fill the engine's disk, and mounts nothing that was not asked for.
func TestContainerIsAsAskedFor(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	u := begin(t, e, probe.spec("read-exit", "0"))
	inspected := must.Get(e.client.ContainerInspect(t.Context(), u.id, client.ContainerInspectOptions{}))(t)
	c := inspected.Container
	assert.True(t, c.HostConfig.LogConfig.Type == "none" && c.HostConfig.NetworkMode == "none" && len(c.Mounts) == 0 &&
		!c.HostConfig.Privileged, "%+v, mounts %v", c.HostConfig, c.Mounts)
}

func TestNeverStartedContainer(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	labels := map[string]string{"deployster.enginetest": rand.Text()}
	created, err := e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: probe.ref, Labels: labels}})
	require.NoError(t, err)
	found, err := e.Containers(t.Context(), labels)
	assert.True(t, err == nil && len(found) == 1 && !found[0].Started &&
		!found[0].Running, "found %+v, error %v; want one that was never started", found, err)
	exit, err := e.Wait(t.Context(), created.ID)
	assert.True(t, err == nil && exit == (engine.Exit{}), "Wait: exit %+v, error %v", exit, err)
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
			left, err := e.Containers(t.Context(), spec.Labels)
			assert.True(t, err == nil && len(left) == 0, "left behind: %v (%v)", left, err)
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

func load(t *testing.T, e *Engine, spec enginetest.ImageSpec) string {
	image := must.Get(enginetest.BuildImage(spec))(t)
	ref := "deployster-enginetest:" + strings.ToLower(rand.Text())
	tar := must.Get(enginetest.ImageTar(ref, image))(t)
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
		options, err := watched.endpoint.clientOptions(nil)
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
		exit, err := watched.Run(ctx, spec, engine.IO{Stdin: strings.NewReader("x")})
		assert.ErrorIs(t, err, context.Canceled, "cancelled after %d answers: exit %+v, error", after, exit)
		cancel()
		left, err := e.Containers(t.Context(), labels)
		assert.True(t, err == nil && len(left) == 0, "cancelled after %d answers: left behind %v (%v)", after, left, err)
		_ = watched.client.Close()
	}
	assert.True(t, log.Len() <= 0, "warnings: %s", log.String())
}

// What the daemon was about to do when its machine had no more of something is in its texts, too,
// and says nothing about the container or its image.
func TestAnEngineThatLacksSomethingIsNotTheFaultOfTheContainer(t *testing.T) {
	e := &Engine{}
	spec := engine.Spec{Image: "web", Entrypoint: "/tool", Network: "net"}
	for _, said := range []string{
		`OCI runtime create failed: runc create failed: exec: "/tool": mkdir /var/lib/docker/overlay2/x/merged: no space left on device: unknown`,
		`failed to create task: exec: "runc": fork/exec /usr/sbin/runc: too many open files: unknown`,
		"network net not found: open /var/lib/docker/network/files: too many open files in system",
		"invalid mount config: write /var/lib/docker/containers/x/config.v2.json: no space left on device",
		"No such image: web: open /var/lib/docker/image/x: Too many open files",
	} {
		err := e.runError("create the container", spec, errors.New(said))
		assert.True(t, !errors.As(err, new(*engine.SpecError)) && !errors.Is(err, engine.ErrNoImage) &&
			strings.Contains(err.Error(), said), "it says %v", err)
		err = e.pullError("web:1", "registry.example", false, errors.New("failed to register layer: "+said))
		assert.True(t, !errors.Is(err, engine.ErrNoImage) && !strings.Contains(err.Error(), "registry.example") &&
			strings.Contains(err.Error(), said), "of a pull it says %v", err)
	}
	err := e.runError("create the container", spec, errors.New(`exec: "/tool": permission denied`))
	assert.True(t, errors.As(err, new(*engine.SpecError)), "of what cannot be executed it says %v", err)
}

// Beside the text of a line, its end among it, the driver keeps up to 28 bytes. What it is told
// to keep has room for lines of any length, as they are counted.
func TestWhatIsKeptHasRoomForLinesOfAnyLength(t *testing.T) {
	const kept, own = 1 << 20, 28
	size := must.Get(strconv.ParseInt(logConfig(engine.Spec{Kept: kept}).Config["max-size"], 10, 64))(t)
	for _, line := range []int64{1, 2, 10, 31, 32, 33, 100, part} {
		got := size / (line + own) * max(line, engine.KeptLine)
		assert.GreaterOrEqual(t, got, kept-line-own, "of lines of %d bytes it keeps what counts for %d, not %d", line, got, int64(kept))
	}
	most := logConfig(engine.Spec{Kept: math.MaxInt64}).Config["max-size"]
	assert.True(t, most[0] != '-', "the most is %s", most)
}

// Who closes a socket with something in it that was not read resets it, and what it has sent is read all the same.
func TestASocketThatIsResetGivesAllThatWasSent(t *testing.T) {
	l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer l.Close()
	here := must.Get(net.Dial("unix", l.Addr().String()))(t)
	defer here.Close()
	there := must.Get(l.Accept())(t)
	must.Get(io.WriteString(here, "input that nobody reads"))(t)
	must.Get(io.WriteString(there, "output"))(t)
	require.NoError(t, there.Close())
	assert.Equal(t, "output", string(must.Get(io.ReadAll(unreset{here}))(t)))
}

func TestWhatContainersWriteBesideTheirMountsIsMeasured(t *testing.T) {
	e := open(t)
	f := loadProbe(t, e)
	labels := map[string]string{"deployster.test": t.TempDir()}
	for _, file := range []string{"/tmp/f", "/declared/f"} {
		created := must.Get(e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
			Config:     &container.Config{Image: f.ref, Cmd: []string{"write", file, strings.Repeat("x", 100_000)}, Labels: labels, Volumes: map[string]struct{}{"/declared": {}}, NetworkDisabled: true},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		}))(t)
		defer func() { assert.NoError(t, e.Remove(t.Context(), created.ID)) }()
		must.Get(e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}))(t)
		require.Equal(t, 0, must.Get(e.Wait(t.Context(), created.ID))(t).Code)
	}
	bytes, dir, err := e.Written(t.Context(), labels)
	assert.True(t, err == nil && bytes >= 200_000 && bytes <= 300_000 &&
		strings.HasPrefix(dir, "/"), "they have written %d bytes below %q: %v", bytes, dir, err)
	bytes, _, err = e.Written(t.Context(), map[string]string{"deployster.test": "none"})
	assert.True(t, err == nil && bytes == 0, "those that are not there have written %d bytes: %v", bytes, err)
}

func marked(image, directory, mark string) engine.Spec {
	return engine.Spec{
		Image:   image,
		Args:    []string{"write", "/mnt/mark", "ran"},
		Offline: true,
		Mounts:  []engine.Mount{{Source: directory, Target: "/mnt"}},
		Labels:  map[string]string{"deployster.enginetest": mark},
	}
}

// holdForEver is a process that runs a container held by the shim and never releases it.
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
	self := must.Get(os.Executable())(t)
	caller := exec.CommandContext(t.Context(), self, shimBinary(t), probe.ref, directory, mark)
	caller.Env = append(os.Environ(), actAs+"=hold")
	caller.Stderr = os.Stderr
	require.NoError(t, caller.Start())
	id := awaitContainer(t, e, mark, func(c engine.Container) bool { return c.Running }).ID
	defer func() { assert.NoError(t, e.Remove(context.WithoutCancel(t.Context()), id)) }()
	require.NoError(t, caller.Process.Kill())
	_ = caller.Wait()
	exit, err := e.Wait(t.Context(), id)
	assert.True(t, err == nil && exit.Code == entrypoint.Failed, "exit %+v, error %v; want the shim's code", exit, err)
	_, err = os.Stat(filepath.Join(directory, "mark"))
	assert.True(t, os.IsNotExist(err), "the program ran (%v)", err)
}

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
			go func() { _, err := c.engine.Run(t.Context(), spec, streams); ended <- err }()
			created := awaitContainer(t, c.engine, mark, func(engine.Container) bool { return true })
			assert.True(t, !created.Started, "the container is started before it is released")
			close(hold)
			require.NoError(t, <-ended)
			_, err := os.Stat(filepath.Join(directory, "mark"))
			assert.NoError(t, err, "the program did not run")
		})
	}
}

// A path that leads elsewhere when the engine mounts it: the shim sees that before the program
// starts, and where there is none the container is killed.
func TestWhatWasCheckedIsMountedOrNothing(t *testing.T) {
	probe := loadProbe(t, open(t))
	e := openWith(t, Options{Shim: shimBinary(t)})
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	plug, secret := filepath.Join(root, "plug"), filepath.Join(root, "secret")
	for _, dir := range []string{plug, secret} {
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(filepath.Base(dir)), 0o644))
	}
	var replacing, shimmed atomic.Bool
	e.passed = func(point string) {
		switch {
		case !replacing.Load():
		case point == "the container is about to start":
			assert.NoError(t, errors.Join(os.Rename(plug, plug+".old"), os.Symlink(secret, plug)))
		case point == "the container is started" && shimmed.Load(): // the engine's part is done, and all looks as it did
			assert.NoError(t, errors.Join(os.Remove(plug), os.Rename(plug+".old", plug)))
		}
	}
	hold := make(chan struct{})
	close(hold)
	for name, c := range map[string]struct {
		spec  engine.Spec
		stdin io.Reader
	}{
		"with all of its input":     {engine.Spec{Whole: true}, strings.NewReader("x")},
		"held":                      {engine.Spec{Hold: hold}, strings.NewReader("x")},
		"with input":                {engine.Spec{}, strings.NewReader("x")},
		"without input":             {engine.Spec{}, nil},
		"without room for the shim": {engine.Spec{Pids: shimPids - 1}, nil},
	} {
		spec := c.spec
		shimmed.Store(spec.Pids == 0)
		spec.Image, spec.Args = probe.ref, []string{"read", "/plug/file"}
		spec.Mounts = must.Get(engine.Finder{}.Pin([]engine.Mount{{Source: plug, Target: "/plug"}}))(t)
		var out bytes.Buffer
		exit, err := e.Run(t.Context(), spec, engine.IO{Stdin: c.stdin, Stdout: &out})
		require.NoError(t, err, name)
		assert.Equal(t, "0 plug", fmt.Sprint(exit.Code, " ", out.String()), name)
		out.Reset()
		if c.stdin != nil {
			c.stdin = strings.NewReader("x")
		}
		replacing.Store(true)
		_, err = e.Run(t.Context(), spec, engine.IO{Stdin: c.stdin, Stdout: &out})
		replacing.Store(false)
		assert.ErrorIs(t, err, engine.ErrReplaced, name)
		if shimmed.Load() {
			assert.Empty(t, out.String(), name)
			continue
		}
		assert.NoError(t, errors.Join(os.Remove(plug), os.Rename(plug+".old", plug)))
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
	shell := must.Get(filepath.EvalSymlinks("/bin/sh"))(t)
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

// outcome is all that a run shows. Of errors only our own text counts: Docker's differs in who looked for the program.
func outcome(t *testing.T, e *Engine, spec engine.Spec) string {
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
		name, mark string
		writes     []string
		want       string
		reason     string // "" is a program that ran
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
				n := must.Get(io.WriteString(r, text))(t)
				require.Equal(t, len(text), n, "%q: %d written", text, n)
			}
			require.NoError(t, r.flush())
			if out.String() != c.want || r.failed() != (c.reason != "") || r.failed() && r.reason() != c.reason {
				t.Errorf("%q comes through, failed: %v, kept %q", out.String(), r.failed(), r.begun)
			}
		})
	}
}

func TestAnImageHasSomethingWithTheNameOfTheShim(t *testing.T) {
	e := openWith(t, Options{Shim: shimBinary(t)})
	image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{
		Binary: enginetest.Binary(t, "github.com/deployster-go/deployster/engine/enginetest/probe", runtime.GOARCH),
		Path:   "/probe", Entrypoint: []string{"/probe"}, Files: map[string]string{"/.deployster-entrypoint/": ""},
	}))(t)
	ref, directory, mark := "deployster-enginetest:"+strings.ToLower(rand.Text()), t.TempDir(), rand.Text()
	tar := must.Get(enginetest.ImageTar(ref, image))(t)
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

// A shim that only looks at what is mounted gives its program the input, which waits for nothing.
func TestAProgramWithMountsHasItsInput(t *testing.T) {
	probe := loadProbe(t, open(t))
	e := openWith(t, Options{Shim: shimBinary(t)})
	spec := probe.spec("cat")
	spec.Mounts = must.Get(engine.Finder{}.Pin([]engine.Mount{{Source: must.Get(filepath.EvalSymlinks(t.TempDir()))(t), Target: "/mnt"}}))(t)
	var out bytes.Buffer
	exit := must.Get(e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader("input"), Stdout: &out}))(t)
	assert.Equal(t, "0 input", fmt.Sprint(exit.Code, " ", out.String()))
}

// What fails because of one image, or of something else, leaves the shim to others.
func TestWhichContainersDoWithoutTheShim(t *testing.T) {
	const file, target = "/usr/bin/deployster", shimTarget + "X"
	for _, c := range []struct {
		name, err string
		one, all  bool
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
		must.Get(e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader(strings.Repeat("x", c.size))}))(t)
		got := strings.Count(said.String(), "cut short")
		assert.Equal(t, c.want, got, "after %+v: %d warnings\n%s", c, got, said.String())
	}
}
