package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
)

// rival is a directory with the same resources for both programs: m.yaml and main.tf.
type rival struct {
	*testing.B
	dir    string
	config string // of OpenTofu, which has it use the providers as they were built
	tofu   string
	took   map[string][]time.Duration
}

// newRival needs OpenTofu and its providers, which scripts/tofu builds: DEPLOYSTER_TOFU is
// the directory in which they are.
func newRival(b *testing.B) *rival {
	built := os.Getenv("DEPLOYSTER_TOFU")
	if built == "" {
		b.Skip("there is no OpenTofu to compare with: run scripts/tofu")
	}
	r := &rival{B: b, dir: b.TempDir(), tofu: filepath.Join(built, "tofu"), took: map[string][]time.Duration{}}
	r.config = filepath.Join(r.dir, "tofu.rc")
	r.write("tofu.rc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"hashicorp/local\" = %[1]q\n    \"kreuzwerker/docker\" = %[1]q\n  }\n}\n", built))
	return r
}

func (r *rival) write(name, text string) {
	path := filepath.Join(r.dir, name)
	require.NoError(r, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(r, os.WriteFile(path, []byte(text), 0o600))
}

// run measures a command of the row, which must end with this code.
func (r *rival) run(row string, code int, program string, args ...string) {
	r.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+r.config)
	started := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(started)
	require.True(r, err == nil || cmd.ProcessState != nil, "%v", err)
	if cmd.ProcessState.ExitCode() != code {
		r.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out[max(0, len(out)-4000):])
	}
	r.took[row] = append(r.took[row], took)
}

// step is one thing to do for either program, and the codes with which it ends.
type step struct {
	row        string
	before     func()
	deployster []string
	tofu       []string
	code       int // of both
}

// lifecycle does the steps with each program in turn, from nothing to nothing.
func (r *rival) lifecycle(engines []string, steps []step) {
	for _, engine := range engines {
		for _, s := range steps {
			if s.before != nil {
				s.before()
			}
			r.run(engine+"-"+s.row, s.code, binary, append(s.deployster, "--engine", engine)...)
		}
	}
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		r.run("tofu-"+s.row, s.code, r.tofu, s.tofu...)
	}
}

// report tells each row, and of those of Deployster the ratio to OpenTofu's.
func (r *rival) report(engines []string, steps []step) {
	r.ReportMetric(0, "ns/op")
	for _, s := range steps {
		theirs := median(r.took["tofu-"+s.row])
		r.ReportMetric(milliseconds(theirs), "tofu-"+s.row+"-ms")
		for _, engine := range engines {
			ours := median(r.took[engine+"-"+s.row])
			r.ReportMetric(milliseconds(ours), engine+"-"+s.row+"-ms")
			r.ReportMetric(float64(ours)/float64(theirs), engine+"-"+s.row+"-of-tofu")
		}
	}
}

