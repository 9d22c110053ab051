package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
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
	require.NoError(b, os.WriteFile(filepath.Join(bed.dir, "m.yaml"), []byte(text.String()), 0o600))
	bed.clear()
	return bed
}

// clear undoes what was applied.
func (b *bed) clear() {
	b.Helper()
	things := filepath.Join(b.dir, "things")
	require.NoError(b, os.RemoveAll(things))
	require.NoError(b, os.Mkdir(things, 0o700))
}

// BenchmarkApplyAgainstDockerRun applies 20 independent resources, each STALE
// with one action, on either engine, and does the same with docker run: init,
// state, action, state. The commands run one after the other, and eight resources
// at a time. The type's init is asked each time.
func BenchmarkApplyAgainstDockerRun(b *testing.B) {
	bed := newBed(b, 20)
	bed.deployster("image", "load", slowTypeTar(filepath.Dir(binary)))
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, e := range []string{"oci", "docker"} {
			bed.clear()
			times[e] = append(times[e], bed.deployster("apply", "m.yaml", "--confirm", "NO", "--no-cache", "--engine", e))
		}
		for name, atOnce := range map[string]int{"docker-run": 1, "docker-run-8": 8} {
			bed.clear()
			started := time.Now()
			bed.each(atOnce, func(resource string) {
				for _, args := range [][]string{nil, {"state"}, {"set"}, {"state"}} {
					bed.dockerRun(resource, args...)
				}
			})
			times[name] = append(times[name], time.Since(started))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, took := range times {
		b.ReportMetric(milliseconds(median(took)), name+"-ms")
	}
	for _, e := range []string{"oci", "docker"} {
		b.ReportMetric(float64(median(times["docker-run"]))/float64(median(times[e])), e+"-times-faster")
	}
}

// each calls do for every resource, a number of them at once.
func (b *bed) each(atOnce int, do func(resource string)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range b.resources {
		group.Go(func() error { do(fmt.Sprintf("r%d", i)); return nil })
	}
	_ = group.Wait()
}

// deployster runs the program in the workspace.
func (b *bed) deployster(args ...string) time.Duration {
	b.Helper()
	started := time.Now()
	cmd := exec.Command(binary, args...)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return time.Since(started)
}

func (b *bed) dockerRun(name string, args ...string) {
	b.Helper()
	cmd := exec.Command("docker", append([]string{
		"run", "--rm", "-i", "--network", "none", "-v", b.dir + ":" + b.dir + ":ro", "-v", b.dir + "/things:/dir", "-w", b.dir, slowType,
	}, args...)...)
	cmd.Stdin = strings.NewReader(stdinOf(b.dir, name))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Errorf("%v\n%s", err, out)
	}
}

func stdinOf(workspace, name string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"version":"1","verbose":false,"workspace":%q,"config":{"value":"x"},"staleState":{}}`,
		name, slowType, workspace)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(d []time.Duration) time.Duration { return percentile(d, 50) }

func percentile(d []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
