package cli_test

import (
	"testing"

	"github.com/deployster-go/deployster/runner/report"
)

// A plan whose apply was killed can be applied again: what was done stays, what
// was not is still as it was planned.
func TestASavedPlanIsAppliedAgainAfterAKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	s.deployster("plan", "m.yaml", "-o", "m.plan")
	s.hold("c")
	first := s.start("apply", "m.plan", "--confirm", "NO")
	s.untilBusy("c")
	s.until(2, named(report.ResourceFinished)) // a and b
	s.kill(first)
	s.release("c")

	s.deployster("apply", "m.plan", "--confirm", "NO")
	s.wantWhole()
}
