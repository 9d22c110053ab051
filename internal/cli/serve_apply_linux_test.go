package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/report"
)

const chain = `
  a: {type: SLOW, config: {value: "{{ word }} {% include 'conf/part' %}"}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}"}}
`

// applySite is a server whose workspace has nothing but a directory for things, and somebody
// elsewhere who has manifests.
func applySite(t *testing.T, begin func(*testing.T, string) *site) (s *site, server *run, far asker) {
	t.Helper()
	s = begin(t, chain)
	far = asker{program: binary, dir: t.TempDir()}
	manifest := must.Get(os.ReadFile(filepath.Join(s.dir, "m.yaml")))(t)
	require.NoError(t, os.Remove(filepath.Join(s.dir, "m.yaml")))
	writeFiles(t, far.dir, map[string]string{"m.yaml": string(manifest), "conf/part": "part", "vars.auto.yaml": "word: from here\n", "things/none": ""})
	server = s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far.server = "unix:" + filepath.Join(s.dir, "socket")
	return s, server, far
}

// follows starts an apply at the server, which shows the run.
func (c asker) follows(t *testing.T) *run {
	cmd := exec.Command(c.program, "apply", "m.yaml", "--yes", "--allow-logged", "word")
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "DEPLOYSTER_SERVER="+c.server, "HOME="+c.dir)
	return startRun(t, cmd)
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
	t.Parallel()
	s, server, far := applySite(t, newSite)
	apply := []string{"apply", "m.yaml", "--yes", "--allow-logged", "word"}
	ci, viewer := far, far
	ci.server, ci.token = "http://"+server.address(t), s.token("ci", "operator")
	viewer.server, viewer.token = ci.server, s.token("eve", "viewer")
	viewer.want(t, 1, "you may not do this", apply...)
	// A type that does not ship may take anything for a secret.
	ci.want(t, 3, "say --allow-logged NAME", "apply", "m.yaml", "--yes")
	require.Len(t, s.begun(), 0, "what was refused has begun")
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
		want, code := far.here(c.args...)
		got, there := ci.run(t, append(c.args, "--allow-logged", "word")...)
		if code != c.want || there != c.want || untimed(got) != untimed(want) && !strings.Contains(want, "none.yaml") {
			t.Errorf("%q: exit %d there and %d here, want %d\nthere\n%s\nhere\n%s", c.args, there, code, c.want, got, want)
		}
	}
	s.wantThing("a", "other part")
	if first := s.begun()[0]; first.Target != "run/m.yaml" || !strings.Contains(string(first.Data), `"user":"token ci"`) {
		t.Errorf("%s %s", first.Target, first.Data)
	}
	// The server has the same secret in the same file, and the value is not sent.
	secret := filepath.Join(s.dir, "vars.auto.yaml")
	require.NoError(t, os.WriteFile(secret, []byte("word: from here\n"), 0o600))
	far.want(t, 0, "applied", "apply", "m.yaml", "--yes")
	require.NoError(t, os.WriteFile(secret, []byte("word: altered\n"), 0o600))
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
	s.end(server)
	s.wantTruth()
}

// A server that is killed leaves what a killed run leaves: the next run finds out what became of it.
func TestAServerIsKilledWhileItApplies(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newDockerSite)
	s.hold("a")
	follower := far.follows(t)
	s.untilBusy("a")
	s.kill(server)
	server = s.serve("socket")
	s.wantEnd(follower, 1, "the server ended before run")
	again := far.follows(t)
	again.out.until(t, "waits for")
	s.release("a")
	s.wantEnd(again, 0)
	assert.Len(t, s.begun(), 2, "runs have begun")
	s.end(server)
	s.wantTruth()
}

// Interrupted, it does what it does where it carries the run out itself. Interrupted twice, it
// leaves the run to the server.
func TestAnApplyThroughAServerIsInterrupted(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	stopped := make(chan struct{}, 9)
	far.server = s.through("socket", func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		server.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/stop") {
			stopped <- struct{}{}
		}
	})
	for name, twice := range map[string]bool{"once": false, "twice": true} {
		s.hold("a")
		follower := far.follows(t)
		s.untilBusy("a")
		s.signal(follower, os.Interrupt)
		follower.out.until(t, "the server lets running actions finish first")
		waittest.Receive(t, stopped, "the server is asked to stop the run")
		if twice {
			s.signal(follower, os.Interrupt)
			follower.out.until(t, "goes on at server")
		} else {
			s.release("a")
		}
		s.wantEnd(follower, 130)
		if twice {
			s.release("a")
		}
		s.until(len(s.begun()), named(report.RunFailed))
		if names := s.names(); !slices.Contains(names, "action-finished-successfully action/a/set") || !slices.Contains(names, "resource-skipped resource/b") {
			t.Errorf("%s: the log tells %v", name, names)
		}
		require.NoError(t, os.Remove(s.thing("a")))
	}
	s.end(server)
	s.wantTruth()
}

