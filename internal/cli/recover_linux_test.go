package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/report"
)

// killedInAction is a site whose apply was killed in the middle of the action of
// the resource a, and its run.
func killedInAction(t *testing.T, begin func(*testing.T, string) *site, typ string, flags ...string) (s *site, run string) {
	t.Helper()
	s = begin(t, "  a: {type: "+typ+", config: {value: one}}")
	s.hold("a")
	first := s.start(append([]string{"apply", "m.yaml", "--confirm", "NO"}, flags...)...)
	s.untilBusy("a")
	s.kill(first)
	return s, s.events()[0].Deployment
}

// What an action has made before its run was killed, and of which nothing is kept, is found by its
// mark: it is not made a second time, and goes when it is destroyed.
func TestWhatIsMadeByARunThatIsKilledIsFoundAgain(t *testing.T) {
	t.Parallel()
	s, _ := killedInAction(t, newSite, keepType)
	made := func() []string {
		all := must.Get(filepath.Glob(s.thing("file-*")))(t)
		return all
	}
	first := made()
	s.release("a")
	require.Len(t, first, 1)
	s.deployster("apply", "m.yaml", "--confirm", "NO")
	assert.Equal(t, first, made())
	s.deployster("destroy", "m.yaml", "--confirm", "NO")
	assert.Empty(t, made())
}

// away hides a file for as long as it is not put back.
func (s *site) away(path string) (back func()) {
	require.NoError(s, os.Rename(path, path+".away"))
	return func() { require.NoError(s, os.Rename(path+".away", path)) }
}

// wantHeld applies, and demands that nothing is done because of a dead run.
func (s *site) wantHeld(dead string, says []string, args ...string) {
	began := strings.Count(strings.Join(s.names(), "\n"), "action-started")
	r := s.start(append([]string{args[0], "m.yaml", "--confirm", "NO"}, args[1:]...)...)
	s.wantEnd(r, 1)
	for _, text := range append(says, "run "+dead, "--abandon "+dead, "begun 20", `action "set" of a`) {
		assert.Contains(s, r.out.String(), text, "%v: it does not say %q:\n%s", args, text, r.out)
	}
	assert.Equal(s, began, strings.Count(strings.Join(s.names(), "\n"), "action-started"), "%v: an action began:\n%s", args, r.out)
}

func TestWithoutAnAnswerOfTheEngineOfADeadRunAResourceIsHeld(t *testing.T) {
	d := dockerEngines(t, 1)[0]
	// It is the engine that docker's own configuration leads to.
	t.Setenv("DOCKER_CONFIG", contextOf(t, d.Address()))
	t.Setenv("DOCKER_HOST", d.Address())
	load(t, d.Address(), slowType, oneShotType)
	s, dead := killedInAction(t, newSite, "ONE-SHOT", "--engine", "docker")
	t.Setenv("DOCKER_HOST", "")
	socket := strings.TrimPrefix(d.Address(), "unix://")
	back := s.away(socket)
	says := []string{"docker at " + d.Address(), "socket"}
	oci := []string{"--engine", "oci", "--pull", "never"}
	s.wantHeld(dead, says, append([]string{"apply"}, oci...)...)
	s.wantHeld(dead, says, append([]string{"destroy"}, oci...)...)
	s.wantHeld(dead, says, "apply", "--engine", "auto", "--pull", "never")

	for _, args := range [][]string{{"explain", "run/m.yaml"}, {"explain", "resource/a", "--output", "json"}, {"log", "latest", "run/m.yaml"}} {
		r := s.start(args...)
		if code := s.exit(r); code != 0 || !strings.Contains(r.out.String(), dead) || !strings.Contains(r.out.String(), "did not see the end of action") ||
			!strings.Contains(r.out.String(), "docker at "+d.Address()) {
			t.Errorf("%v: exit %d\n%s", args, code, r.out)
		}
	}

	// Of what may be abandoned.
	for wrong, says := range map[string]string{
		"01M80NJD8H7FSBE3JBFXTSXRB4":         "there is no such run",
		dead[:len(dead)-1]:                   "did you mean " + dead,
		s.run("apply", oci...):               "it has ended",
		"run/m.yaml":                         "unfinished and dead are " + dead,
		strings.Repeat("long", 200) + "\x1b": "there is no such run",
	} {
		r := s.start(append([]string{"apply", "m.yaml", "--confirm", "NO", "--abandon", wrong}, oci...)...)
		s.wantEnd(r, 3, says)
	}

	// Another engine answers at its address: this machine's.
	require.NoError(t, os.Symlink("/var/run/docker.sock", socket))
	s.wantHeld(dead, []string{"another engine answers there now"}, append([]string{"apply"}, oci...)...)
	require.NoError(t, os.Remove(socket))

	// It answers again, by another address.
	back()
	t.Setenv("DOCKER_HOST", d.Address())
	second := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--output", "json")
	second.out.until(t, "left running on docker at "+d.Address())
	s.release("a")
	s.wantEnd(second, 0)
	s.wantTruth()
}

