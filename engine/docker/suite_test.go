package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
)

func TestDockerPassesTheSuite(t *testing.T) {
	probe := loadProbe(t, open(t))
	shim := shimBinary(t)
	e := openWith(t, Options{Shim: shim})
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe:    probe.ref,
		Tar:      probe.tar,
		HeldRuns: true,
		Left:     "reading\n",
		Lacked:   func(t *testing.T, labels map[string]string) bool { return lacked(t, e, labels) },
		Leave: func(t *testing.T, labels map[string]string) (string, func()) {
			return probe.leave(t, e, labels)
		},
		Caller: func(t *testing.T, order string) *exec.Cmd { return caller(t, shim, order, "") },
	})
}

// lacked reports whether Docker has noticed that memory is lacking in a container.
func lacked(t *testing.T, e *Engine, labels map[string]string) bool {
	found := must.Get(e.Containers(t.Context(), labels))(t)
	require.Len(t, found, 1)
	filters := client.Filters{}
	filters.Add("container", found[0].ID)
	filters.Add("event", "oom")
	events := e.client.Events(t.Context(), client.EventsListOptions{
		Since: found[0].Created.Format(time.RFC3339Nano), Until: time.Now().Format(time.RFC3339Nano), Filters: filters,
	})
	select {
	case <-events.Messages:
		return true
	case err := <-events.Err:
		require.ErrorIs(t, err, io.EOF)
		return false
	}
}

// caller is a process of this test binary that carries an order out, and is
// killed at the latest when its run passes a point.
func caller(t *testing.T, shim, order, point string) *exec.Cmd {
	self := must.Get(os.Executable())(t)
	command := exec.CommandContext(t.Context(), self, shim, order, point)
	command.Env = append(os.Environ(), actAs+"=die")
	return command
}

// dieAt kills this process at a point of a run.
func dieAt(last string) func(string) {
	return func(point string) {
		if point == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// Wherever a run is when its caller is killed, and whether there is a shim or
// not: the program has its whole input, or never starts.
func TestACallerIsKilledAtEveryPoint(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	for _, shim := range []string{shimBinary(t), ""} {
		for _, point := range []string{"the container is about to start", "the container is started", "the input is given"} {
			for _, size := range []int{1000, ahead} {
				directory, mark := t.TempDir(), rand.Text()
				order := must.Get(json.Marshal(map[string]any{
					"Image": probe.ref, "Args": []string{"save", "/mnt/kept"}, "Size": size, "Given": size, "After": time.Hour,
					"Mounts": []engine.Mount{{Source: directory, Target: "/mnt"}}, "Labels": map[string]string{"deployster.enginetest": mark},
				}))(t)
				if said, err := caller(t, shim, string(order), point).CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("%s: the caller was not killed: %v\n%s", point, err, said)
				}
				left := awaitContainer(t, e, mark, func(c engine.Container) bool { return !c.Running })
				assert.NoError(t, e.Remove(t.Context(), left.ID))
				content, err := os.ReadFile(filepath.Join(directory, "kept"))
				assert.True(t, (err != nil || string(content) == fmt.Sprintln(size)) && (err == nil || os.IsNotExist(err)),
					"shim %q, when %s: it ran with %s of %d bytes (%v)", shim, point, content, size, err)
			}
		}
	}
}

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
	case "open-and-die":
		_, err := Open(context.Background(), Options{Host: os.Args[len(os.Args)-1]})
		if err == nil {
			dieAt("")("")
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "open":
		_, err := Open(context.Background(), Options{Host: os.Args[len(os.Args)-1], Env: func(string) string { return "/" }})
		fmt.Fprintln(os.Stdout, errors.Is(err, engine.ErrUnavailable), err)
	}
}

// open connects to the engine that the tests use: the environment's, as for anybody.
func open(tb testing.TB) *Engine { tb.Helper(); return openWith(tb, Options{}) }

