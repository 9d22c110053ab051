package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/runner/report"
)

// killedInAction is a site whose apply was killed in the middle of the action of
// the resource a, and its run.
func killedInAction(t *testing.T, typ string, flags ...string) (s *site, run string) {
	t.Helper()
	s = newSite(t, "  a: {type: "+typ+", config: {value: one}}")
	s.hold("a")
	first := s.start(append([]string{"apply", "m.yaml", "--confirm", "NO"}, flags...)...)
	s.untilBusy("a")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.exit(first)
	return s, s.events()[0].Deployment
}

// loaded puts the images of these tests into the cache of the oci engine.
func (s *site) loaded() {
	s.Helper()
	for _, image := range []string{slowType, oneShotType} {
		save := exec.Command("docker", "--host", "unix:///var/run/docker.sock", "save", image)
		load := exec.Command(binary, "image", "load", "-")
		pipe, err := save.StdoutPipe()
		if err != nil {
			s.Fatal(err)
		}
		load.Stdin = pipe
		if err := save.Start(); err != nil {
			s.Fatal(err)
		}
		if out, err := load.CombinedOutput(); err != nil {
			s.Fatalf("loading %s: %v\n%s", image, err, out)
		}
		if err := save.Wait(); err != nil {
			s.Fatal(err)
		}
	}
}

// What a dead run left in one engine is waited for also by a run that uses
// another.
func TestAnActionThatOutlivesItsRunIsWaitedForOnAnotherEngine(t *testing.T) {
	for name, typ := range map[string]string{"in a container of its own": "ONE-SHOT", "in a process that serves": "SLOW"} {
		t.Run(name, func(t *testing.T) {
			s, dead := killedInAction(t, typ, "--engine", "docker")
			s.loaded()
			second := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--output", "json")
			second.out.until(t, "left running")
			s.release("a")
			if code := s.exit(second); code != 0 {
				t.Fatalf("exit %d\n%s", code, second.out)
			}
			if !strings.Contains(second.out.String(), "docker at unix://") {
				t.Errorf("it does not tell on which engine the action of %s runs:\n%s", dead, second.out)
			}
			if slices.ContainsFunc(s.events(), named(report.ActionStarted)) && strings.Contains(second.out.String(), `"type":"action-started"`) {
				t.Errorf("the second run did again what the first had done:\n%s", second.out)
			}
			s.wantTruth()
		})
	}
}

// What an action has made before its run was killed, and of which nothing is kept, is found by its
// mark: it is not made a second time, and goes when it is destroyed.
func TestWhatIsMadeByARunThatIsKilledIsFoundAgain(t *testing.T) {
	s, _ := killedInAction(t, keepType)
	made := func() []string {
		all, err := filepath.Glob(s.thing("file-*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := made()
	s.release("a")
	second := s.start("apply", "m.yaml", "--confirm", "NO")
	if code := s.exit(second); code != 0 || len(first) != 1 || !slices.Equal(made(), first) {
		t.Fatalf("exit %d, there were %v and are %v\n%s", code, first, made(), second.out)
	}
	last := s.start("destroy", "m.yaml", "--confirm", "NO")
	if code := s.exit(last); code != 0 || len(made()) > 0 {
		t.Errorf("exit %d, left %v\n%s", code, made(), last.out)
	}
}

// away hides a file for as long as it is not put back.
func (s *site) away(path string) (back func()) {
	s.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		s.Fatal(err)
	}
	return func() {
		s.Helper()
		if err := os.Rename(path+".away", path); err != nil {
			s.Fatal(err)
		}
	}
}

// wantHeld applies, and demands that nothing is done because of a dead run.
func (s *site) wantHeld(dead string, says []string, args ...string) {
	s.Helper()
	began := strings.Count(strings.Join(s.names(), "\n"), "action-started")
	r := s.start(append([]string{args[0], "m.yaml", "--confirm", "NO"}, args[1:]...)...)
	if code := s.exit(r); code != 1 {
		s.Fatalf("%v: exit %d\n%s", args, code, r.out)
	}
	for _, text := range append(says, "run "+dead, "--abandon "+dead, "begun 20", `action "set" of a`) {
		if !strings.Contains(r.out.String(), text) {
			s.Errorf("%v: it does not say %q:\n%s", args, text, r.out)
		}
	}
	if now := strings.Count(strings.Join(s.names(), "\n"), "action-started"); now != began {
		s.Errorf("%v: an action began:\n%s", args, r.out)
	}
}

// An engine that a dead run used and that does not answer is not taken for one on
// which nothing runs.
func TestWithoutAnAnswerOfTheEngineOfADeadRunAResourceIsHeld(t *testing.T) {
	d := dockerdtest.New(t)
	// It is the engine that docker's own configuration leads to.
	home := t.TempDir()
	writeContext(t, home, "mine", d.Address())
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("DOCKER_HOST", d.Address())
	loadTypes(t, d.Address())
	s, dead := killedInAction(t, "ONE-SHOT", "--engine", "docker")
	s.loaded()
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
		if code := s.exit(r); code != 3 || !strings.Contains(r.out.String(), says) {
			t.Errorf("abandoning %q: exit %d\n%s", wrong, code, r.out)
		}
	}

	// Another engine answers at its address: this machine's.
	if err := os.Symlink("/var/run/docker.sock", socket); err != nil {
		t.Fatal(err)
	}
	s.wantHeld(dead, []string{"another engine answers there now"}, append([]string{"apply"}, oci...)...)
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}

	// It answers again, by another address.
	back()
	t.Setenv("DOCKER_HOST", d.Address())
	second := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--output", "json")
	second.out.until(t, "left running on docker at "+d.Address())
	s.release("a")
	if code := s.exit(second); code != 0 {
		t.Fatalf("exit %d\n%s", code, second.out)
	}
	s.wantTruth()
}