// BenchmarkFilesAgainstTofu has both programs make, look at and remove 20 and 1,000 files.
// For drift a tenth of them is edited, and each program is asked what differs.
func BenchmarkFilesAgainstTofu(b *testing.B) {
	for _, n := range []int{20, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRival(b)
			var ours, theirs strings.Builder
			ours.WriteString("plugs: {root: {path: out}}\nresources:\n")
			for i := range n {
				fmt.Fprintf(&ours, "  f%d: {type: deployster/file, config: {path: f%d, content: \"text of %d\"}}\n", i, i, i)
				fmt.Fprintf(&theirs, "resource \"local_file\" \"f%d\" {\n  filename = \"${path.module}/out/f%d\"\n  content = \"text of %d\"\n}\n", i, i, i)
			}
			r.write("m.yaml", ours.String())
			r.write("main.tf", theirs.String())
			edit := func() {
				for i := range n / 10 {
					r.write(fmt.Sprintf("out/f%d", i*10), "edited")
				}
			}
			nothing := func() {
				require.NoError(b, os.RemoveAll(filepath.Join(r.dir, "out")))
				require.NoError(b, os.Mkdir(filepath.Join(r.dir, "out"), 0o700))
			}
			steps := []step{
				{"plan", nothing, []string{"plan", "m.yaml", "--detailed-exitcode"}, []string{"plan", "-detailed-exitcode"}, 2},
				{"create", nothing, []string{"apply", "m.yaml", "--yes"}, []string{"apply", "-auto-approve"}, 0},
				{"no-change", nil, []string{"plan", "m.yaml", "--detailed-exitcode"}, []string{"plan", "-detailed-exitcode"}, 0},
				{"drift", edit, []string{"drift", "m.yaml"}, []string{"plan", "-detailed-exitcode"}, 2},
				{"destroy", nil, []string{"destroy", "m.yaml", "--yes"}, []string{"destroy", "-auto-approve"}, 0},
			}
			engines := []string{"oci", "docker"}
			r.lifecycle(engines, steps) // each program finds what it keeps from now on
			clear(r.took)
			for b.Loop() {
				r.lifecycle(engines, steps)
			}
			r.report(engines, steps)
		})
	}
}

// BenchmarkContainersAgainstTofu has both make and remove a network with five containers,
// which end when they are asked to.
func BenchmarkContainersAgainstTofu(b *testing.B) {
	r := newRival(b)
	image := fmt.Sprintf("deployster-bench-idle:%d", os.Getpid())
	loadIdle(b, image)
	var ours, theirs strings.Builder
	ours.WriteString("plugs: {docker: {path: /var/run/docker.sock}}\nresources:\n  net: {type: deployster/network, config: {name: bench-net}}\n")
	theirs.WriteString("terraform {\n  required_providers {\n    docker = { source = \"kreuzwerker/docker\" }\n  }\n}\nresource \"docker_network\" \"net\" {\n  name = \"bench-net\"\n}\n")
	for i := range 5 {
		fmt.Fprintf(&ours, "  c%d: {type: deployster/container, dependencies: {net: net}, config: {name: bench-c%d, image: %q, networks: [\"{{ net.state.name }}\"]}}\n", i, i, image)
		fmt.Fprintf(&theirs, "resource \"docker_container\" \"c%d\" {\n  name = \"bench-c%d\"\n  image = %q\n  destroy_grace_seconds = 10\n  networks_advanced {\n    name = docker_network.net.name\n  }\n}\n", i, i, image)
	}
	r.write("m.yaml", ours.String())
	r.write("main.tf", theirs.String())
	steps := []step{
		{"plan", nil, []string{"plan", "m.yaml", "--detailed-exitcode"}, []string{"plan", "-detailed-exitcode"}, 2},
		{"create", nil, []string{"apply", "m.yaml", "--yes"}, []string{"apply", "-auto-approve"}, 0},
		{"no-change", nil, []string{"plan", "m.yaml", "--detailed-exitcode"}, []string{"plan", "-detailed-exitcode"}, 0},
		{"destroy", nil, []string{"destroy", "m.yaml", "--yes"}, []string{"destroy", "-auto-approve"}, 0},
	}
	engines := []string{"oci", "docker"}
	r.lifecycle(engines, steps)
	clear(r.took)
	for b.Loop() {
		r.lifecycle(engines, steps)
	}
	r.report(engines, steps)
}

// loadIdle loads an image whose program waits to be told to end.
func loadIdle(b *testing.B, ref string) {
	program := filepath.Join(b.TempDir(), "idle")
	require.NoError(b, build(program, "./testdata/idle"))
	image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: []string{"/idle"}}))(b)
	tar := must.Get(enginetest.ImageTar(ref, image))(b)
	cmd := exec.Command("docker", "load")
	cmd.Stdin = bytes.NewReader(tar)
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%v\n%s", err, out)
	b.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", ref).Run() })
}