func openWith(tb testing.TB, options Options) *Engine {
	e, err := Open(tb.Context(), options)
	require.NoError(tb, err, "these tests need a Docker Engine")
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

func shimBinary(tb testing.TB) string {
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

func forget(tb testing.TB, e *Engine, ref string) {
	_, err := e.client.ImageRemove(context.WithoutCancel(tb.Context()), ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	assert.True(tb, err == nil || strings.Contains(err.Error(), "No such image"), "remove image %s: %v", ref, err)
}

// spec is a run of the probe without a network, which is quickest.
func (f fixture) spec(args ...string) engine.Spec {
	return engine.Spec{Image: f.ref, Args: args, Offline: true}
}

// leave starts a container as a crashed run leaves it, and attaches nothing but its stdin.
func (f fixture) leave(t *testing.T, e *Engine, labels map[string]string) (string, func()) {
	created := must.Get(e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{
			Image: f.ref, Cmd: []string{"read-exit", "7"}, Labels: labels, OpenStdin: true, StdinOnce: true, NetworkDisabled: true,
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	}))(t)
	attached, err := e.client.ContainerAttach(t.Context(), created.ID, client.ContainerAttachOptions{Stream: true, Stdin: true})
	require.NoError(t, err)
	must.Get(e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}))(t)
	return created.ID, attached.Close
}

func writeJSON(tb testing.TB, file string, content any) {
	require.NoError(tb, os.WriteFile(file, must.Get(json.Marshal(content))(tb), 0o600))
}

// BenchmarkRunAgainstCLI runs the same container, a cat with 1 KB on stdin, through the engine and through `docker run
// --rm -i` in turn, and reports the medians and their ratio.
func BenchmarkRunAgainstCLI(b *testing.B) {
	e := open(b)
	probe := loadProbe(b, e)
	sent := strings.Repeat("x", 1024)
	for _, network := range []string{"none", "host", "bridge"} {
		b.Run(network, func(b *testing.B) {
			var engineTimes, commandTimes []time.Duration
			for b.Loop() {
				began := time.Now()
				var received bytes.Buffer
				spec := probe.spec("cat")
				spec.Network = network
				exit, err := e.Run(b.Context(), spec, engine.IO{Stdin: strings.NewReader(sent), Stdout: &received})
				if err != nil || exit.Code != 0 || received.String() != sent {
					b.Fatalf("exit %+v, error %v, %d bytes", exit, err, received.Len())
				}
				engineTimes = append(engineTimes, time.Since(began))
				began = time.Now()
				command := exec.CommandContext(b.Context(), "docker", "run", "--rm", "-i", "--network", network, probe.ref, "cat")
				command.Stdin = strings.NewReader(sent)
				output, err := command.Output()
				require.True(b, err == nil && string(output) == sent, "docker run: %v, %d bytes", err, len(output))
				commandTimes = append(commandTimes, time.Since(began))
			}
			ours, theirs := median(engineTimes), median(commandTimes)
			b.ReportMetric(float64(ours)/float64(time.Millisecond), "engine-ms")
			b.ReportMetric(float64(theirs)/float64(time.Millisecond), "docker-run-ms")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
		})
	}
}

// BenchmarkRunAgainstBareAPI compares a run with the least that must be asked
// of the engine for it: create, start, wait, and a removal in the background.
func BenchmarkRunAgainstBareAPI(b *testing.B) {
	e := open(b)
	probe := loadProbe(b, e)
	var engineTimes, bareTimes []time.Duration
	for b.Loop() {
		began := time.Now()
		exit := must.Get(e.Run(b.Context(), probe.spec("exit", "0"), engine.IO{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}}))(b)
		require.Equal(b, 0, exit.Code)
		engineTimes = append(engineTimes, time.Since(began))
		began = time.Now()
		bareRun(b, e, probe.spec("exit", "0"))
		bareTimes = append(bareTimes, time.Since(began))
	}
	ours, bare := median(engineTimes), median(bareTimes)
	b.ReportMetric(float64(ours)/float64(time.Millisecond), "engine-ms")
	b.ReportMetric(float64(bare)/float64(time.Millisecond), "bare-ms")
	b.ReportMetric(float64(ours-bare)/float64(time.Millisecond), "own-ms")
}

func bareRun(b *testing.B, e *Engine, spec engine.Spec) {
	b.Helper()
	id, _, err := e.create(b.Context(), spec, false)
	require.NoError(b, err)
	ended := e.await(b.Context(), id, "next-exit")
	must.Get(e.client.ContainerStart(b.Context(), id, client.ContainerStartOptions{}))(b)
	end := <-ended
	require.NoError(b, end.err)
	e.removals.begin(id, func() { e.discard(b.Context(), id) })
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