// A server that is stopped finishes what runs, begins nothing new, and says so to who follows.
func TestAServerIsStoppedWhileItApplies(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	s.hold("a")
	follower := far.follows(t)
	s.untilBusy("a")
	s.signal(server, syscall.SIGTERM)
	server.out.until(t, "stopping")
	far.want(t, 1, "the server stops", "apply", "m.yaml", "--yes", "--allow-logged", "word")
	s.release("a")
	s.wantEnd(follower, 130)
	s.wantEnd(server, 0)
	if names := s.names(); names[len(names)-1] != "run-failed run/m.yaml" || !slices.Contains(names, "action-finished-successfully action/a/set") {
		t.Errorf("the log tells %v", names)
	}
	s.wantTruth()
}

// A server plans, looks for drift and destroys, and shows what would be shown here.
func TestAServerDoesAsItWouldBeDoneHere(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	same := func(code int, args ...string) {
		t.Helper()
		want, here := far.here(args...)
		got, there := far.run(t, append(args, "--allow-logged", "word")...)
		if here != code || there != code || untimed(got) != untimed(want) {
			t.Errorf("%q: exit %d there and %d here, want %d\nthere\n%s\nhere\n%s", args, there, here, code, got, want)
		}
	}
	writeFiles(t, far.dir, map[string]string{
		"failing.yaml": "plugs: {dir: {path: things}}\nresources: {a: {type: '" + slowType + "', config: {nonsense: 1}}}\n",
		"wrong.yaml":   "plugs: {root: {path: things}}\nresources: {a: {type: deployster/file, config: {nonsense: 1}}}\n",
	})
	same(2, "plan", "m.yaml", "--detailed-exitcode", "--full")
	same(0, "plan", "m.yaml", "--target", "a", "--all")
	same(2, "drift", "m.yaml") // here, too, all of it is missing
	same(2, "drift", "m.yaml", "--target", "a", "--verbose")
	for _, verb := range []string{"plan", "drift"} {
		same(1, verb, "failing.yaml")
		same(3, verb, "wrong.yaml")
	}
	far.want(t, 3, "--engine is said to the server", "drift", "m.yaml", "--engine", "oci")
	assert.Empty(t, s.begun(), "what was planned or looked at is in the log")
	assert.Empty(t, s.done())

	allow := []string{"--allow-logged", "word"}
	far.want(t, 0, "2 changed", append([]string{"apply", "m.yaml", "--yes"}, allow...)...)
	far.here("apply", "m.yaml", "--yes")
	far.want(t, 0, "No drift: ", append([]string{"drift", "m.yaml"}, allow...)...)
	s.set("a", "")
	far.want(t, 2, `"missing":1,`, append([]string{"drift", "m.yaml", "--output", "json"}, allow...)...)
	far.want(t, 0, "1 changed", append([]string{"apply", "m.yaml", "--yes"}, allow...)...)

	same(0, "plan", "m.yaml", "--destroy")
	same(0, "plan", "m.yaml", "--destroy", "--target", "a") // which takes along what depends on it
	screen, code := far.asked(t, func() {}, "n", append([]string{"destroy", "m.yaml", "--confirm", "ONCE"}, allow...)...)
	assert.Equal(t, 1, code)
	assert.Contains(t, screen, "Plan: 2 to remove, 0 gone already.")
	assert.Equal(t, "ab", s.done())
	same(0, "destroy", "m.yaml", "--yes", "--target", "b")
	assert.Equal(t, "a", s.done())
	same(0, "destroy", "m.yaml", "--yes")
	same(0, "destroy", "m.yaml", "--yes")
	assert.Empty(t, s.done())
	s.end(server)
	s.wantTruth()
}

