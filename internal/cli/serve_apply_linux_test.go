package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

const chain = `
  a: {type: SLOW, config: {value: "{{ word }} {% include 'conf/part' %}"}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}"}}
`

// applySite is a server whose workspace has nothing but a directory for things, and somebody
// elsewhere who has manifests.
func applySite(t *testing.T) (s *site, server *run, far asker) {
	t.Helper()
	s = newSite(t, chain)
	far = asker{program: binary, dir: t.TempDir()}
	manifest, err := os.ReadFile(filepath.Join(s.dir, "m.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.dir, "m.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"m.yaml": string(manifest), "conf/part": "part", "vars.auto.yaml": "word: from here\n", "things/none": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(far.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(far.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server = s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far.server = "unix:" + filepath.Join(s.dir, "socket")
	return s, server, far
}

// follows starts an apply at the server, which shows the run.
func (c asker) follows(t *testing.T) *run {
	t.Helper()
	r := &run{Cmd: exec.Command(c.program, "apply", "m.yaml", "--yes", "--allow-logged", "word"), out: &said{more: make(chan struct{})}, done: make(chan error, 1)}
	r.Dir, r.Stdout, r.Stderr = c.dir, r.out, r.out
	r.Env = append(os.Environ(), "DEPLOYSTER_SERVER="+c.server, "HOME="+c.dir)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.Wait() }()
	return r
}

// ofSlowness is what is said only where something takes long, as on a busy machine.
var ofSlowness = regexp.MustCompile(`(?m)^ +… (.* still busy after [^:]+: .*|[0-9]+ of [0-9]+ resources? done)\n`)

// untimed is what was said but for times, and the ids of runs.
func untimed(said string) string {
	said = ofSlowness.ReplaceAllString(said, "")
	said = regexp.MustCompile(`[0-9A-Z]{26}`).ReplaceAllString(said, "RUN")
	return regexp.MustCompile(`(\d+h)?(\d+m)?\d+(\.\d+)?s\b`).ReplaceAllString(said, "0.0s")
}

func (s *site) begun() (runs []deploylog.Event) {
	return slices.DeleteFunc(s.events(), func(e deploylog.Event) bool { return e.Name != string(report.RunStarted) })
}

// What is applied is what is in the checkout of who asks; the server does it, and what it shows
// is what would be shown there.
func TestManifestsAreAppliedThroughAServer(t *testing.T) {
	s, server, far := applySite(t)
	token := func(name, role string) string {
		t.Helper()
		secret, err := (&exec.Cmd{Path: binary, Dir: s.dir, Args: []string{binary, "token", "create", name, "--role", role}}).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(secret))
	}
	apply := []string{"apply", "m.yaml", "--yes", "--allow-logged", "word"}
	ci, viewer := far, far
	ci.server, ci.token = "http://"+server.address(t), token("ci", "operator")
	viewer.server, viewer.token = ci.server, token("eve", "viewer")
	viewer.want(t, 1, "you may not do this", apply...)
	// A type that does not ship may take anything for a secret.
	ci.want(t, 3, "say --allow-logged NAME", "apply", "m.yaml", "--yes")
	if begun := s.begun(); len(begun) != 0 {
		t.Fatalf("what was refused has begun: %v", begun)
	}
	here := func(args ...string) (string, int) {
		local := exec.Command(binary, args...)
		local.Dir = far.dir
		text, _ := local.CombinedOutput()
		return string(text), local.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"apply", "m.yaml", "--yes"}},
		{0, []string{"m.yaml", "-c", "NO"}},
		{0, []string{"apply", "m.yaml", "--yes", "--target", "a", "--var", "word=other"}},
		{3, []string{"apply", "m.yaml", "--yes", "--target", "nonsense"}},
		{3, []string{"apply", "m.yaml", "--yes", "--strict", "--var", "x=y"}},
		{3, []string{"apply", "none.yaml", "--yes"}},
	} {
		want, code := here(c.args...)
		got, there := ci.run(t, append(c.args, "--allow-logged", "word")...)
		if code != c.want || there != c.want || untimed(got) != untimed(want) && !strings.Contains(want, "none.yaml") {
			t.Errorf("%q: exit %d there and %d here, want %d\nthere\n%s\nhere\n%s", c.args, there, code, c.want, got, want)
		}
	}
	if text, err := os.ReadFile(s.thing("a")); string(text) != "other part" {
		t.Errorf("the server has made %q, %v", text, err)
	}
	if first := s.begun()[0]; first.Target != "run/m.yaml" || !strings.Contains(string(first.Data), `"user":"token ci"`) {
		t.Errorf("%s %s", first.Target, first.Data)
	}
	// The server has the same secret in the same file, and the value is not sent.
	secret := filepath.Join(s.dir, "vars.auto.yaml")
	if err := os.WriteFile(secret, []byte("word: from here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	far.want(t, 0, "applied", "apply", "m.yaml", "--yes")
	if err := os.WriteFile(secret, []byte("word: altered\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	far.want(t, 3, "it has another value", "apply", "m.yaml", "--yes")
	far.want(t, 0, "has begun at server unix:", append(apply, "--watch=false")...)
	s.until(5, named(report.RunFinished))
	for words, args := range map[string][]string{
		"say --yes": {"apply", "m.yaml", "--confirm", "ONCE"},
		"say --confirm ONCE, or --yes to destroy": {"destroy", "m.yaml", "--confirm", "ACTION"},
		"deployster serve --memory":               {"apply", "m.yaml", "--yes", "--memory", "1GiB"},
		"not below the workspace":                 {"apply", "/etc/hosts", "--yes"},
		"exclude each other":                      {"apply", "m.yaml", "--yes", "--server", far.server, "--log", "x.db"},
		"interrupt it to stop it":                 {"apply", "m.yaml", "--yes", "--watch=false", "--log", "x.db"},
		"without --server nothing is":             {"apply", "m.yaml", "--yes", "--allow-logged", "word", "--log", "x.db"},
	} {
		far.want(t, 3, words, args...)
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	s.wantTruth()
}

// A server that is killed leaves what a killed run leaves: the next run finds out what became of it.
func TestAServerIsKilledWhileItApplies(t *testing.T) {
	s, server, far := applySite(t)
	s.hold("a")
	follower := far.follows(t)
	s.untilBusy("a")
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.exit(server)
	server = s.serve("socket")
	if code := s.exit(follower); code != 1 || !strings.Contains(follower.out.String(), "the server ended before run") {
		t.Errorf("exit %d\n%s", code, follower.out)
	}
	again := far.follows(t)
	again.out.until(t, "waits for")
	s.release("a")
	if code := s.exit(again); code != 0 {
		t.Errorf("exit %d\n%s", code, again.out)
	}
	if begun := s.begun(); len(begun) != 2 {
		t.Errorf("%d runs have begun", len(begun))
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	s.wantTruth()
}

// Interrupted, it does what it does where it carries the run out itself. Interrupted twice, it
// leaves the run to the server.
func TestAnApplyThroughAServerIsInterrupted(t *testing.T) {
	s, server, far := applySite(t)
	for name, twice := range map[string]bool{"once": false, "twice": true} {
		s.hold("a")
		follower := far.follows(t)
		s.untilBusy("a")
		if err := follower.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		follower.out.until(t, "the server lets running actions finish first")
		if twice {
			if err := follower.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			follower.out.until(t, "goes on at server")
		} else {
			s.release("a")
		}
		if code := s.exit(follower); code != 130 {
			t.Errorf("%s: exit %d\n%s", name, code, follower.out)
		}
		if twice {
			s.release("a")
		}
		s.until(len(s.begun()), named(report.RunFailed))
		if names := s.names(); !slices.Contains(names, "action-finished-successfully action/a/set") || !slices.Contains(names, "resource-skipped resource/b") {
			t.Errorf("%s: the log tells %v", name, names)
		}
		if err := os.Remove(s.thing("a")); err != nil {
			t.Fatal(err)
		}
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	s.wantTruth()
}

// A server that is stopped finishes what runs, begins nothing new, and says so to who follows.
func TestAServerIsStoppedWhileItApplies(t *testing.T) {
	s, server, far := applySite(t)
	s.hold("a")
	follower := far.follows(t)
	s.untilBusy("a")
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	server.out.until(t, "stopping")
	far.want(t, 1, "the server stops", "apply", "m.yaml", "--yes", "--allow-logged", "word")
	s.release("a")
	if code := s.exit(follower); code != 130 {
		t.Errorf("exit %d\n%s", code, follower.out)
	}
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	if names := s.names(); names[len(names)-1] != "run-failed run/m.yaml" || !slices.Contains(names, "action-finished-successfully action/a/set") {
		t.Errorf("the log tells %v", names)
	}
	s.wantTruth()
}

// What a server would change is shown as what would be changed here.
func TestAServerPlansAsItWouldBePlannedHere(t *testing.T) {
	s, server, far := applySite(t)
	here := func(args ...string) (string, int) {
		local := exec.Command(binary, args...)
		local.Dir = far.dir
		text, _ := local.CombinedOutput()
		return string(text), local.ProcessState.ExitCode()
	}
	same := func(code int, args ...string) {
		t.Helper()
		want, here := here(args...)
		got, there := far.run(t, append(args, "--allow-logged", "word")...)
		if here != code || there != code || untimed(got) != untimed(want) {
			t.Errorf("%q: exit %d there and %d here, want %d\nthere\n%s\nhere\n%s", args, there, here, code, got, want)
		}
	}
	same(0, "plan", "m.yaml")
	same(2, "plan", "m.yaml", "--detailed-exitcode", "--full")
	same(0, "plan", "m.yaml", "--target", "a", "--all")
	for name, text := range map[string]string{
		"failing.yaml": "plugs: {dir: {path: things}}\nresources: {a: {type: '" + slowType + "', config: {nonsense: 1}}}\n",
		"wrong.yaml":   "plugs: {root: {path: things}}\nresources: {a: {type: deployster/file, config: {nonsense: 1}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(far.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same(1, "plan", "failing.yaml")
	same(3, "plan", "wrong.yaml")
	if begun := s.begun(); len(begun) != 0 {
		t.Errorf("what was planned is in the log: %v", begun)
	}
	if _, err := os.Stat(s.thing("a")); err == nil {
		t.Error("what was planned was done")
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
}

// What is not as it is configured there is shown as it would be shown here.
func TestAServerLooksForDriftAsItWouldBeLookedForHere(t *testing.T) {
	s, server, far := applySite(t)
	same := func(code int, args ...string) string {
		t.Helper()
		local := exec.Command(binary, args...)
		local.Dir = far.dir
		want, _ := local.CombinedOutput()
		got, there := far.run(t, append(args, "--allow-logged", "word")...)
		if here := local.ProcessState.ExitCode(); here != code || there != code || untimed(got) != untimed(string(want)) {
			t.Errorf("%q: exit %d there and %d here, want %d\nthere\n%s\nhere\n%s", args, there, here, code, got, want)
		}
		return got
	}
	same(2, "drift", "m.yaml") // here, too, all of it is missing
	same(2, "drift", "m.yaml", "--target", "a", "--verbose")
	for name, text := range map[string]string{
		"failing.yaml": "plugs: {dir: {path: things}}\nresources: {a: {type: '" + slowType + "', config: {nonsense: 1}}}\n",
		"wrong.yaml":   "plugs: {root: {path: things}}\nresources: {a: {type: deployster/file, config: {nonsense: 1}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(far.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same(1, "drift", "failing.yaml")
	same(3, "drift", "wrong.yaml")
	if got, code := far.run(t, "drift", "m.yaml", "--engine", "oci"); code != 3 || !strings.Contains(got, "--engine is said to the server") {
		t.Errorf("exit %d: %s", code, got)
	}
	if begun := s.begun(); len(begun) != 0 {
		t.Errorf("what was looked at is in the log: %v", begun)
	}

	if got, code := far.run(t, "apply", "m.yaml", "--yes", "--allow-logged", "word"); code != 0 {
		t.Fatalf("exit %d: %s", code, got)
	}
	if got, code := far.run(t, "drift", "m.yaml", "--allow-logged", "word"); code != 0 || !strings.Contains(got, "No drift: ") {
		t.Errorf("exit %d: %s", code, got)
	}
	if err := os.Remove(s.thing("a")); err != nil {
		t.Fatal(err)
	}
	got, code := far.run(t, "drift", "m.yaml", "--allow-logged", "word", "--output", "json")
	var report struct {
		Type    string
		Drifted bool
		Summary struct{ Missing int }
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil || code != 2 || report.Type != "drift" || !report.Drifted || report.Summary.Missing != 1 {
		t.Errorf("exit %d, %v: %s", code, err, got)
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
}

// asked runs a command on a pseudo terminal, and has something done before its question is answered.
func (c asker) asked(t *testing.T, before func(), answer string, args ...string) (screen string, code int) {
	t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "DEPLOYSTER_SERVER="+c.server, "HOME="+c.dir, "TERM=xterm-256color", "NO_COLOR=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	var seen strings.Builder
	for buffer, done := make([]byte, 4096), false; ; {
		n, err := tty.Read(buffer)
		seen.Write(buffer[:n])
		if !done && strings.Contains(seen.String(), "[y/N") {
			done = true
			before()
			if _, err := tty.WriteString(answer + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	return seen.String(), cmd.ProcessState.ExitCode()
}

// Whoever says yes to a plan gets that, and nothing else.
func TestAPlanOfAServerIsApplied(t *testing.T) {
	s, server, far := applySite(t)
	once := []string{"apply", "m.yaml", "--confirm", "ONCE", "--allow-logged", "word"}
	screen, code := far.asked(t, func() {}, "n", "apply", "m.yaml", "--allow-logged", "word") // once is the default
	if _, err := os.Stat(s.thing("a")); code != 1 || !strings.Contains(screen, "Plan: 1 to change, 0 unchanged, 1 known after apply.") || !strings.Contains(screen, "declined: nothing was changed") || err == nil {
		t.Errorf("exit %d, %v\n%s", code, err, screen)
	}
	part := func(text string) {
		if err := os.WriteFile(filepath.Join(far.dir, "conf", "part"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What was planned is applied, and not what a file says by then.
	screen, code = far.asked(t, func() { part("altered") }, "y", once...)
	if text, err := os.ReadFile(s.thing("b")); code != 0 || string(text) != "from here part" {
		t.Errorf("exit %d, %q, %v\n%s", code, text, err, screen)
	}
	part("part")
	if err := os.Remove(s.thing("b")); err != nil {
		t.Fatal(err)
	}
	screen, code = far.asked(t, func() { // somebody else changes something
		if err := os.WriteFile(s.thing("a"), []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, "y", once...)
	if text, err := os.ReadFile(s.thing("a")); code != 1 || string(text) != "other" || !strings.Contains(screen, "Plan: 1 to change, 1 unchanged") {
		t.Errorf("exit %d, %q, %v\n%s", code, text, err, screen)
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	s.wantTruth()
}

// What a server has applied it also removes, in the same way.
func TestAServerDestroysAsItWouldBeDestroyedHere(t *testing.T) {
	s, server, far := applySite(t)
	far.want(t, 0, "2 changed", "apply", "m.yaml", "--yes", "--allow-logged", "word")
	local := func(args ...string) string {
		cmd := exec.Command(binary, args...)
		cmd.Dir = far.dir
		text, _ := cmd.CombinedOutput()
		return string(text)
	}
	local("apply", "m.yaml", "--yes")
	same := func(args ...string) {
		t.Helper()
		want := local(args...)
		if got, code := far.run(t, append(args, "--allow-logged", "word")...); code != 0 || untimed(got) != untimed(want) {
			t.Errorf("%q: exit %d\nthere\n%s\nhere\n%s", args, code, got, want)
		}
	}
	same("plan", "m.yaml", "--destroy")
	same("plan", "m.yaml", "--destroy", "--target", "a") // which takes along what depends on it
	screen, code := far.asked(t, func() {}, "n", "destroy", "m.yaml", "--confirm", "ONCE", "--allow-logged", "word")
	if _, err := os.Stat(s.thing("a")); code != 1 || !strings.Contains(screen, "Plan: 2 to remove, 0 gone already.") || err != nil {
		t.Errorf("exit %d, %v\n%s", code, err, screen)
	}
	same("destroy", "m.yaml", "--yes", "--target", "b")
	if _, err := os.Stat(s.thing("a")); err != nil {
		t.Error(err)
	}
	same("destroy", "m.yaml", "--yes")
	same("destroy", "m.yaml", "--yes")
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(s.thing(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	s.terminate(server)
	if code := s.exit(server); code != 0 {
		t.Errorf("exit %d\n%s", code, server.out)
	}
	s.wantTruth()
}
