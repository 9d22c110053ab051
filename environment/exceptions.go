package environment

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/phrase"
)

// A deployment may end although some hosts are not as they should be: its exceptions,
// which max_failed allows. They are tried again as before.

// tolerated is how many hosts may be exceptions: as many as max_failed says, and of a
// rollback at least those that were exceptions before.
func (s *State) tolerated() int {
	n := s.active.Tolerates
	if most := s.active.Configuration.MaxFailed; most != nil {
		n = max(n, most.Of(s.total.desired))
	}
	return n
}

// excused reports whether the hosts that are not settled are exceptions, and the others
// are as they should be: so the deployment ends. That is when each has had its chance; and
// at the progress deadline, when each was tried or cannot be seen.
func (s *State) excused(now time.Time) bool {
	if s.pause != nil || !s.waiting.IsZero() || !s.excusable() {
		return false
	}
	left := s.total.unsettled
	if s.total.exhausted == left {
		return true
	}
	deadline := s.deadline()
	return !deadline.IsZero() && !now.Before(deadline) && s.total.tried == left
}

// excusable reports whether no more hosts are not settled than may be exceptions.
func (s *State) excusable() bool {
	left := s.total.unsettled
	return s.active.Kind != record.ByDelete && left <= s.tolerated() && left < s.total.desired && s.total.runs > 0
}

// exceptions are the hosts that are not as they should be though the deployment has ended.
func (s *State) exceptions() (names []string) {
	for _, h := range s.hosts {
		if h.Status.Exception() && !h.Lost && !h.Absent {
			names = append(names, h.Name)
		}
	}
	slices.Sort(names)
	return names
}

// finishedWith is what is recorded with the end of a deployment.
func (s *State) finishedWith() record.Payload {
	const named = 5
	names := []string{}
	for _, h := range s.hosts {
		if !h.Lost && !h.Status.Settled {
			names = append(names, h.Name)
		}
	}
	if len(names) == 0 {
		return record.Payload{}
	}
	slices.Sort(names)
	return record.Payload{Exceptions: len(names), Reason: fmt.Sprintf("with %s: %s", phrase.Count(len(names), "exception"), phrase.First(names, named))}
}
