package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// makers is a workspace in which packages are built by a program that does what files say.
type makers struct {
	*site
	flags []string // of what reaches engines
}

const toolchain = `
group: base
converge: 2
job:
  image: MAKER
  args: ["{{ package.name }}"]
  env: {VERSION: "{{ package.version }}"}
  network: none
  plugs: [{path: THINGS, container_path: /world}]
packages:
  glibc: {version: "2.29", released: glibc-2.28, build: [gcc, make]}
  make: {version: "4.3", released: make-4.2, build: [gcc, make], run: [glibc]}
  gcc: {version: "9.1", released: gcc-8.2, build: [gcc, make], run: [glibc]}
  curl: {version: "7.6", build: [gcc, make]}
  manual: {version: "1.0"}
`

func newMakers(t *testing.T, flags ...string) *makers {
	t.Helper()
	m := &makers{newSite(t, " {}"), flags}
	m.write("packages.yaml", strings.NewReplacer("MAKER", maker, "THINGS", filepath.Join(m.dir, "things")).Replace(toolchain))
	return m
}

// newOCIMakers has this machine as the only worker, without a daemon.
func newOCIMakers(t *testing.T) *makers {
	t.Helper()
	return newMakers(t, "--engine", "oci", "--pull", "never")
}

func (m *makers) build(args ...string) *run {
	m.Helper()
	if args[0] == "submit" || args[0] == "run" {
		args = slices.Concat(args, m.flags)
	}
	return m.start(append([]string{"build"}, args...)...)
}

// must is a command that succeeds.
func (m *makers) must(args ...string) string {
	m.Helper()
	r := m.build(args...)
	m.wantEnd(r, 0)
	return r.out.String()
}

// submit queues the packages.
func (m *makers) submit(flags ...string) {
	m.Helper()
	m.must(append([]string{"submit", "-f", "packages.yaml"}, flags...)...)
}

// making waits until the container of a package runs.
func (m *makers) making(name string) {
	m.Helper()
	waittest.Until(m, func() bool {
		_, err := os.Stat(m.thing(name + ".began"))
		return err == nil
	}, "a container makes "+name)
}

// count is how many events of a name a group has.
func (m *makers) count(group, name string) (n int) {
	m.Helper()
	for _, e := range m.events() {
		if e.Deployment == group && e.Name == name {
			n++
		}
	}
	return n
}

// artifacts are what the jobs of a group have built.
func (m *makers) artifacts(group string) map[int]string {
	m.Helper()
	all := map[int]string{}
	for _, e := range m.events() {
		if id, job, _ := record.Parse(e.Target); id == group && e.Name == record.JobFinished {
			assert.Empty(m, all[job], "job %d of %s is built twice", job, group)
			all[job] = record.Decode[record.Finished](e).Artifact
		}
	}
	return all
}

// The compiler and make need each other. While they are built the dispatcher is killed twice;
// another one goes on, and what comes of it is what comes of a build without any trouble.
func TestADispatcherThatIsKilledIsReplacedByTheNext(t *testing.T) {
	t.Parallel()
	m := newOCIMakers(t)
	m.submit()
	for _, name := range []string{"make", "gcc"} {
		m.hold(name)
		r := m.build("run")
		m.making(name)
		m.kill(r)
		m.release(name)
	}
	m.must("run", "--until-idle")
	disturbed := m.artifacts("base-1")
	if len(disturbed) != 8 || m.count("base-1", record.GroupFinished) != 1 {
		t.Fatalf("of 8 jobs there are %v", disturbed)
	}

	m.submit("--no-reuse")
	m.must("run", "--until-idle", "--parallelism", "4")
	for job, digest := range m.artifacts("base-2") {
		if disturbed[job] != digest {
			t.Errorf("job %d is %s, and %s where nobody was killed", job, disturbed[job], digest)
		}
	}
	m.submit()
	out := m.must("run", "--until-idle", "--output", "json")
	if again := m.artifacts("base-3"); len(again) != 8 || strings.Count(out, `"reused":"job/`) != 8 {
		t.Errorf("what is there already is built again: %v\n%s", again, out)
	}
}

// The second signal kills no job: its group goes on with the next dispatcher.
func TestADispatcherThatIsInterruptedTwiceSaysWhatBecomesOfItsJobs(t *testing.T) {
	t.Parallel()
	m := newOCIMakers(t)
	m.submit()
	m.hold("manual")
	r := m.build("run")
	m.making("manual")
	for _, says := range []string{"running jobs finish first; interrupt again to end now", "ending now: jobs go on in their containers, and the next build run collects them"} {
		m.signal(r, os.Interrupt)
		r.out.until(t, says)
	}
	if code := m.exit(r); code != 130 || m.count("base-1", record.JobFailed) > 0 || len(m.artifacts("base-1")) == 8 {
		t.Errorf("it ended with %d\n%s", code, r.out)
	}
	m.release("manual")
	m.must("run", "--until-idle")
	assert.Len(t, m.artifacts("base-1"), 8, "of 8 jobs there")
}

