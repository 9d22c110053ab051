package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestInterruptOnceLetsTheActionFinish(t *testing.T) {
	s := newSite(t, three)
	s.hold("a")
	s.hold("c")
	r := s.start("apply", "m.yaml", "--confirm", "NO")
	s.untilBusy("a")
	s.untilBusy("c")
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.release("a")
	s.release("c")
	if code := s.exit(r); code != 130 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	names := s.names()
	if !slices.Contains(names, "action-finished-successfully action/a/set") || !slices.Contains(names, "resource-skipped resource/b") {
		t.Errorf("the log tells %v", names)
	}
	if last := names[len(names)-1]; last != "run-failed run/m.yaml" {
		t.Errorf("the log ends with %s", last)
	}
}

func TestInterruptTwiceKillsTheAction(t *testing.T) {
	s := newSite(t, three)
	s.hold("a")
	s.hold("c")
	r := s.start("apply", "m.yaml", "--confirm", "NO")
	s.untilBusy("a")
	s.untilBusy("c")
	for _, answer := range []string{"interrupt again", "killing"} {
		if err := r.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		r.out.until(t, answer)
	}
	if code := s.exit(r); code != 130 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	// It does not wait for long until the engine has killed the actions, and says so.
	if names := s.names(); !slices.Contains(names, "action-failed action/a/set") && !strings.Contains(r.out.String(), "the process ends now, though an engine has not answered") {
		t.Errorf("the log tells %v\n%s", names, r.out)
	}
}
