package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/control"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// bed is a workspace for benchmarks: resources of slowtype that are applied
// from nothing again and again.
type bed struct {
	*testing.B
	dir       string
	resources int
}

func newBed(b *testing.B, resources int) *bed {
	bed := &bed{B: b, dir: b.TempDir(), resources: resources}
	var text strings.Builder
	text.WriteString("plugs: {dir: {path: things}}\nresources:\n")
	for i := range resources {
		fmt.Fprintf(&text, "  r%d: {type: %s, config: {value: x}}\n", i, slowType)
	}
	if err := os.WriteFile(filepath.Join(bed.dir, "m.yaml"), []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	bed.clear()
	return bed
}

// clear undoes what was applied.
func (b *bed) clear() {
	b.Helper()
	things := filepath.Join(b.dir, "things")
	if err := os.RemoveAll(things); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(things, 0o700); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkApplyAgainstDockerRun applies 20 independent resources, each STALE
// with one action, and does the same with docker run, one command after the
// other: init, state, action, state.
func BenchmarkApplyAgainstDockerRun(b *testing.B) {
	bed := newBed(b, 20)
	var ours, theirs []time.Duration
	for b.Loop() {
		bed.clear()
		started := time.Now()
		apply := exec.Command(binary, "apply", "m.yaml", "--confirm", "NO")
		apply.Dir = bed.dir
		if out, err := apply.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		ours = append(ours, time.Since(started))

		bed.clear()
		started = time.Now()
		for i := range bed.resources {
			for _, args := range [][]string{nil, {"state"}, {"set"}, {"state"}} {
				bed.dockerRun(fmt.Sprintf("r%d", i), args...)
			}
		}
		theirs = append(theirs, time.Since(started))
	}
	report(b, "docker-run-ms", theirs, "apply-ms", ours)
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

func (b *bed) dockerRun(name string, args ...string) {
	b.Helper()
	cmd := exec.Command("docker", append([]string{
		"run", "--rm", "-i", "-v", b.dir + ":" + b.dir + ":ro", "-v", b.dir + "/things:/dir", "-w", b.dir, slowType,
	}, args...)...)
	cmd.Stdin = strings.NewReader(stdinOf(b.dir, name))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

func stdinOf(workspace, name string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"version":"1","verbose":false,"workspace":%q,"config":{"value":"x"},"staleState":{}}`,
		name, slowType, workspace)
}

// BenchmarkOwnTime measures what Deployster adds to one invocation, everything
// included (files, log, decoding), beyond creating, starting, waiting for and
// removing the same container through the API. Both alternate in one run.
func BenchmarkOwnTime(b *testing.B) {
	ctx := context.Background()
	bed := newBed(b, 1)
	e, err := docker.Open(ctx, docker.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	log, err := sqlite.Open(ctx, filepath.Join(bed.dir, "log.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	api, err := client.New(client.FromEnv)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = api.Close() }()

	var ours, theirs, beside []time.Duration
	for n := 0; b.Loop(); n++ {
		bed.clear()
		timed := &timedEngine{Engine: e}
		started := time.Now()
		bed.applyOnce(timed, log, fmt.Sprintf("RUN%d", n))
		took := time.Since(started)
		ours = append(ours, took/4)
		beside = append(beside, (took-timed.spent)/4)

		started = time.Now()
		for _, args := range [][]string{nil, {"state"}, {"set"}, {"state"}} {
			bed.bare(api, args...)
		}
		theirs = append(theirs, time.Since(started)/4)
	}
	report(b, "api-ms", theirs, "deployster-ms", ours)
	own := make([]time.Duration, len(ours))
	for i := range ours {
		own[i] = ours[i] - theirs[i]
	}
	b.ReportMetric(float64(median(own).Microseconds())/1000, "own-ms")
	b.ReportMetric(float64(median(beside).Microseconds())/1000, "beside-engine-ms")
}

// timedEngine adds up the time spent in running containers. It is used by one
// goroutine.
type timedEngine struct {
	*docker.Engine
	spent time.Duration
}

func (e *timedEngine) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	started := time.Now()
	defer func() { e.spent += time.Since(started) }()
	return e.Engine.Run(ctx, spec, streams)
}

// applyOnce applies the manifest in this process: init, state, set, state.
func (b *bed) applyOnce(e *timedEngine, log *sqlite.Log, id string) {
	b.Helper()
	expressions := expression.New(b.dir)
	sources, err := manifest.ReadFiles([]string{filepath.Join(b.dir, "m.yaml")})
	if err != nil {
		b.Fatal(err)
	}
	m, err := manifest.Load(sources, manifest.Options{Evaluator: expressions, Workspace: b.dir, Home: b.dir})
	if err != nil {
		b.Fatal(err)
	}
	held, err := control.Begin(b.Context(), control.Options{
		Log: log, Engine: e, ID: id, Target: "run/m.yaml", Patience: time.Minute, Notice: func(string) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer held.End()
	_, err = runner.New(runner.Options{
		Manifest: m, Expressions: expressions, Engine: e, Images: e, Recorder: held, Guard: held,
		Confirm: runner.ConfirmNo, Parallelism: 1, Pull: engine.PullNever, Network: "none", Run: id, Log: log.ID(),
		Version: "1", Workspace: b.dir, Work: filepath.Join(b.dir, "work", id), Now: time.Now,
	}).Apply(b.Context())
	if err != nil {
		b.Fatal(err)
	}
}

// bare creates, starts, waits for and removes a container; what it reads comes
// from a file, so that nothing needs to be attached.
func (b *bed) bare(api *client.Client, args ...string) {
	b.Helper()
	ctx := b.Context()
	made, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: slowType, Cmd: append([]string{"bare"}, args...), WorkingDir: b.dir},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", Binds: []string{b.dir + ":" + b.dir + ":ro", filepath.Join(b.dir, "things") + ":/dir"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	waiting := api.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := api.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	select {
	case end := <-waiting.Result:
		if end.StatusCode != 0 {
			b.Fatalf("exit %d", end.StatusCode)
		}
	case err := <-waiting.Error:
		b.Fatal(err)
	}
	if _, err := api.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		b.Fatal(err)
	}
}

func report(b *testing.B, a string, as []time.Duration, c string, cs []time.Duration) {
	b.ReportMetric(float64(median(as).Microseconds())/1000, a)
	b.ReportMetric(float64(median(cs).Microseconds())/1000, c)
	b.ReportMetric(0, "ns/op")
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}
