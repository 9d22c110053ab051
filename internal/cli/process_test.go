package cli_test

import (
	"context"
	"encoding/json"
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
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// site is a workspace with resources of slowtype, looked at from outside while
// the real binary works on it.
type site struct {
	*testing.T
	dir string // workspace
	log *sqlite.Log
}

func newSite(t *testing.T, resources string) *site {
	s := &site{T: t, dir: t.TempDir()}
	manifest := "plugs: {dir: {path: things}}\nresources:\n" + strings.NewReplacer("SLOW", slowType, "ONE-SHOT", oneShotType).Replace(resources)
	if err := errors.Join(
		os.Mkdir(filepath.Join(s.dir, "things"), 0o700),
		os.WriteFile(filepath.Join(s.dir, "m.yaml"), []byte(manifest), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	log, err := sqlite.Open(t.Context(), filepath.Join(s.dir, ".deployster", "deployments.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.log = log
	t.Cleanup(func() {
		dockerdtest.NothingLeft(t, invoke.LabelLog+"="+log.ID())
		_ = log.Close()
	})
	return s
}

func (s *site) thing(name string) string { return filepath.Join(s.dir, "things", name) }

// run is a deployster process.
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

// until waits for words to be written.
func (s *said) until(t *testing.T, words string) {
	t.Helper()
	patience := time.After(10 * time.Minute)
	for {
		s.mu.Lock()
		there, more := strings.Contains(s.text.String(), words), s.more
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-more:
		case <-patience:
			t.Fatalf("it never said %q, but\n%s", words, s)
		}
	}
}

func (s *site) start(args ...string) *run {
	s.Helper()
	r := &run{Cmd: exec.Command(binary, args...), out: &said{more: make(chan struct{})}, done: make(chan error, 1)}
	r.Dir = s.dir
	r.Stdout, r.Stderr = r.out, r.out
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { r.done <- r.Wait() }()
	return r
}

// exit waits for the end of a process and returns its exit code.
func (s *site) exit(r *run) int {
	s.Helper()
	<-r.done
	return r.ProcessState.ExitCode()
}

// until waits for the n-th event that fits.
func (s *site) until(n int, fits func(deploylog.Event) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	for e, err := range s.log.Watch(ctx, deploylog.Filter{}) {
		if err != nil {
			s.Fatal(err)
		}
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
	s.Helper()
	var all []deploylog.Event
	for e, err := range s.log.Read(context.Background(), deploylog.Filter{}) {
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (s *site) hold(name string) { s.touch(name + ".hold") }

func (s *site) touch(name string) {
	s.Helper()
	if err := os.WriteFile(s.thing(name), nil, 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *site) release(name string) {
	s.Helper()
	if err := os.Remove(s.thing(name + ".hold")); err != nil {
		s.Fatal(err)
	}
}

const three = `
  a: {type: SLOW, config: {value: one}}
  b: {type: SLOW, dependencies: {a: a}, config: {value: "{{ a.state.value }}"}}
  c: {type: ONE-SHOT, config: {value: three}}
`

// Killed at any event, the next apply ends VALID, no action ever runs twice at
// once, nothing is left behind, and the log has an end for all that began.
func TestKilledAtAnyPointTheNextApplyEndsValid(t *testing.T) {
	whole := newSite(t, three)
	if code := whole.exit(whole.start("apply", "m.yaml", "--confirm", "NO")); code != 0 {
		t.Fatalf("exit %d", code)
	}
	events := len(whole.events())
	if events < 20 {
		t.Fatalf("only %d events to be killed at", events)
	}
	for n := 1; n < events; n += killStep() {
		t.Run(fmt.Sprintf("after event %d", n), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, three)
			first := s.start("apply", "m.yaml", "--confirm", "NO")
			s.until(n, func(deploylog.Event) bool { return true })
			if err := first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			s.exit(first)
			second := s.start("apply", "m.yaml", "--confirm", "NO")
			if code := s.exit(second); code != 0 {
				t.Fatalf("the second apply exited with %d\n%s", code, second.out)
			}
			s.wantWhole()
		})
	}
}

// killStep is from one event after which a run is killed to the next.
func killStep() int {
	if testing.Short() {
		return 2
	}
	return 1
}

// wantWhole checks that a site has arrived, and that its log is truthful.
func (s *site) wantWhole() {
	s.Helper()
	for name, want := range map[string]string{"a": "one", "b": "one", "c": "three"} {
		if text, err := os.ReadFile(s.thing(name)); err != nil || string(text) != want {
			s.Errorf("%s is %q, %v", name, text, err)
		}
	}
	s.wantTruth()
}

// wantTruth checks that no action ran twice at once, and that the log has an
// end for all that began.
func (s *site) wantTruth() {
	s.Helper()
	if _, err := os.Stat(s.thing("two-at-once")); err == nil {
		s.Error("an action ran twice at once")
	}
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
			if e.Target.Kind() != "resource" && !open[k] {
				s.Errorf("%s of %s ended without having begun", e.Target, e.Deployment)
			}
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
			s := newSite(t, tc.resource)
			s.hold("a")
			first := s.start("apply", "m.yaml", "--confirm", "NO")
			s.untilBusy("a")
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			s.exit(first)

			second := s.start("apply", "m.yaml", "--confirm", "NO", "--output", "json")
			second.out.until(t, "left running")
			s.release("a")
			if code := s.exit(second); code != 0 {
				t.Fatalf("exit %d\n%s", code, second.out)
			}
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

// untilBusy waits until the action of a resource is at work.
func (s *site) untilBusy(name string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(s.thing(name + ".busy")); err == nil {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			s.Fatalf("the action of %s does not begin", name)
		}
	}
}

func (s *site) names() []string {
	s.Helper()
	var names []string
	for _, e := range s.events() {
		names = append(names, e.Name+" "+string(e.Target))
	}
	return names
}

func TestTwoAppliesAtOnceTakeTurns(t *testing.T) {
	s := newSite(t, three)
	runs := []*run{s.start("apply", "m.yaml", "--confirm", "NO"), s.start("apply", "m.yaml", "--confirm", "NO")}
	for _, r := range runs {
		if code := s.exit(r); code != 0 {
			t.Errorf("exit %d\n%s", code, r.out)
		}
	}
	s.wantWhole()
	started := 0
	for _, e := range s.events() {
		if e.Name == string(report.ActionStarted) {
			started++
		}
	}
	if started != 3 {
		t.Errorf("%d actions for 3 resources", started)
	}
}

func TestFollowSeesWhatAnotherProcessAppends(t *testing.T) {
	s := newSite(t, "  a: {type: SLOW, config: {value: one}}")
	follow := exec.Command(binary, "log", "follow", "--output", "json")
	follow.Dir = s.dir
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	if code := s.exit(s.start("apply", "m.yaml", "--confirm", "NO")); code != 0 {
		t.Fatalf("exit %d", code)
	}
	for decoder := json.NewDecoder(pipe); ; {
		var e deploylog.Event
		if err := decoder.Decode(&e); err != nil {
			t.Fatalf("it ended before the run did: %v", err)
		}
		if e.Name == string(report.RunFinished) {
			break
		}
	}
	if err := follow.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("interrupted, it ended with %v", err)
	}
}
