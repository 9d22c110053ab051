package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// servedTypes loads slowtype into the oci engine's cache as that many types:
// images that differ, so that each has a process of its own.
func servedTypes(b *testing.B, n int) (*oci.Engine, []string) {
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	e := must.Get(oci.Open(b.Context(), oci.Options{}))(b)
	b.Cleanup(func() { _ = e.Close() })
	program := filepath.Join(b.TempDir(), "slowtype")
	require.NoError(b, build(program, "./testdata/slowtype"))
	var refs []string
	for i := range n {
		ref := fmt.Sprintf("deployster-bench-type:%d", i)
		image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{
			Binary: program, Entrypoint: []string{"/slowtype"}, Env: []string{fmt.Sprintf("TYPE=%d", i)},
		}))(b)
		tar := must.Get(enginetest.ImageTar(ref, image))(b)
		require.NoError(b, e.Load(b.Context(), bytes.NewReader(tar)))
		refs = append(refs, ref)
	}
	return e, refs
}

// manyValid writes a manifest of n resources of the types, all as configured;
// deep makes each depend on the one before and read its state.
func manyValid(b *testing.B, types []string, n int, deep bool) *bed {
	bed := newBed(b, n)
	var text strings.Builder
	text.WriteString("plugs: {dir: {path: things}}\nresources:\n")
	for i := range n {
		value, dependencies := "x", ""
		if deep && i > 0 {
			value, dependencies = "'{{ up.state.value }}'", fmt.Sprintf("dependencies: {up: r%d}, ", i-1)
		}
		fmt.Fprintf(&text, "  r%d: {type: %s, %sconfig: {value: %s}}\n", i, types[i%len(types)], dependencies, value)
		require.NoError(b, os.WriteFile(filepath.Join(bed.dir, "things", fmt.Sprintf("r%d", i)), []byte("x"), 0o600))
	}
	require.NoError(b, os.WriteFile(filepath.Join(bed.dir, "m.yaml"), []byte(text.String()), 0o600))
	return bed
}

// BenchmarkPlanMany plans resources that are as configured, of ten served types
// on the oci engine, as the program does it, from its start to its end. The first
// plan asks every init, the others find the answers kept.
func BenchmarkPlanMany(b *testing.B) {
	_, types := servedTypes(b, 10)
	for _, c := range []struct {
		name string
		n    int
		deep bool
	}{{"100", 100, false}, {"1000", 1000, false}, {"1000-deep", 1000, true}, {"10000", 10000, false}} {
		b.Run(c.name, func(b *testing.B) {
			bed := manyValid(b, types, c.n, c.deep)
			first := bed.planned()
			var times []time.Duration
			var most int64
			for b.Loop() {
				run := bed.planned()
				times, most = append(times, run.took), max(most, run.memory)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(first.took.Seconds(), "first-s")
			b.ReportMetric(median(times).Seconds(), "s")
			b.ReportMetric(float64(median(times).Microseconds())/float64(c.n), "µs/resource")
			b.ReportMetric(float64(most)/(1<<20), "MiB")
		})
	}
}

type planned struct {
	took   time.Duration
	memory int64 // bytes, at most
}

func (b *bed) planned() planned {
	started := time.Now()
	cmd := exec.Command(binary, "plan", "m.yaml", "--engine", "oci", "--detailed-exitcode")
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%v\n%.2000s", err, out)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(b, ok, "this system does not tell how much memory a process took")
	return planned{time.Since(started), usage.Maxrss << 10}
}

// BenchmarkServed asks a served process for the state of a resource: over bare
// pipes, and through the runner with the log, one after the other. What the
// runner takes more is its own time: two durable entries, two files, decoding.
func BenchmarkServed(b *testing.B) {
	e, types := servedTypes(b, 1)
	const n = 200
	bed := manyValid(b, types, n, false)
	log := must.Get(sqlite.Open(b.Context(), filepath.Join(bed.dir, "log.db"), sqlite.Options{}))(b)
	defer func() { _ = log.Close() }()
	var bare, own []time.Duration
	for round := 0; b.Loop(); round++ {
		asked := bed.ask(e, types[0], n)
		usual := median(asked)
		bare = append(bare, asked...)
		for _, took := range bed.applyInProcess(e, log, fmt.Sprintf("RUN%d", round)) {
			own = append(own, took-usual)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(median(bare)), "request-ms")
	b.ReportMetric(milliseconds(percentile(bare, 99)), "request-p99-ms")
	b.ReportMetric(milliseconds(median(own)), "own-ms")
	b.ReportMetric(milliseconds(percentile(own, 99)), "own-p99-ms")
}

// ask starts a process and asks it n times.
func (b *bed) ask(e *oci.Engine, image string, n int) []time.Duration {
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(b.Context(), engine.Spec{
			Image: image, Args: []string{"serve"}, Mounts: []engine.Mount{{Source: filepath.Join(b.dir, "things"), Target: "/dir"}},
		}, engine.IO{Stdin: requests, Stdout: answers})
		_ = answers.Close()
		ended <- err
	}()
	lines := bufio.NewReader(out)
	var times []time.Duration
	for i := range n + 1 {
		request := must.Get(json.Marshal(protocol.ServeRequest{
			ID: int64(i + 1), Action: "state", Args: []string{"state"}, Input: json.RawMessage(stdinOf(b.dir, fmt.Sprintf("r%d", i%n))),
		}))(b)
		started := time.Now()
		require.NoError(b, must.Fail(in.Write(append(request, '\n'))))
		require.NoError(b, must.Fail(lines.ReadString('\n')))
		if i > 0 { // the first waits for the start
			times = append(times, time.Since(started))
		}
	}
	_ = in.Close()
	require.NoError(b, <-ended)
	return times
}

// applyInProcess applies the manifest, one resource after the other, and returns
// how long each took from its beginning to its end.
func (b *bed) applyInProcess(e *oci.Engine, log *sqlite.Log, id string) []time.Duration {
	expressions := expression.New(b.dir)
	sources := must.Get(manifest.ReadFiles([]string{filepath.Join(b.dir, "m.yaml")}))(b)
	m := must.Get(manifest.Load(sources, manifest.Options{Evaluator: expressions, Workspace: b.dir, Home: b.dir}))(b)
	held := must.Get(runs.Begin(context.Background(), runs.Options{
		Log: log, Engine: e, ID: id, Target: "run/m.yaml", OrphanTimeout: time.Minute, Notice: func(string) {},
	}))(b)
	defer held.End()
	times := &resourceTimes{}
	_, err := runner.New(runner.Spec{Manifest: m, Expressions: expressions, Version: "1"}, runner.Containers{
		Engine: e, Images: e, Parallelism: 1, Pull: engine.PullNever, Run: id, Log: log.ID(),
		Workspace: b.dir, Work: filepath.Join(b.dir, "work", id), Now: time.Now,
	}).Apply(b.Context(), runner.Caller{Recorder: held, Guard: held, Observer: times})
	require.NoError(b, err)
	return times.took[1:] // the first waits for the start
}

type resourceTimes struct {
	started time.Time
	took    []time.Duration
}

func (t *resourceTimes) Observe(e report.Event) {
	if e.Kind == report.ResourceStarted {
		t.started = e.Time
	}
	if e.Kind == report.ResourceFinished {
		t.took = append(t.took, e.Time.Sub(t.started))
	}
}