// What nothing declares any more is listed and removed through a server as where the log is, and only what was shown.
func TestOrphansAreRemovedThroughAServer(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	declare := func(name string, things ...string) {
		text := "plugs: {root: {path: things}}\nresources:\n"
		for _, thing := range things {
			text += fmt.Sprintf("  %s: {type: deployster/file, config: {path: %[1]s, content: x}}\n", thing)
		}
		writeFiles(t, far.dir, map[string]string{name: text})
		far.want(t, 0, "applied", "apply", name, "--yes")
	}
	files := func() string {
		var names []string
		for _, e := range must.Get(os.ReadDir(filepath.Join(s.dir, "things")))(t) {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	destroy := []string{"destroy", "--orphans"}
	far.want(t, 0, "No orphan is to be removed.", append(destroy, "--yes")...)
	declare("f.yaml", "a", "b", "c")
	declare("g.yaml", "d")
	declare("f.yaml", "c")
	listed, code := far.run(t, "list", "--orphans")
	assert.Equal(t, 0, code)
	assert.Regexp(t, `(?m)^f.yaml +a +deployster/file`, listed)
	assert.NotRegexp(t, `(?m)^\S+ +[cd] `, listed)
	here, _ := (asker{program: binary, dir: s.dir}).here("list", "--orphans")
	assert.Equal(t, here, listed)
	want := "  - a  deployster/file  to be removed: made by run RUN of f.yaml\n"
	plan, code := far.run(t, "plan", "--destroy", "--orphans", "--target", "a")
	assert.Equal(t, 0, code)
	assert.Contains(t, untimed(plan), want)
	far.want(t, 3, "no orphan has this name", "plan", "--destroy", "--orphans", "--target", "c")
	far.want(t, 3, "say --yes", destroy...)
	far.want(t, 3, "--prune is for what one manifest", append(destroy, "--yes", "--prune")...)
	// What became an orphan after the plan was shown is not removed with it.
	screen, code := far.asked(t, func() { declare("g.yaml", "e") }, "y", destroy...)
	assert.Equal(t, 0, code, screen)
	assert.Contains(t, screen, "Plan: 2 to remove")
	assert.Equal(t, "c d e", files())
	declare("k.yaml", "k")
	keep := strings.Replace(string(must.Get(os.ReadFile(filepath.Join(far.dir, "k.yaml")))(t)), "config", "prevent_destroy: true, config", 1)
	writeFiles(t, far.dir, map[string]string{"k.yaml": keep})
	far.want(t, 0, "applied", "apply", "k.yaml", "--yes")
	declare("k.yaml", "l")
	far.want(t, 3, "made with prevent_destroy: true", append(destroy, "--yes")...)
	far.want(t, 0, "1 removed", append(destroy, "--yes", "--target", "g.yaml#d")...)
	assert.Equal(t, "c e k l", files())
	eve := far
	eve.server, eve.token = "http://"+server.address(t), s.token("eve", "viewer")
	eve.want(t, 1, "you may not do this", append(destroy, "--yes")...)
	eve.want(t, 0, "k.yaml", "list", "--orphans")
	s.end(server)
}

// asked runs a command on a pseudo terminal, and has something done before its question is answered.
func (c asker) asked(t *testing.T, before func(), answer string, args ...string) (screen string, code int) {
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "DEPLOYSTER_SERVER="+c.server, "HOME="+c.dir, "NO_COLOR=1")
	return onTerminal(t, cmd, &pty.Winsize{Rows: 50, Cols: 120}, "[y/N", func(int) string {
		before()
		return answer + "\n"
	})
}

func TestAPlanOfAServerIsApplied(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	once := []string{"apply", "m.yaml", "--confirm", "ONCE", "--allow-logged", "word"}
	screen, code := far.asked(t, func() {}, "n", "apply", "m.yaml", "--allow-logged", "word") // once is the default
	if _, err := os.Stat(s.thing("a")); code != 1 || !strings.Contains(screen, "Plan: 1 to change, 0 unchanged, 1 known after apply.") || !strings.Contains(screen, "declined: nothing was changed") || err == nil {
		t.Errorf("exit %d, %v\n%s", code, err, screen)
	}
	part := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(far.dir, "conf", "part"), []byte(text), 0o600))
	}
	// What was planned is applied, and not what a file says by then.
	screen, code = far.asked(t, func() { part("altered") }, "y", once...)
	text, err := os.ReadFile(s.thing("b"))
	assert.True(t, code == 0 && string(text) == "from here part", "exit %d, %q, %v\n%s", code, text, err, screen)
	part("part")
	require.NoError(t, os.Remove(s.thing("b")))
	screen, code = far.asked(t, func() { // somebody else changes something
		require.NoError(t, os.WriteFile(s.thing("a"), []byte("other"), 0o600))
	}, "y", once...)
	if text, err := os.ReadFile(s.thing("a")); code != 1 || string(text) != "other" || !strings.Contains(screen, "Plan: 1 to change, 1 unchanged") {
		t.Errorf("exit %d, %q, %v\n%s", code, text, err, screen)
	}
	s.end(server)
	s.wantTruth()
}

// The commands that save a plan of a server, and apply it.
var (
	planThere  = []string{"plan", "m.yaml", "-o", "m.plan", "--allow-logged", "word"}
	applyThere = []string{"apply", "m.plan", "--yes", "--allow-logged", "word"}
)

func (c asker) write(t *testing.T, name, text string) {
	writeFiles(t, c.dir, map[string]string{name: text})
}

func (c asker) read(t *testing.T, name string) string {
	text := must.Get(os.ReadFile(filepath.Join(c.dir, name)))(t)
	return string(text)
}

