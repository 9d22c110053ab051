package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
	b.Helper()
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
	b.Helper()
	cmd := exec.Command(binary, append(args, "--engine", "oci")...)
	cmd.Dir = b.dir
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	started := time.Now()
	require.NoError(b, cmd.Start())
	if while > 0 {
		time.AfterFunc(while, func() { _ = cmd.Process.Signal(os.Interrupt) })
	}
	if err := cmd.Wait(); err != nil && while == 0 {
		b.Fatalf("%v: %v\n%.4000s", args, err, said.String())
	}
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
	b.Helper()
	bed := fleet(b, stepHosts)
	bed.deployster("pipeline", "apply", "-f", "pipeline.yaml")
	for i := range revisions {
		bed.deployster("pipeline", "release", "line", fmt.Sprint(i+1))
	}
	c := bed.measured(0, "pipeline", "run", "--until-idle", "--parallelism", "50")
	text, err := os.ReadFile(filepath.Join(bed.dir, "hosts", "h000", fmt.Sprintf("s%d", stepStages-1)))
	if want := fmt.Sprintf("line %d\n", revisions); err != nil || string(text) != want {
		b.Fatalf("the last stage has %q (%v), want %q", text, err, want)
	}
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
		if text, err := os.ReadFile(filepath.Join(bed.dir, "hosts", "h000", "daemon")); err != nil || string(text) != "two\n" {
			b.Fatalf("the host has %q (%v)", text, err)
		}
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