// Somebody who knows better says that nothing of a dead run is at work any more.
func TestADeadRunIsAbandoned(t *testing.T) {
	d := dockerEngines(t, 1)[0]
	t.Setenv("DOCKER_HOST", d.Address())
	load(t, d.Address(), slowType, oneShotType)
	s, dead := killedInAction(t, newSite, "ONE-SHOT", "--engine", "docker")
	t.Setenv("DOCKER_HOST", "")
	d.Stop() // and all that it runs
	s.release("a")
	s.wantHeld(dead, nil, "apply", "--engine", "oci", "--pull", "never")
	s.deployster("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--abandon", dead)
	i := slices.IndexFunc(s.events(), func(e deploylog.Event) bool { return e.Name == "run-abandoned" })
	if i < 0 {
		t.Fatalf("the log tells %v", s.names())
	}
	if e := s.events()[i]; e.Deployment != dead || e.Target != "run/m.yaml" || !strings.Contains(string(e.Data), `"user":"`) {
		t.Errorf("the log tells of it %+v", e)
	}
	s.wantTruth()
	r := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--abandon", dead)
	s.wantEnd(r, 3, "it has ended")

	// What it left goes when its engine is used again.
	d.Start()
	t.Setenv("DOCKER_HOST", d.Address())
	s.deployster("apply", "m.yaml", "--confirm", "NO", "--engine", "docker")
}

// run applies what may fail, and tells its id.
func (s *site) run(command string, args ...string) string {
	s.Helper()
	s.exit(s.start(append([]string{command, "m.yaml", "--confirm", "NO"}, args...)...))
	for _, e := range slices.Backward(s.events()) {
		if e.Name == string(report.RunStarted) {
			return e.Deployment
		}
	}
	s.Fatal("it did not begin")
	return ""
}

// An engine that is lost in the middle of an action leaves it running. The run sees
// that something failed, and the next one does not take that for its end.
func TestAnActionWhoseEngineWasLostIsNotRunBesideItself(t *testing.T) {
	w := newWire(t)
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	t.Setenv("DOCKER_CONFIG", contextOf(t, w.address()))
	s.hold("a")
	first := s.start("apply", "m.yaml", "--confirm", "NO", "--lost-for", "1s")
	s.untilBusy("a")
	w.cut()
	s.wantEnd(first, 1, "note: this acts on docker", "at "+w.address()+` (from context "mine")`)
	dead := s.events()[0].Deployment
	if names := s.names(); !slices.Contains(names, "action-lost action/a/set") || !slices.Contains(names, "resource-lost resource/a") || names[len(names)-1] != "run-lost run/m.yaml" {
		t.Errorf("the log tells %v", names)
	}
	for _, args := range [][]string{{"--pull", "never"}, {"--pull", "never", "--engine", "oci"}} {
		s.wantHeld(dead, []string{"docker at " + w.address()}, append([]string{"apply"}, args...)...)
	}
	waits := make(chan struct{})
	w.waits = sync.OnceFunc(func() { close(waits) })
	w.join()
	second := s.start("apply", "m.yaml", "--confirm", "NO", "--pull", "never", "--engine", "oci", "--lost-for", "1s")
	<-waits
	w.cut()
	s.wantEnd(second, 1, "did not answer for 1s")
	w.join()
	third := s.start("apply", "m.yaml", "--confirm", "NO", "--pull", "never", "--engine", "oci")
	third.out.until(t, "left running on docker at "+w.address())
	s.release("a")
	s.wantEnd(third, 0)
	s.wantTruth()
}