func TestACanceledBuildStopsAndIsRetriedWithWhatItHas(t *testing.T) {
	t.Parallel()
	m := newOCIMakers(t)
	m.submit()
	m.hold("gcc")
	r := m.build("run")
	m.making("gcc")
	m.must("cancel", "base-1", "--reason", "the wrong branch")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupCanceled })
	m.release("gcc")
	built := len(m.artifacts("base-1"))
	m.touch("curl.fail")
	m.must("retry", "base-1")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFailed })
	require.NoError(t, errors.Join(os.Remove(m.thing("curl.fail")), r.Process.Signal(os.Interrupt)))
	m.wantEnd(r, 130)
	if all := len(m.artifacts("base-1")); built < 2 || all != 7 {
		t.Errorf("%d jobs were built before the cancel, and %d with the retry", built, all)
	}
	m.must("retry", "base-1", "--failed-only")
	m.must("run", "--until-idle")
	assert.Equal(t, 8, len(m.artifacts("base-1")), "of 8 jobs are built")
}

// One of two Docker Engines is killed with what it builds; that is built on the other one,
// and again on the first when that is there again. The dispatcher is killed, too, and the next
// one waits for what still runs.
func TestBuildsOnTwoDockerEnginesOfWhichOneIsLost(t *testing.T) {
	m := newMakers(t, "--inventory", "inventory.yaml", "--pull", "never")
	engines := dockerEngines(t, 2)
	inventory := "hosts:\n"
	for i, e := range engines {
		inventory += fmt.Sprintf("  - {name: worker%d, endpoint: %q, slots: 1}\n", i, e.Address())
		load(t, e.Address(), maker)
	}
	m.write("inventory.yaml", inventory)
	m.submit()
	m.hold("glibc")
	m.hold("manual")
	first := m.build("run")
	m.making("glibc")
	m.making("manual")
	m.kill(first)
	second := m.build("run")
	lost := m.workerOf("base-1", 8)
	engines[lost].Kill()
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.JobLost && e.Target == record.Job("base-1", 8) })
	m.release("manual")
	m.release("glibc")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })
	if built := m.artifacts("base-1"); len(built) != 8 {
		t.Errorf("of 8 jobs there are %v\n%s", built, second.out)
	}
	if n := m.count("base-1", record.JobStarted); n != 9 {
		t.Errorf("there began %d jobs, not the 8 and the one that was lost\n%s", n, second.out)
	}

	// Both are killed, so that there is no other: the job waits until one is there again.
	engines[lost].Start()
	require.NoError(t, os.Remove(m.thing("manual.began")))
	m.hold("manual")
	m.submit("--no-reuse")
	m.making("manual")
	for _, e := range engines {
		e.Kill()
	}
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.JobLost && e.Target == record.Job("base-2", 8) })
	m.release("manual")
	for _, e := range engines {
		e.Start()
	}
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished && e.Deployment == "base-2" })
	m.interrupt(second)
	if built := m.artifacts("base-2"); len(built) != 8 {
		t.Errorf("of 8 jobs there are %v\n%s", built, second.out)
	}
	m.must("run", "--until-idle") // which looks at both once more
	for _, e := range engines {
		m.leftNoJob(e)
	}
}

// workerOf is the number of the worker that began a job last.
func (m *makers) workerOf(group string, job int) (number int) {
	m.Helper()
	for _, e := range m.events() {
		if e.Name == record.JobStarted && e.Target == record.Job(group, job) {
			if _, err := fmt.Sscanf(record.Decode[record.Started](e).Worker, "worker%d", &number); err != nil {
				m.Fatal(err)
			}
		}
	}
	return number
}

// leftNoJob checks that no container of a job is on an engine.
func (m *makers) leftNoJob(on *dockerdtest.Engine) {
	m.Helper()
	e, err := docker.Open(m.Context(), docker.Options{Host: on.Address()})
	require.NoError(m, err)
	left, err := e.Containers(m.Context(), map[string]string{invoke.LabelKind: jobs.KindJob})
	if err := errors.Join(err, e.Close()); err != nil || len(left) > 0 {
		m.Errorf("left on %s: %+v (%v)", on.Address(), left, err)
	}
}