// Somebody who knows better says that nothing of a dead run is at work any more.
func TestADeadRunIsAbandoned(t *testing.T) {
	d := dockerdtest.New(t)
	t.Setenv("DOCKER_HOST", d.Address())
	loadTypes(t, d.Address())
	s, dead := killedInAction(t, "ONE-SHOT", "--engine", "docker")
	s.loaded()
	t.Setenv("DOCKER_HOST", "")
	d.Stop() // and all that it runs
	if err := os.Remove(s.thing("a.busy")); err != nil {
		t.Fatal(err)
	}
	s.release("a")
	s.wantHeld(dead, nil, "apply", "--engine", "oci", "--pull", "never")
	r := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--abandon", dead)
	if code := s.exit(r); code != 0 {
		t.Fatalf("exit %d\n%s", code, r.out)
	}
	i := slices.IndexFunc(s.events(), func(e deploylog.Event) bool { return e.Name == "run-abandoned" })
	if i < 0 {
		t.Fatalf("the log tells %v", s.names())
	}
	if e := s.events()[i]; e.Deployment != dead || e.Target != "run/m.yaml" || !strings.Contains(string(e.Data), `"user":"`) {
		t.Errorf("the log tells of it %+v", e)
	}
	s.wantTruth()
	r = s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never", "--abandon", dead)
	if code := s.exit(r); code != 3 || !strings.Contains(r.out.String(), "it has ended") {
		t.Errorf("abandoned again: exit %d\n%s", code, r.out)
	}

	// What it left goes when its engine is used again.
	d.Start()
	t.Setenv("DOCKER_HOST", d.Address())
	if r := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "docker"); s.exit(r) != 0 {
		t.Errorf("on the engine of the dead run: %s", r.out)
	}
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

// loadTypes gives another engine the images of these tests.
func loadTypes(t *testing.T, address string) {
	t.Helper()
	save := exec.Command("docker", "--host", "unix:///var/run/docker.sock", "save", slowType, oneShotType)
	load := exec.Command("docker", "--host", address, "load")
	pipe, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	load.Stdin = pipe
	if err := save.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := save.Wait(); err != nil {
		t.Fatal(err)
	}
}

