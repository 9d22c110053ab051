package docker

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// BenchmarkRunAgainstCLI runs the same container, a cat with 1 KB on stdin,
// through the engine and through `docker run --rm -i` in turn, and reports the
// medians and their ratio.
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
				if output, err := command.Output(); err != nil || string(output) != sent {
					b.Fatalf("docker run: %v, %d bytes", err, len(output))
				}
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
		if exit, err := e.Run(b.Context(), probe.spec("exit", "0"), engine.IO{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}}); err != nil || exit.Code != 0 {
			b.Fatalf("exit %+v, error %v", exit, err)
		}
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
	if _, err := e.client.ContainerStart(b.Context(), id, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	if end := <-ended; end.err != nil {
		b.Fatal(end.err)
	}
	e.removals.begin(id, func() { e.discard(b.Context(), id) })
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
