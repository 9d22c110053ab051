//go:build linux

package oci

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// BenchmarkRun runs the same container, a cat with 1 KB on stdin, through the
// engine and through a plain `runc run` in turn, and reports the medians and
// their ratio.
func BenchmarkRun(b *testing.B) {
	e := open(b)
	loadProbe(b, e)
	for _, network := range []string{"host", "none"} {
		b.Run(network, func(b *testing.B) {
			spec := probe("cat")
			spec.Network = network
			plain := newBundle(b, e, spec)
			var engineTimes, plainTimes []time.Duration
			for b.Loop() {
				engineTimes = append(engineTimes, clocked(func() { echo(b, e, spec) }))
				plain.prepare(b)
				plainTimes = append(plainTimes, clocked(func() { plain.run(b) }))
			}
			ours, theirs := median(engineTimes), median(plainTimes)
			b.ReportMetric(milliseconds(ours), "engine-ms")
			b.ReportMetric(milliseconds(theirs), "runc-run-ms")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
		})
	}
}

// BenchmarkAgainstDockerRun runs a cat in turn through the engine and through
// `docker run --rm -i`, each with the network that it has by default, and
// reports the medians and how many times the engine's goes into the other.
func BenchmarkAgainstDockerRun(b *testing.B) {
	e := open(b)
	const ref = "deployster-oci-benchmark:probe"
	tar, err := enginetest.ImageTar(ref, enginetest.ProbeImage(b, ""))
	if err == nil {
		err = e.Load(b.Context(), bytes.NewReader(tar))
	}
	if err != nil {
		b.Fatal(err)
	}
	docker(b, string(tar), "load", "--quiet")
	b.Cleanup(func() {
		if output, err := exec.Command("docker", "rmi", ref).CombinedOutput(); err != nil {
			b.Errorf("docker rmi: %v\n%s", err, output)
		}
	})
	spec := engine.Spec{Image: ref, Args: []string{"cat"}}
	var engineTimes, dockerTimes []time.Duration
	for b.Loop() {
		engineTimes = append(engineTimes, clocked(func() { echo(b, e, spec) }))
		dockerTimes = append(dockerTimes, clocked(func() {
			if docker(b, sent, "run", "--rm", "--interactive", ref, "cat") != sent {
				b.Error("docker run does not echo")
			}
		}))
	}
	ours, theirs := median(engineTimes), median(dockerTimes)
	b.ReportMetric(milliseconds(ours), "engine-ms")
	b.ReportMetric(milliseconds(theirs), "docker-run-ms")
	b.ReportMetric(float64(theirs)/float64(ours), "times-faster")
}

func docker(b *testing.B, stdin string, args ...string) string {
	b.Helper()
	command := exec.CommandContext(b.Context(), "docker", args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.Output()
	if err != nil {
		b.Fatalf("docker %s: %v", args[0], err)
	}
	return string(output)
}

// BenchmarkRunInParallel runs eight at a time.
func BenchmarkRunInParallel(b *testing.B) {
	e := open(b)
	loadProbe(b, e)
	for b.Loop() {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { echo(b, e, probe("cat")) })
		}
		group.Wait()
	}
	b.ReportMetric(milliseconds(b.Elapsed())/float64(8*b.N), "ms/run")
}

// BenchmarkHold measures from the release of a prepared container to the first
// byte of its output.
func BenchmarkHold(b *testing.B) {
	e := open(b)
	loadProbe(b, e)
	var times []time.Duration
	for b.Loop() {
		hold := make(chan struct{})
		spec := probe("cat")
		spec.Hold = hold
		first := make(stamp, 1)
		ended := make(chan error, 1)
		go func() {
			_, err := e.Run(b.Context(), spec, engine.IO{Stdin: strings.NewReader("x"), Stdout: first})
			ended <- err
		}()
		select {
		case err := <-ended:
			b.Fatal("ended before its release: ", err)
		case <-time.After(100 * time.Millisecond): // the time in which it is prepared
		}
		began := time.Now()
		close(hold)
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		times = append(times, (<-first).Sub(began))
	}
	b.ReportMetric(milliseconds(median(times)), "first-byte-ms")
}

// sent is what containers get on stdin.
var sent = strings.Repeat("x", 1024)

func clocked(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func echo(b *testing.B, e *Engine, spec engine.Spec) {
	b.Helper()
	var received bytes.Buffer
	exit, err := e.Run(b.Context(), spec, engine.IO{Stdin: strings.NewReader(sent), Stdout: &received})
	if err != nil || exit.Code != 0 || received.String() != sent {
		b.Errorf("exit %+v, error %v, %d bytes", exit, err, received.Len())
	}
}

// bundle is what `runc run` needs to run the same container: the same
// configuration, and the image's file in a directory instead of an overlay.
type bundle struct {
	engine *Engine
	spec   engine.Spec
	dir    string
	state  string
	id     string
}

func newBundle(b *testing.B, e *Engine, spec engine.Spec) *bundle {
	b.Helper()
	p := &bundle{engine: e, spec: spec, dir: b.TempDir(), state: b.TempDir()}
	root := filepath.Join(p.dir, "root")
	binary, err := os.ReadFile(enginetest.Binary(b, "github.com/deployster-go/deployster/engine/enginetest/probe", runtime.GOARCH))
	if err == nil {
		err = os.Mkdir(root, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "probe"), binary, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *bundle) prepare(b *testing.B) {
	b.Helper()
	p.id = newID()
	image, err := p.engine.store.Find(p.spec.Image)
	if err != nil {
		b.Fatal(err)
	}
	h, err := p.engine.host()
	if err != nil {
		b.Fatal(err)
	}
	config, err := configure(p.id, p.spec, image.Config.Config, h)
	if err != nil {
		b.Fatal(err)
	}
	config.Root = &specs.Root{Path: "root", Readonly: true}
	encoded, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "config.json"), encoded, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (p *bundle) run(b *testing.B) {
	b.Helper()
	command := exec.CommandContext(b.Context(), p.engine.runtime, "--root", p.state, "run", "--bundle", p.dir, p.id)
	command.Stdin = strings.NewReader(sent)
	if output, err := command.Output(); err != nil || string(output) != sent {
		b.Fatalf("runc run: %v, %d bytes", err, len(output))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkWholeInput compares a run whose program may rely on its input with
// one that may not.
func BenchmarkWholeInput(b *testing.B) {
	e := open(b)
	loadProbe(b, e)
	times := map[bool][]time.Duration{}
	for b.Loop() {
		for _, whole := range []bool{false, true} {
			spec := probe("cat")
			spec.Whole = whole
			times[whole] = append(times[whole], clocked(func() { echo(b, e, spec) }))
		}
	}
	whole, streamed := median(times[true]), median(times[false])
	b.ReportMetric(milliseconds(whole), "whole-ms")
	b.ReportMetric(milliseconds(streamed), "streamed-ms")
	b.ReportMetric(float64(whole)/float64(streamed), "ratio")
}
