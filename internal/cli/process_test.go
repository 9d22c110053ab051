package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// site is a workspace with resources of slowtype, looked at from outside while
// the real binary works on it.
type site struct {
	*testing.T
	dir    string // workspace
	log    *sqlite.Log
	docker bool // its commands that name no engine use Docker, and not oci
}

func newSite(t *testing.T, resources string) *site {
	s := &site{T: t, dir: t.TempDir()}
	manifest := "plugs: {dir: {path: things}}\nresources:\n" + strings.NewReplacer("SLOW", slowType, "ONE-SHOT", oneShotType).Replace(resources)
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "things"), 0o700))
	s.write("m.yaml", manifest)
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(s.dir, ".deployster", "deployments.db"), sqlite.Options{}))(t)
	s.log = log
	t.Cleanup(func() {
		s.nothingLeft()
		_ = log.Close()
	})
	return s
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

func (s *site) write(name, text string) { writeFiles(s, s.dir, map[string]string{name: text}) }

// newDockerSite is a site whose actions outlive their run, as they do on Docker.
func newDockerSite(t *testing.T, resources string) *site {
	s := newSite(t, resources)
	s.docker = true
	return s
}

func (s *site) nothingLeft() {
	label := map[string]string{invoke.LabelLog: s.log.ID()}
	onOCI := must.Get(oci.Open(context.Background(), oci.Options{}))(s)
	defer onOCI.Close()
	left, err := onOCI.Containers(context.Background(), label)
	assert.NoError(s, err)
	assert.Empty(s, left, "containers are left behind")
	if !s.docker {
		return
	}
	api := must.Get(client.New(client.WithHost(dockerAddress)))(s)
	defer api.Close()
	list, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", invoke.LabelLog+"="+s.log.ID())})
	require.NoError(s, err)
	for _, c := range list.Items {
		found, err := api.ContainerInspect(context.Background(), c.ID, client.ContainerInspectOptions{})
		if err != nil && strings.Contains(strings.ToLower(err.Error()), "no such container") {
			continue
		}
		require.NoError(s, err)
		// One that has ended may be in the hands of the engine, which removes it on its own.
		status := string(found.Container.State.Status)
		ending := found.Container.HostConfig.AutoRemove && (status == "exited" || status == "removing")
		assert.True(s, ending, "a container is left behind: %s is %s", found.Container.Name, status)
	}
}

func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir
	if s.docker {
		cmd.Env = append(os.Environ(), "DOCKER_CONFIG=")
	}
	return cmd
}

func (s *site) thing(name string) string { return filepath.Join(s.dir, "things", name) }

type run struct {
	*exec.Cmd
	out  *said
	done chan error
}

// said is what a process has written so far; others can wait for more.
type said struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed at the next write
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) until(t *testing.T, words string) {
	t.Helper()
	for {
		s.mu.Lock()
		there, more := strings.Contains(s.text.String(), words), s.more
		s.mu.Unlock()
		if there {
			return
		}
		waittest.Receive(t, more, fmt.Sprintf("%q, but it only said\n%s", words, s))
	}
}

func (s *site) start(args ...string) *run { return startRun(s.T, s.command(args...)) }

func startRun(t *testing.T, cmd *exec.Cmd) *run {
	r := &run{Cmd: cmd, out: &said{more: make(chan struct{})}, done: make(chan error, 1)}
	r.Stdout, r.Stderr = r.out, r.out
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, r.Start())
	go func() { r.done <- r.Wait() }()
	return r
}

func (s *site) kill(r *run) {
	if err := r.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(s, err)
	}
	s.exit(r)
}

func (s *site) signal(r *run, signal os.Signal) { require.NoError(s, r.Process.Signal(signal)) }

func (s *site) exit(r *run) int {
	<-r.done
	return r.ProcessState.ExitCode()
}

// wantEnd waits for the end of a process, which exits with a code and has said some words.
func (s *site) wantEnd(r *run, code int, words ...string) {
	assert.Equal(s, code, s.exit(r), "exit code of %q, which said\n%s", r.Args[1:], r.out)
	for _, said := range words {
		assert.Contains(s, r.out.String(), said)
	}
}

// deployster runs a command to its end, which must be a good one, and returns what it wrote.
func (s *site) deployster(args ...string) string {
	r := s.start(args...)
	require.Equal(s, 0, s.exit(r), "exit code of %q, which said\n%s", args, r.out)
	return r.out.String()
}

func (s *site) until(n int, fits func(deploylog.Event) bool) {
	s.Helper()
	for e, err := range s.log.Watch(waittest.Context(s), deploylog.Filter{}) {
		require.NoError(s, err)
		if fits(e) {
			if n--; n == 0 {
				return
			}
		}
	}
	s.Fatal("the event did not come")
}

