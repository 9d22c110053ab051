package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Stops are the failures that keep later revisions out of stages, whether or not there is
// one that waits for that.
func (s *State) Stops() []reason.Reason {
	l := s.currentLayout()
	if l == nil {
		return nil
	}
	return s.outcomes.Stops(l)
}

// passedOver is why a deployment is skipped that a fix has overtaken. What it is at work in
// ends first, for that would stay half done.
func (s *State) passedOver(d *deployment.Deployment) (cause string) {
	why, is := s.outcomes.FixAhead(s.layout, d)
	if !is || d.WorksIn(s.layout) != deployment.None {
		return ""
	}
	return fmt.Sprintf("revision %s, a fix, went by it into stage %s (event %d)", why.Holder, why.Name, why.Seq)
}
