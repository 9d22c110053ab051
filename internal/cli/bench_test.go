package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
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

func (b *bed) deployster(args ...string) time.Duration {
	started := time.Now()
	cmd := exec.Command(binary, args...)
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%v\n%s", err, out)
	return time.Since(started)
}

func (b *bed) dockerRun(name string, args ...string) {
	cmd := exec.Command("docker", append([]string{
		"run", "--rm", "-i", "--network", "none", "-v", b.dir + ":" + b.dir + ":ro", "-v", b.dir + "/things:/dir", "-w", b.dir, slowType,
	}, args...)...)
	cmd.Stdin = strings.NewReader(stdinOf(b.dir, name))
	out, err := cmd.CombinedOutput()
	assert.NoError(b, err, "%v\n%s", err, out)
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

// What a step, a Replace and a look cost when they are real: the program as it
// ships, the type deployster/file, and hosts that are directories of this machine.
// Time of the processor is that of the program and of all its containers.

const (
	stepHosts     = 50
	stepRevisions = 20
	stepStages    = 3
)

const stepManifest = `
plugs: {root: {path: "hosts/{{ host }}"}}
resources:
  current: {type: deployster/file, config: {path: "{{ stage }}", content: "{{ pipeline }} {{ revision }}\n"}}
`

const stepEnvironment = `
name: fleet
task: {manifest: task.yaml, vars: {image: one}}
instance_group: {query: "attribute:stack == prod"}
deployment: {method: Replace, min_healthy_percent: 50, min_healthy_time: 0s}
`

const stepTask = `
plugs: {root: {path: "hosts/{{ host }}"}}
resources:
  daemon: {type: deployster/file, config: {path: daemon, content: "{{ image }}\n"}}
`

// fleet is a workspace with so many hosts, each a directory.
func fleet(b *testing.B, hosts int) *bed {
	bed := &bed{B: b, dir: b.TempDir()}
	var inventory, stages strings.Builder
	inventory.WriteString("hosts:\n")
	for i := range hosts {
		name := fmt.Sprintf("h%03d", i)
		fmt.Fprintf(&inventory, "  - {name: %s, engine: oci, slots: 1, attributes: {stack: prod}}\n", name)
		require.NoError(b, os.MkdirAll(filepath.Join(bed.dir, "hosts", name), 0o700))
	}
	for i := range stepStages {
		fmt.Fprintf(&stages, "  - {name: s%d, deploy: {host_groups: [{name: s%d, hosts: %q}], steps: [{event: host-deployed, manifest: step.yaml}]}}\n",
			i, i, "attribute:stack == prod")
	}
	for name, text := range map[string]string{
		"inventory.yaml": inventory.String(), "pipeline.yaml": "pipeline: line\nstages:\n" + stages.String(),
		"step.yaml": stepManifest, "fleet.yaml": stepEnvironment, "task.yaml": stepTask,
	} {
		require.NoError(b, os.WriteFile(filepath.Join(bed.dir, name), []byte(text), 0o600))
	}
	return bed
}

// cost is what a command took.
type cost struct{ cpu, took time.Duration }

// measured runs the program and returns what it and its children took. An
// interrupt ends it after a while, which is none where it ends by itself.
func (b *bed) measured(while time.Duration, args ...string) cost {
	cmd := exec.Command(binary, append(args, "--engine", "oci")...)
	cmd.Dir = b.dir
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	started := time.Now()
	require.NoError(b, cmd.Start())
	if while > 0 {
		time.AfterFunc(while, func() { _ = cmd.Process.Signal(os.Interrupt) })
	}
	err := cmd.Wait()
	require.True(b, err == nil || while != 0, "%v: %v\n%.4000s", args, err, said.String())
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(b, ok, "this system does not report what a process took")
	return cost{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), time.Since(started)}
}

// BenchmarkRealSteps carries revisions over hosts and stages, 50 steps at once. One
// revision alone is the yardstick: what the others cost beyond it is that of steps on
// hosts whose containers are there.
func BenchmarkRealSteps(b *testing.B) {
	const one = stepHosts * stepStages // steps of a revision
	var first, all cost
	for b.Loop() {
		first, all = first.plus(carried(b, 1)), all.plus(carried(b, stepRevisions))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(all.cpu)/float64(stepRevisions*one*b.N), "cpu-ms/step")
	b.ReportMetric(milliseconds(first.cpu)/float64(one*b.N), "cpu-ms/first-step")
	b.ReportMetric(milliseconds(all.cpu-first.cpu)/float64((stepRevisions-1)*one*b.N), "cpu-ms/further-step")
	b.ReportMetric(float64(stepRevisions*one*b.N)/all.took.Seconds(), "steps/s")
}

// carried is what it takes to carry so many revisions to the end of the pipeline.
func carried(b *testing.B, revisions int) cost {
	bed := fleet(b, stepHosts)
	bed.deployster("pipeline", "apply", "-f", "pipeline.yaml")
	for i := range revisions {
		bed.deployster("pipeline", "release", "line", fmt.Sprint(i+1))
	}
	c := bed.measured(0, "pipeline", "run", "--until-idle", "--parallelism", "50")
	text, err := os.ReadFile(filepath.Join(bed.dir, "hosts", "h000", fmt.Sprintf("s%d", stepStages-1)))
	want := fmt.Sprintf("line %d\n", revisions)
	require.True(b, err == nil && string(text) == want, "the last stage has %q (%v), want %q", text, err, want)
	return c
}

func (c cost) plus(other cost) cost { return cost{c.cpu + other.cpu, c.took + other.took} }

// BenchmarkRealReplace replaces the tasks of many hosts, half of them at once.
func BenchmarkRealReplace(b *testing.B) {
	const hosts = 300
	var total cost
	for b.Loop() {
		bed := fleet(b, hosts)
		bed.deployster("env", "create", "-f", "fleet.yaml", "--engine", "oci")
		bed.deployster("env", "deploy", "fleet", "--revision", "1")
		bed.measured(0, "env", "run", "--until-idle", "--parallelism", "50")
		bed.deployster("env", "update", "fleet", "--base", "1", "--set", "task.vars.image=two", "--engine", "oci")
		bed.deployster("env", "deploy", "fleet", "--revision", "2")
		c := bed.measured(0, "env", "run", "--until-idle", "--parallelism", "50")
		total.cpu, total.took = total.cpu+c.cpu, total.took+c.took
		text, err := os.ReadFile(filepath.Join(bed.dir, "hosts", "h000", "daemon"))
		require.True(b, err == nil && string(text) == "two\n", "the host has %q (%v)", text, err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(total.cpu)/float64(hosts*b.N), "cpu-ms/host")
	b.ReportMetric(total.took.Seconds()/float64(b.N), "s")
}

// BenchmarkRealLook looks at tasks that are as they should be, each once a second,
// and compares with a controller that looks at each once.
func BenchmarkRealLook(b *testing.B) {
	const hosts, seconds = 20, 20
	var looking, idle time.Duration
	for b.Loop() {
		bed := fleet(b, hosts)
		bed.deployster("env", "create", "-f", "fleet.yaml", "--engine", "oci")
		bed.deployster("env", "deploy", "fleet", "--revision", "1")
		bed.measured(0, "env", "run", "--until-idle", "--parallelism", "50")
		idle += bed.measured(seconds*time.Second, "env", "run", "--check-every", "1h").cpu
		looking += bed.measured(seconds*time.Second, "env", "run", "--check-every", "1s").cpu
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(looking-idle)/float64(hosts*(seconds-1)*b.N), "cpu-ms/look")
}

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