// here is a command that is given in the same place without a server.
func (c asker) here(args ...string) (string, int) {
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// set makes a thing something else; "" removes it.
func (s *site) set(name, text string) {
	err := os.Remove(s.thing(name))
	if text != "" {
		err = os.WriteFile(s.thing(name), []byte(text), 0o600)
	}
	require.NoError(s, err)
}

// A plan that a server made is saved by who asked for it, as a plan is here, and is applied by that
// server alone, as it was made.
func TestAPlanIsSavedThroughAServer(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	want, _ := far.here("plan", "m.yaml", "-o", "local.plan")
	got, code := far.run(t, planThere...)
	if code != 0 || untimed(got) != strings.ReplaceAll(untimed(want), "local.plan", "m.plan") {
		t.Errorf("exit %d\nthere\n%s\nhere\n%s", code, got, want)
	}
	slash := far // is the same server
	slash.server += "/"
	slash.want(t, 3, "leaves 1 resource open (b), and there is nobody to ask", "apply", "m.plan")
	whole := far.read(t, "m.plan")
	assert.Contains(t, whole, `"server": "`+far.server+`"`, "the plan says")
	far.want(t, 0, "Plan: 1 to change, 0 unchanged, 1 known after apply.", "plan", "m.plan")

	if text, code := far.here("apply", "m.plan", "--yes"); code != 3 || !strings.Contains(text, "was made through server "+far.server+", and is not applied here: apply it with --server "+far.server) {
		t.Errorf("exit %d\n%s", code, text)
	}
	other := far
	other.server = "http://" + server.address(t)
	other.want(t, 3, "is not applied through server http://", applyThere...)
	far.want(t, 3, "was made without a server", "apply", "local.plan", "--yes")
	far.want(t, 3, "leaves 1 resource open (b), and there is nobody to ask", "apply", "m.plan")
	far.want(t, 3, "--target is not possible with a saved plan", append(applyThere, "--target", "a")...)
	far.want(t, 3, "--memory is said to the server", append(applyThere, "--memory", "1GiB")...)
	far.want(t, 3, "-o with --destroy", append(planThere, "--destroy")...)
	far.want(t, 3, "is no saved plan, so it is not overwritten", "plan", "m.yaml", "-o", "m.yaml", "--allow-logged", "word")
	for _, c := range []struct{ words, text string }{
		{"ends within the plan", whole[:len(whole)/2]},
		{"was changed after it was made", strings.Replace(whole, `"from here part"`, `"from there part"`, 1)},
		{"was changed after it was made", strings.Replace(whole, far.server, other.server, 1)},
	} {
		far.write(t, "m.plan", c.text)
		far.want(t, 3, c.words, applyThere...)
	}
	far.write(t, "m.plan", whole)
	far.write(t, "vars.auto.yaml", "word: another\n")
	far.want(t, 3, "the variables are not those with which the plan m.plan was made", applyThere...)
	far.write(t, "vars.auto.yaml", "word: from here\n")
	assert.Empty(t, s.begun(), "what is refused has begun")
	far.write(t, "conf/part", "altered")
	far.want(t, 1, "not as planned: its configuration is another one", applyThere...)
	s.wantThing("a", "")
	s.end(server)
	s.wantTruth()
}

// Nothing of a saved plan is kept by the server that made it: it is applied, and nothing else is,
// also when that server was killed in between.
func TestASavedPlanIsAppliedThroughAServer(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	far.want(t, 0, "Saved to m.plan", planThere...)
	s.kill(server)
	server = s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far.want(t, 0, "2 changed", applyThere...)
	s.wantThing("b", "from here part")
	s.until(1, func(e deploylog.Event) bool {
		return e.Name == string(report.RunStarted) && strings.Contains(string(e.Data), `"plan":"sha256:`)
	})

	s.set("b", "")
	far.want(t, 0, "Saved to m.plan", planThere...)
	s.set("a", "somebody else")
	far.want(t, 1, "not as planned", applyThere...)
	s.wantThing("a", "somebody else")

	// What a plan leaves open is asked for once, here.
	s.set("a", "")
	far.want(t, 0, "Saved to m.plan", planThere...)
	once := []string{"apply", "m.plan", "--confirm", "ONCE", "--allow-logged", "word"}
	screen, code := far.asked(t, func() {}, "n", once...)
	assert.True(t, code == 1 && strings.Contains(screen, "declined: nothing was changed"), "exit %d\n%s", code, screen)
	s.wantThing("a", "")
	screen, code = far.asked(t, func() {}, "y", once...)
	assert.Zero(t, code, "exit %d\n%s", code, screen)
	s.wantThing("b", "from here part")
	s.end(server)
	s.wantTruth()
}
