package cli_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/runner/report"
)

// A plan whose apply was killed can be applied again: what was done stays, what
// was not is still as it was planned.
func TestASavedPlanIsAppliedAgainAfterAKill(t *testing.T) {
	s := newSite(t, three)
	planned := s.start("plan", "m.yaml", "-o", "m.plan")
	if code := s.exit(planned); code != 0 {
		t.Fatalf("exit %d\n%s", code, planned.out)
	}
	s.hold("c")
	first := s.start("apply", "m.plan", "--confirm", "NO")
	s.untilBusy("c")
	s.until(2, named(report.ResourceFinished)) // a and b
	if err := first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	s.exit(first)
	s.release("c")

	second := s.start("apply", "m.plan", "--confirm", "NO")
	if code := s.exit(second); code != 0 {
		t.Fatalf("the second apply exited with %d\n%s", code, second.out)
	}
	s.wantWhole()
}

func TestQuestionsAboutASavedPlan(t *testing.T) {
	for _, tc := range []struct {
		name, manifest, mode, answer string
		asked, code                  int
		done                         []string
	}{
		{"what is planned is not asked", "  a: {type: SLOW, config: {value: one}}", "ACTION", "n", 0, 0, []string{"a"}},
		{"what is open is asked", three, "ACTION", "y", 1, 0, []string{"a", "b", "c"}},
		{"what is open is declined", three, "RESOURCE", "n", 1, 1, []string{"a", "c"}},
		{"once is with the plan", three, "ONCE", "y", 1, 0, []string{"a", "b", "c"}},
		{"once is declined", three, "ONCE", "n", 1, 1, nil},
		{"no is no question", three, "NO", "n", 0, 0, []string{"a", "b", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.manifest)
			planned := s.start("plan", "m.yaml", "-o", "m.plan")
			if code := s.exit(planned); code != 0 {
				t.Fatalf("exit %d\n%s", code, planned.out)
			}
			screen, code := s.terminal(tc.answer, "apply", "m.plan", "--confirm", tc.mode, "--keep-going")
			if code != tc.code {
				t.Errorf("exit %d, want %d\n%s", code, tc.code, screen)
			}
			if asked := strings.Count(screen, "[y/N"); asked != tc.asked {
				t.Errorf("asked %d times, want %d:\n%s", asked, tc.asked, screen)
			}
			for _, name := range []string{"a", "b", "c"} {
				if _, err := os.Stat(s.thing(name)); (err == nil) != slices.Contains(tc.done, name) {
					t.Errorf("%s is done: %v", name, err == nil)
				}
			}
		})
	}
}
