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
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
)

// BenchmarkRun runs the same container, a cat with 1 KB on stdin, through the engine and through a plain `runc run` in
// turn, and reports the medians and their ratio.
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

// BenchmarkAgainstDockerRun runs a cat in turn through the engine and through `docker run --rm -i`, each with the
// network that it has by default, and reports the medians and how many times the engine's goes into the other.
func BenchmarkAgainstDockerRun(b *testing.B) {
	e := open(b)
	const ref = "deployster-oci-benchmark:probe"
	tar := must.Get(enginetest.ImageTar(ref, enginetest.ProbeImage(b, "")))(b)
	require.NoError(b, e.Load(b.Context(), bytes.NewReader(tar)))
	docker(b, string(tar), "load", "--quiet")
	b.Cleanup(func() {
		output, err := exec.Command("docker", "rmi", ref).CombinedOutput()
		assert.NoError(b, err, "docker rmi: %v\n%s", err, output)
	})
	spec := engine.Spec{Image: ref, Args: []string{"cat"}}
	var engineTimes, dockerTimes []time.Duration
	for b.Loop() {
		engineTimes = append(engineTimes, clocked(func() { echo(b, e, spec) }))
		dockerTimes = append(dockerTimes, clocked(func() {
			assert.Equal(b, sent, docker(b, sent, "run", "--rm", "--interactive", ref, "cat"), "docker run does not echo")
		}))
	}
	ours, theirs := median(engineTimes), median(dockerTimes)
	b.ReportMetric(milliseconds(ours), "engine-ms")
	b.ReportMetric(milliseconds(theirs), "docker-run-ms")
	b.ReportMetric(float64(theirs)/float64(ours), "times-faster")
}

func docker(b *testing.B, stdin string, args ...string) string {
	command := exec.CommandContext(b.Context(), "docker", args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.Output()
	require.True(b, err == nil, "docker %s: %v", args[0], err)
	return string(output)
}

// sent is what containers get on stdin.
var sent = strings.Repeat("x", 1024)

func clocked(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func echo(b *testing.B, e *Engine, spec engine.Spec) {
	var received bytes.Buffer
	exit := must.Get(e.Run(b.Context(), spec, engine.IO{Stdin: strings.NewReader(sent), Stdout: &received}))(b)
	assert.True(b, exit.Code == 0 && received.String() == sent, "exit %+v, %d bytes", exit, received.Len())
}

// bundle is what `runc run` needs to run the same container: the same
// configuration, and the image's file in a directory instead of an overlay.
type bundle struct {
	engine         *Engine
	spec           engine.Spec
	dir, state, id string
}

func newBundle(b *testing.B, e *Engine, spec engine.Spec) *bundle {
	p := &bundle{engine: e, spec: spec, dir: b.TempDir(), state: b.TempDir()}
	root := filepath.Join(p.dir, "root")
	binary, err := os.ReadFile(enginetest.Binary(b, "github.com/deployster-go/deployster/engine/enginetest/probe", runtime.GOARCH))
	if err == nil {
		err = os.Mkdir(root, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "probe"), binary, 0o755)
	}
	require.NoError(b, err)
	return p
}

func (p *bundle) prepare(b *testing.B) {
	p.id = newID()
	image := must.Get(p.engine.store.Find(p.spec.Image))(b)
	h := must.Get(p.engine.host())(b)
	config := must.Get(configure(p.id, p.spec, image.Config.Config, h))(b)
	config.Root = &specs.Root{Path: "root", Readonly: true}
	encoded := must.Get(json.Marshal(config))(b)
	require.NoError(b, os.WriteFile(filepath.Join(p.dir, "config.json"), encoded, 0o600))
}

func (p *bundle) run(b *testing.B) {
	command := exec.CommandContext(b.Context(), p.engine.runtime, "--root", p.state, "run", "--bundle", p.dir, p.id)
	command.Stdin = strings.NewReader(sent)
	require.Equal(b, sent, string(must.Get(command.Output())(b)))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