func named(kind report.EventKind) func(deploylog.Event) bool {
	return func(e deploylog.Event) bool { return e.Name == string(kind) }
}

func (s *site) events() []deploylog.Event {
	var all []deploylog.Event
	for e, err := range s.log.Read(context.Background(), deploylog.Filter{}) {
		require.NoError(s, err)
		all = append(all, e)
	}
	return all
}

func (s *site) hold(name string) { s.touch(name + ".hold") }

func (s *site) touch(name string) { require.NoError(s, os.WriteFile(s.thing(name), nil, 0o600)) }

func (s *site) release(name string) { require.NoError(s, os.Remove(s.thing(name+".hold"))) }

const three = `
  a: {type: SLOW, config: {value: one}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}"}}
  c: {type: ONE-SHOT, config: {value: three}}
`

// Killed at any event, the next apply ends VALID, no action ever runs twice at
// once, nothing is left behind, and the log has an end for all that began.
func TestKilledAtAnyPointTheNextApplyEndsValid(t *testing.T) {
	t.Parallel()
	killedAtAnyPoint(t, func(t *testing.T) *site { return newDockerSite(t, three) }, "apply", (*site).wantWhole)
}

// killedAtAnyPoint runs a command to its end. In other sites it kills the command after an event
// and runs it again: after each event in "make test-all", else after the first of each kind.
func killedAtAnyPoint(t *testing.T, begin func(t *testing.T) *site, command string, wantDone func(*site)) {
	whole := begin(t)
	whole.deployster(command, "m.yaml", "--confirm", "NO")
	wantDone(whole)
	events := whole.events()
	require.GreaterOrEqual(t, len(events), 20, "events to be killed at")
	killed := map[string]bool{}
	for n, e := range events[:len(events)-1] {
		kind := e.Name
		if killed[kind] && !ringtest.All() {
			continue
		}
		killed[kind] = true
		t.Run(fmt.Sprintf("after event %d, %s", n+1, kind), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			first := s.start(command, "m.yaml", "--confirm", "NO")
			s.until(n+1, func(deploylog.Event) bool { return true })
			s.kill(first)
			s.deployster(command, "m.yaml", "--confirm", "NO")
			wantDone(s)
		})
	}
}

// wantWhole checks that a site has arrived, and that its log is truthful.
func (s *site) wantWhole() {
	s.Helper()
	for name, want := range map[string]string{"a": "one", "b": "one", "c": "three"} {
		s.wantThing(name, want)
	}
	s.wantTruth()
}

// wantTruth checks that no action ran twice at once, and that the log has an
// end for all that began.
func (s *site) wantTruth() {
	s.Helper()
	assert.Error(s, must.Fail(os.Stat(s.thing("two-at-once"))), "an action ran twice at once")
	type key struct {
		deployment string
		target     deploylog.Target
		attempt    int
	}
	open := map[key]bool{}
	for _, e := range s.events() {
		k := key{e.Deployment, e.Target, e.Attempt}
		switch e.Name {
		case e.Target.Started():
			open[k] = true
		case e.Target.Succeeded(), e.Target.Failed():
			assert.True(s, e.Target.Kind() == "resource" || open[k], "%s of %s ended without having begun", e.Target, e.Deployment)
			delete(open, k)
		}
	}
	for k := range open {
		s.Errorf("%s of %s has no end in the log", k.target, k.deployment)
	}
}

// A container's end tells how its action ended. A process that serves tells it
// only to the run that asked.
func TestAnActionThatOutlivesItsRunIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resource string
		end      report.EventKind
		told     string
	}{
		"in a container of its own": {"  a: {type: ONE-SHOT, config: {value: one}}", report.ActionFinished, `"exit_code":0`},
		"in a process that serves":  {"  a: {type: SLOW, config: {value: one}}", report.ActionFailed, "how this ended is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDockerSite(t, tc.resource)
			s.hold("a")
			first := s.start("apply", "m.yaml", "--confirm", "NO")
			s.untilBusy("a")
			s.kill(first)

			second := s.start("apply", "m.yaml", "--confirm", "NO", "--output", "json")
			second.out.until(t, "left running")
			s.release("a")
			s.wantEnd(second, 0)
			i := slices.IndexFunc(s.events(), named(tc.end))
			if i < 0 {
				t.Fatalf("the action of the killed run has no such end: %v", s.names())
			}
			if data := string(s.events()[i].Data); !strings.Contains(data, tc.told) || !strings.Contains(data, `"abandoned":true`) {
				t.Errorf("the log does not tell how the action of the killed run ended: %s", data)
			}
			if strings.Contains(second.out.String(), `"type":"action-started"`) {
				t.Errorf("the second run did again what the first had done:\n%s", second.out)
			}
			s.wantTruth()
		})
	}
}

