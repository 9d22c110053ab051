package build

import (
	"slices"

	"github.com/deployster-go/deployster/build/block"
	"github.com/deployster-go/deployster/build/reusable"
	"github.com/deployster-go/deployster/deploylog"
)

// Comparable clears what two states may differ in that are folded from the same events: what is only remembered of what
// follows from these, and what has rested by now. By the latter they are compared in what they decide.
func (s *State) Comparable() *State {
	s.takeBack()
	s.tries, s.backoffs, s.last, s.named = tries{}, nil, nil, nil
	s.uses, s.events, s.text = block.Of[Dependency]{}, block.Of[deploylog.Event]{}, block.Of[byte]{}
	s.texts = block.Texts{}
	if s.reusable.Len() == 0 {
		s.reusable = reusable.Table{} // without room
	}
	for _, l := range s.took {
		l.index()
	}
	s.queued, s.active = slices.Concat(s.queued), slices.Concat(s.active) // nil without any
	for _, g := range s.groups {
		g.idents = nil
		for i := range g.jobs {
			j := &g.jobs[i]
			j.backingOff = false
			if len(g.queues) > 0 && g.counts[0] == 0 {
				g.enqueueIfEligible(j)
			}
		}
	}
	return s
}

func (g *group) enqueueIfEligible(j *job) {
	if j.state == 3 { // Eligible
		g.enqueue(j)
	}
}

// Sums reports whether each job is counted once, and nothing is left to try.
func (s *State) Sums() bool {
	s.takeBack()
	for _, g := range s.groups {
		total := 0
		for _, n := range g.counts {
			if n < 0 {
				return false
			}
			total += n
		}
		if total != len(g.jobs) {
			return false
		}
	}
	return true
}