// The machine on which a run was may have been started anew. Nothing of a run on
// its own engines is at work then, and nothing has to answer.
func TestAfterARestartOfTheMachineNothingIsHeld(t *testing.T) {
	w := newWire(t)
	t.Setenv("DOCKER_HOST", w.address())
	s, dead := killedInAction(t, newSite, "ONE-SHOT", "--engine", "docker")
	s.release("a")
	s.untilThere("a")
	w.cut()
	require.NoError(t, os.Remove(s.thing("a")))
	s.wantHeld(dead, nil, "apply", "--engine", "oci", "--pull", "never")
	s.touch("boot")
	again := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"`, "sh", s.thing("boot"),
		binary, "apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never")
	again.Dir = s.dir
	require.NoError(t, os.WriteFile(s.thing("boot"), []byte("another\n"), 0o600))
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, out)
	s.wantTruth()

	// What is left in the engine goes when that is used again.
	w.join()
	s.deployster("apply", "m.yaml", "--confirm", "NO", "--engine", "docker")
}

// untilThere waits until a resource is as configured, and its action over.
func (s *site) untilThere(name string) {
	s.Helper()
	waittest.Until(s, func() bool {
		_, there := os.Stat(s.thing(name))
		_, busy := os.Stat(s.thing(name + ".busy"))
		return there == nil && errors.Is(busy, os.ErrNotExist)
	}, "the action of "+name+" ends")
}

func TestATaskIsHeldWhoseHostHasAnotherEngineByNow(t *testing.T) {
	other := dockerEngines(t, 1)[0]
	load(t, other.Address(), oneShotType)
	w := newWire(t)
	at := func(address string) string {
		return fmt.Sprintf("hosts: [{name: antworker001, endpoint: %q}]", address)
	}
	first := newWorks(t, at(w.address()), "docker")
	first.write("things/a.hold", "")
	task := first.task(1, "antworker001", fmt.Sprintf("{plugs: {dir: {path: things}}, resources: {a: {type: %q, config: {value: one}}}}", oneShotType), nil)
	started := make(chan error, 1)
	go func() {
		_, err := first.worker.Start(t.Context(), task)
		started <- err
	}()
	s := &site{T: t, dir: first.dir, log: first.log}
	s.untilBusy("a")
	w.cut()
	require.Error(t, <-started, "it was started by an engine that was lost")
	dead := s.events()[0].Deployment

	start := func(address string) (tasks.ProbeResult, error) {
		first.write("inventory.yaml", at(address))
		worker := must.Get(cli.NewTaskWorker(first.log, "docker"))(t)
		defer func() { _ = worker.Close() }()
		return worker.Start(t.Context(), task)
	}
	for _, do := range []func() error{
		func() error { _, err := start(other.Address()); return err },
		func() error { _, err := start(other.Address()); return err }, // not by the run that was held, either
	} {
		var held *runs.HeldError
		err := do()
		assert.True(t, errors.As(err, &held) && held.Run.Run == dead, "beside the run %s: %v", dead, err)
	}
	// The same engine by another address.
	go func() {
		o, err := start("unix:///var/run/docker.sock")
		if err == nil && o.Health != tasks.Healthy {
			err = fmt.Errorf("it is %+v", o)
		}
		started <- err
	}()
	s.release("a")
	assert.NoError(t, <-started)
	s.wantTruth()
	began := 0
	for _, e := range s.events() {
		if e.Name == string(report.ActionStarted) {
			began++
		}
	}
	assert.Equal(t, 1, began, "actions began")
}

// onePipeline has revision 1 at work on resource a, which is held, in the only stage of a
// pipeline, whose scheduler is returned.
func onePipeline(t *testing.T) (*site, *run) {
	s := newDockerSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	s.write("one.yaml", "pipeline: one\nstages: [{name: all, run: {manifest: m.yaml}}]\n")
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	s.hold("a")
	r := s.start("pipeline", "run")
	s.untilBusy("a")
	return s, r
}

