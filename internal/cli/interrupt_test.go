package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
	if !slices.Contains(names, "action-finished-successfully action/a/set") || !slices.Contains(names, "resource-skipped resource/b") {
		t.Errorf("the log tells %v", names)
	}
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
