package build

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// Comparable clears what two states may differ in that are folded from the same events: what
// is only remembered of what follows from these, and what has rested by now.
func (s *State) Comparable() *State {
	s.takeBack(0)
	s.tries, s.rests, s.last, s.named = nil, nil, nil, nil
	s.uses, s.events, s.text = block[Dependency]{}, block[deploylog.Event]{}, block[byte]{}
	for _, l := range s.took {
		l.index()
	}
	s.queued, s.active, s.reusable.all = slices.Concat(s.queued), slices.Concat(s.active), slices.Concat(s.reusable.all) // nil without any
	for _, g := range s.groups {
		for i := range g.jobs {
			j := &g.jobs[i]
			j.ident, j.epoch, j.resting = "", 0, false
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
	s.takeBack(0)
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
