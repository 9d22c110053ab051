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
)

// BenchmarkLateAgainstExplicit makes, looks at and removes 1,000 instances that are known only by the
// state of a dependency, and 1,000 resources that depend on the same one, in turn: each is the first
// one half of the time, since what runs second may find the disk busy, or files in memory.
func BenchmarkLateAgainstExplicit(b *testing.B) {
	const n = 1000
	const names = "plugs: {root: {path: out}}\nresources:\n  names: {type: deployster/file, config: {path: names, content: x}}\n"
	var explicit strings.Builder
	explicit.WriteString(names)
	for i := range n {
		fmt.Fprintf(&explicit, "  f%d: {type: deployster/file, dependencies: {names: names}, config: {path: f%[1]d, content: \"text of %[1]d\"}}\n", i)
	}
	late := names + fmt.Sprintf("  f:\n    type: deployster/file\n    dependencies: {names: names}\n"+
		"    for_each: '{{ range(%d) | list if names.state.path else [] }}'\n    config: {path: 'f{{ each.key }}', content: 'text of {{ each.key }}'}\n", n)
	manifests := map[string]string{"explicit": explicit.String(), "late": late}
	dirs := map[string]string{}
	for name, text := range manifests {
		dirs[name] = b.TempDir()
		require.NoError(b, os.WriteFile(filepath.Join(dirs[name], "m.yaml"), []byte(text), 0o600))
		require.NoError(b, os.Mkdir(filepath.Join(dirs[name], "out"), 0o700))
	}
	steps := []struct {
		row  string
		code int
		args []string
	}{
		{"plan", 2, []string{"plan", "m.yaml", "--detailed-exitcode"}},
		{"create", 0, []string{"apply", "m.yaml", "--yes"}},
		{"no-change", 0, []string{"plan", "m.yaml", "--detailed-exitcode"}},
		{"destroy", 0, []string{"destroy", "m.yaml", "--yes"}},
	}
	for _, engine := range []string{"oci", "docker"} {
		b.Run(engine, func(b *testing.B) {
			took := map[string][]time.Duration{}
			inTurn := []string{"explicit", "late"}
			for b.Loop() {
				slices.Reverse(inTurn)
				for _, s := range steps {
					for _, name := range inTurn {
						cmd := exec.Command(binary, append(s.args, "--engine", engine)...)
						cmd.Dir = dirs[name]
						started := time.Now()
						out, err := cmd.CombinedOutput()
						took[name+s.row] = append(took[name+s.row], time.Since(started))
						if cmd.ProcessState.ExitCode() != s.code {
							b.Fatalf("%s %s: %v\n%s", name, s.row, err, out[max(0, len(out)-4000):])
						}
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, s := range steps {
				one, other := median(took["late"+s.row]), median(took["explicit"+s.row])
				b.ReportMetric(milliseconds(one), s.row+"-ms")
				b.ReportMetric(float64(one)/float64(other), s.row+"-of-explicit")
			}
		})
	}
}