// The scheduler is killed in the midst of a step, and its deployment cancelled: the next
// revision enters when the container that was left has ended.
func TestTheNextRevisionEntersWhenWhatAKilledSchedulerLeftHasEnded(t *testing.T) {
	t.Parallel()
	s, first := onePipeline(t)
	s.kill(first)
	s.deployster("pipeline", "cancel", "one", "1")
	s.deployster("pipeline", "release", "one", "2")
	second := s.start("pipeline", "run", "--until-idle")
	<-time.After(3 * time.Second) // nothing tells that it waits
	assert.Equal(t, 1, entered(s), "revisions have entered the stage")
	if out := s.deployster("pipeline", "explain", "one"); strings.Count(out, "stage-manifest-applied of stage/one/all is still being done for revision 1, since ") != 2 {
		t.Errorf("explain says\n%s", out)
	}
	s.release("a")
	s.wantEnd(second, 0)
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	var names []string
	for _, e := range s.events() {
		if e.Target.Kind() == "pipeline" || e.Target.Kind() == "stage" || e.Target.Kind() == "action" {
			names = append(names, e.Name)
		}
	}
	ended, next := slices.Index(names, "action-finished-successfully"), slices.Index(names, "pipeline-steps-ended")
	assert.True(t, ended >= 0 && next >= ended && slices.Equal(names[next+1:next+2], []string{"stage-started"}), "the log tells %q", names)
}

// entered is how many revisions have entered the stage.
func entered(s *site) (n int) {
	for _, e := range s.events() {
		if e.Name == "stage-started" && e.Target == deploylog.Target("stage/one/all") {
			n++
		}
	}
	return n
}

// An action that had not begun within the timeout shows nothing: on a slow machine the next has more time.
func TestATimeoutStopsWhatRuns(t *testing.T) {
	t.Parallel()
	s := newDockerSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	s.hold("a")
	timeout, began := 4*time.Second, false
	for ; !began; timeout *= 2 {
		name := "within" + timeout.String()
		s.write("one.yaml", fmt.Sprintf("pipeline: %s\nstages: [{name: all, run: {manifest: m.yaml, timeout: %s}}]\n", name, timeout))
		s.deployster("pipeline", "apply", "-f", "one.yaml")
		s.deployster("pipeline", "release", name, "1")
		s.wantEnd(s.start("pipeline", "run", name, "--until-idle"), 1)
		s.until(1, s.happened("pipeline-failed", deploylog.Target("pipeline/"+name)))
		for _, e := range s.events() {
			stopped := fmt.Sprintf("it took longer than its timeout of %s, and was stopped", timeout)
			if e.Name == "stage-manifest-applied-failed" && strings.Contains(string(e.Target), name) {
				assert.Contains(t, string(e.Data), stopped)
			}
		}
		_, busy := os.Stat(s.thing("a.busy"))
		began = busy == nil
	}
	s.release("a")
}

func TestASecondSignalEndsASchedulerWhoseEngineHangs(t *testing.T) {
	t.Parallel()
	s, w := newDockerSite(t, "  a: {type: ONE-SHOT, config: {value: one}}"), newWire(t)
	s.write("one.yaml", "pipeline: one\nstages: [{name: all, deploy: {host_groups: [{name: g, hosts: \"attribute:x == y\"}], steps: [{event: host-deployed, manifest: m.yaml}]}}]\n")
	s.write("inventory.yaml", fmt.Sprintf("hosts: [{name: h, endpoint: %q, attributes: {x: y}}]\n", w.address()))
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	s.hold("a")
	r := s.start("pipeline", "run")
	s.untilBusy("a")
	w.hang()
	for _, answer := range []string{"interrupt again", "killing"} {
		s.signal(r, os.Interrupt)
		r.out.until(t, answer)
	}
	s.wantEnd(r, 130)
	w.answer()
	s.release("a")
	s.deployster("pipeline", "run", "--until-idle")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
}