func (s *site) untilBusy(name string) {
	s.Helper()
	waittest.Until(s, func() bool {
		_, err := os.Stat(s.thing(name + ".busy"))
		return err == nil
	}, "the action of "+name+" begins")
}

func (s *site) names() []string {
	var names []string
	for _, e := range s.events() {
		names = append(names, e.Name+" "+string(e.Target))
	}
	return names
}

func TestFollowSeesWhatAnotherProcessAppends(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  a: {type: SLOW, config: {value: one}}")
	follow := s.start("log", "follow", "--output", "json")
	s.deployster("apply", "m.yaml", "--confirm", "NO")
	follow.out.until(t, `"`+string(report.RunFinished)+`"`)
	s.signal(follow, os.Interrupt)
	s.wantEnd(follow, 0)
}

// A panic must not end the program with 2, which says that there are changes.
func TestAPanicEndsWith70AndAReport(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	for how, want := range map[string][]string{
		"main":      {"while: running the command", "panic: runtime error: index out of range [1] with length 1", "at: cli.Panicking", "command: deployster panic --var\n"},
		"resource":  {"while: applying db", "panic: no (hidden)", "at: cli.Panicking", "deployster: "},
		"variables": {"panic: boom (hidden) map[b:[(hidden) (hidden)]]\n"},
		"aside":     {"while: waiting", "panic: aside", "at: cli.Panicking"},
	} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"vars.auto.yaml": "a: hush", "more.yaml": "file: {b: [hush-hush-hush, 4711]}"})
			args := []string{"panic", how, "--var", "token=hush-hush"}
			if how == "variables" {
				args = append(args, "--var-file", "more.yaml", "--var", "short=hush")
			}
			cmd := exec.Command(self, args...)
			cmd.Dir = dir
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit) && exit.ExitCode() == 70, "%v\n%s", err, said)
			reports, _ := filepath.Glob(filepath.Join(dir, ".deployster", "crash-*.txt"))
			require.Len(t, reports, 1, "%d reports\n%s", len(reports), said)
			rel, _ := filepath.Rel(dir, reports[0])
			assert.Contains(t, string(said), rel, "it does not say where the report is:\n%s", said)
			info, err := os.Stat(reports[0])
			assert.True(t, err == nil && info.Mode() == 0o600, "%v %v", info, err)
			text := must.Get(os.ReadFile(reports[0]))(t)
			for _, words := range append(want, "built with: go", "module: github.com/deployster-go/deployster", "goroutine ") {
				assert.Contains(t, string(text), words, "the report does not say %q:\n%s", words, text)
			}
			assert.NotContains(t, string(text), "hush", "a value is in the report:\n%s", text)
		})
	}
}

func TestAPanicThatNothingCatchesDoesNotEndWith2(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command("sh", "-c", `ulimit -c 0; "$0" panic unguarded; echo $?`, self)
	cmd.Dir = t.TempDir()
	code, err := cmd.Output()
	assert.True(t, err == nil && string(code) == "134\n", "it ended with %s (%v)", code, err)
}

func TestInterruptOnceLetsTheActionFinish(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	s.hold("a")
	s.hold("c")
	r := s.start("apply", "m.yaml", "--confirm", "NO")
	s.untilBusy("a")
	s.untilBusy("c")
	s.signal(r, os.Interrupt)
	s.release("a")
	s.release("c")
	s.wantEnd(r, 130)
	names := s.names()
	require.Contains(t, names, "action-finished-successfully action/a/set")
	assert.Contains(t, names, "resource-skipped resource/b", "the log tells")
	assert.Equal(t, "run-failed run/m.yaml", names[len(names)-1], "the log ends with")
}

func TestInterruptTwiceKillsTheAction(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	s.hold("a")
	s.hold("c")
	r := s.start("apply", "m.yaml", "--confirm", "NO")
	s.untilBusy("a")
	s.untilBusy("c")
	for _, answer := range []string{"interrupt again", "killing"} {
		s.signal(r, os.Interrupt)
		r.out.until(t, answer)
	}
	s.wantEnd(r, 130)
	// It does not wait for long until the engine has killed the actions, and says so.
	if names := s.names(); !slices.Contains(names, "action-failed action/a/set") && !strings.Contains(r.out.String(), "the process ends now, though an engine has not answered") {
		t.Errorf("the log tells %v\n%s", names, r.out)
	}
}