// writeContext writes Docker's configuration of a context, and makes it the current
// one.
func writeContext(t *testing.T, dir, name, address string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]))
	if err := errors.Join(
		os.MkdirAll(meta, 0o700),
		os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"currentContext": %q}`, name), 0o600),
		os.WriteFile(filepath.Join(meta, "meta.json"), fmt.Appendf(nil, `{"Name": %q, "Metadata": {}, "Endpoints": {"docker": {"Host": %q, "SkipTLSVerify": false}}}`, name, address), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// An engine that is lost in the middle of an action leaves it running. The run sees
// that something failed, and the next one does not take that for its end.
func TestAnActionWhoseEngineWasLostIsNotRunBesideItself(t *testing.T) {
	w := newWire(t)
	home := t.TempDir()
	writeContext(t, home, "mine", w.address())
	t.Setenv("DOCKER_HOST", "")
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	t.Setenv("DOCKER_CONFIG", home)
	s.loaded()
	s.hold("a")
	first := s.start("apply", "m.yaml", "--confirm", "NO")
	s.untilBusy("a")
	w.cut()
	if code := s.exit(first); code != 1 {
		t.Fatalf("exit %d\n%s", code, first.out)
	}
	dead := s.events()[0].Deployment
	if names := s.names(); !slices.Contains(names, "action-lost action/a/set") || !slices.Contains(names, "resource-lost resource/a") || names[len(names)-1] != "run-lost run/m.yaml" {
		t.Errorf("the log tells %v", names)
	}
	for _, args := range [][]string{{"--pull", "never"}, {"--pull", "never", "--engine", "oci"}} {
		s.wantHeld(dead, []string{"docker at " + w.address()}, append([]string{"apply"}, args...)...)
	}
	w.join()
	second := s.start("apply", "m.yaml", "--confirm", "NO", "--pull", "never", "--engine", "oci")
	second.out.until(t, "left running on docker at "+w.address())
	s.release("a")
	if code := s.exit(second); code != 0 {
		t.Fatalf("exit %d\n%s", code, second.out)
	}
	s.wantTruth()
}

// The machine on which a run was may have been started anew. Nothing of a run on
// its own engines is at work then, and nothing has to answer.
func TestAfterARestartOfTheMachineNothingIsHeld(t *testing.T) {
	w := newWire(t)
	t.Setenv("DOCKER_HOST", w.address())
	s, dead := killedInAction(t, "ONE-SHOT", "--engine", "docker")
	s.loaded()
	s.release("a")
	s.untilThere("a")
	w.cut()
	if err := os.Remove(s.thing("a")); err != nil {
		t.Fatal(err)
	}
	s.wantHeld(dead, nil, "apply", "--engine", "oci", "--pull", "never")
	s.touch("boot")
	again := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"`, "sh", s.thing("boot"),
		binary, "apply", "m.yaml", "--confirm", "NO", "--engine", "oci", "--pull", "never")
	again.Dir = s.dir
	if err := os.WriteFile(s.thing("boot"), []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.wantTruth()

	// What is left in the engine goes when that is used again.
	w.join()
	if r := s.start("apply", "m.yaml", "--confirm", "NO", "--engine", "docker"); s.exit(r) != 0 {
		t.Errorf("on the engine of the dead run: %s", r.out)
	}
}

// untilThere waits until a resource is as configured, and its action over.
func (s *site) untilThere(name string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		_, there := os.Stat(s.thing(name))
		_, busy := os.Stat(s.thing(name + ".busy"))
		if there == nil && errors.Is(busy, os.ErrNotExist) {
			return
		}
		runtime.Gosched()
	}
	s.Fatalf("the action of %s does not end", name)
}

// The inventory may lead to another engine by the time that a task is started
// again on its host.
func TestATaskIsHeldWhoseHostHasAnotherEngineByNow(t *testing.T) {
	other := dockerdtest.New(t)
	loadTypes(t, other.Address())
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
	if err := <-started; err == nil {
		t.Fatal("it was started by an engine that was lost")
	}
	dead := s.events()[0].Deployment

	start := func(address string) (tasks.ProbeResult, error) {
		t.Helper()
		first.write("inventory.yaml", at(address))
		worker, err := cli.NewTaskWorker(first.log, "docker")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = worker.Close() }()
		return worker.Start(t.Context(), task)
	}
	for _, do := range []func() error{
		func() error { _, err := start(other.Address()); return err },
		func() error { _, err := start(other.Address()); return err }, // not by the run that was held, either
	} {
		var held *runs.HeldError
		if err := do(); !errors.As(err, &held) || held.Run.Run != dead {
			t.Errorf("beside the run %s: %v", dead, err)
		}
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
	if err := <-started; err != nil {
		t.Error(err)
	}
	s.wantTruth()
	began := 0
	for _, e := range s.events() {
		if e.Name == string(report.ActionStarted) {
			began++
		}
	}
	if began != 1 {
		t.Errorf("%d actions began", began)
	}
}
