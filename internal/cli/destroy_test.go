package cli_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// wholeSite is a site on which three is there, as an apply makes it.
func wholeSite(t *testing.T) *site {
	s := newSite(t, three)
	for name, value := range map[string]string{"a": "one", "b": "one", "c": "three"} {
		if err := os.WriteFile(s.thing(name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// wantNothing checks that all things of the site are gone, and that its log is
// truthful.
func (s *site) wantNothing() {
	s.Helper()
	left, err := os.ReadDir(s.thing(""))
	if err != nil || len(left) > 0 {
		s.Errorf("left are %v, %v", left, err)
	}
	s.wantTruth()
	for _, name := range []string{"a", "b", "c"} {
		e, ok, err := s.log.Latest(s.Context(), deploylog.Target("resource/"+name), deploylog.Succeeded)
		if err != nil || !ok || e.Revision != "" {
			s.Errorf("by the log, %s is deployed: %+v, %v", name, e, err)
		}
	}
}

// Killed at any event, the next destroy ends with all gone, no action ever runs
// twice at once, nothing is left behind, and the log has an end for all that
// began.
func TestKilledAtAnyPointTheNextDestroyEndsWithAllGone(t *testing.T) {
	whole := wholeSite(t)
	if r := whole.start("destroy", "m.yaml", "--confirm", "NO"); whole.exit(r) != 0 {
		t.Fatal(r.out)
	}
	whole.wantNothing()
	events := len(whole.events())
	if events < 20 {
		t.Fatalf("only %d events to be killed at", events)
	}
	for n := killStep(); n < events; n += killStep() { // where that is every second one, those after which no apply is killed
		t.Run(fmt.Sprintf("after event %d", n), func(t *testing.T) {
			t.Parallel()
			s := wholeSite(t)
			first := s.start("destroy", "m.yaml", "--confirm", "NO")
			s.until(n, func(deploylog.Event) bool { return true })
			if err := first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			s.exit(first)
			second := s.start("destroy", "m.yaml", "--confirm", "NO")
			if code := s.exit(second); code != 0 {
				t.Fatalf("the second destroy exited with %d\n%s", code, second.out)
			}
			s.wantNothing()
		})
	}
}

func TestInterruptOnceLetsTheRemovalFinish(t *testing.T) {
	s := wholeSite(t)
	s.hold("b")
	s.hold("c")
	r := s.start("destroy", "m.yaml", "--confirm", "NO")
	s.untilBusy("b")
	s.untilBusy("c")
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.out.until(t, "running actions finish first")
	s.release("b")
	s.release("c")
	if code := s.exit(r); code != 130 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	if _, err := os.Stat(s.thing("a")); err != nil {
		t.Errorf("a went, though it was interrupted: %v", err)
	}
	names := s.names()
	if !slices.Contains(names, "action-finished-successfully action/b/remove") || names[len(names)-1] != "run-failed run/m.yaml" {
		t.Errorf("the log tells %v", names)
	}
	if r := s.start("destroy", "m.yaml", "--confirm", "NO"); s.exit(r) != 0 {
		t.Errorf("it does not go on\n%s", r.out)
	}
	s.wantNothing()
}

func TestAnApplyAndADestroyAtOnceTakeTurns(t *testing.T) {
	s := wholeSite(t)
	s.hold("b")
	destroy := s.start("destroy", "m.yaml", "--confirm", "NO")
	s.untilBusy("b")
	apply := s.start("apply", "m.yaml", "--confirm", "NO")
	apply.out.until(t, "waits for another run")
	s.release("b")
	if code := s.exit(destroy); code != 0 {
		t.Errorf("destroy: exit %d\n%s", code, destroy.out)
	}
	s.exit(apply) // it may have found what was still there, or not
	s.wantTruth()
}

func TestQuestionsBeforeARemoval(t *testing.T) {
	for _, tc := range []struct {
		mode, answer string
		asked, code  int
		gone         bool
	}{
		{"ACTION", "y", 3, 0, true},
		{"RESOURCE", "yes", 3, 0, true},
		{"ONCE", "y", 1, 0, true},
		{"ONCE", "n", 1, 1, false},
		{"ACTION", "", 1, 1, false},
		{"ONCE", "\x03", 1, 130, false}, // an interrupt
	} {
		t.Run(tc.mode+" answered "+tc.answer, func(t *testing.T) {
			t.Parallel()
			s := wholeSite(t)
			screen, code := s.terminal(tc.answer, "destroy", "m.yaml", "--confirm", tc.mode, "--parallelism", "1")
			if code != tc.code {
				t.Errorf("exit %d, want %d\n%s", code, tc.code, screen)
			}
			if asked := strings.Count(screen, "[y/N"); asked != tc.asked {
				t.Errorf("asked %d times, want %d:\n%s", asked, tc.asked, screen)
			}
			left, err := os.ReadDir(s.thing(""))
			if err != nil || (len(left) == 0) != tc.gone || !tc.gone && len(left) != 3 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

func TestNothingIsAskedWhereNothingIsLeft(t *testing.T) {
	s := wholeSite(t)
	if r := s.start("destroy", "m.yaml", "--confirm", "NO"); s.exit(r) != 0 {
		t.Fatal(r.out)
	}
	screen, code := s.terminal("n", "destroy", "m.yaml", "--confirm", "ONCE")
	if code != 0 || strings.Contains(screen, "[y/N") || !strings.Contains(screen, "nothing to remove: 3 gone already") {
		t.Errorf("exit %d\n%s", code, screen)
	}
	if n := len(s.events()); s.events()[n-1].Name != string(report.RunFinished) {
		t.Errorf("the log ends with %+v", s.events()[n-1])
	}
}
