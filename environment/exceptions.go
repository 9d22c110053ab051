package environment

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
)

// A deployment may end although some hosts are not as they should be: its exceptions,
// which max_failed allows. They are tried again as before.

// judge fills in whether a host has failed; next is the task of its next step.
func (s *State) judge(h *host, st *hostStatus, current, next *tasks.State) {
	f := s.active
	if h.cordon != nil {
		return
	}
	st.failed = current != nil && !current.Available() && (current.FailedIn == f.ID || h.deadlinePassed == f.ID) ||
		st.kind == tasks.Check || st.kind == tasks.Terminate && f.Kind != record.ByDelete && next.FailsAgain(f.ID, tasks.Terminate)
	st.exhausted = s.exhausted(h, *st, next)
	st.tried = !st.settled && (st.failed || st.exhausted || h.started)
}

// exhausted reports whether a host that is not settled has had its chance: it cannot be
// seen, its task failed again and again, or missed its deadline. task is that of the next
// step.
func (s *State) exhausted(h *host, st hostStatus, task *tasks.State) bool {
	switch {
	case st.settled || s.active.Kind == record.ByDelete:
		return false
	case st.kind == awaitProbe, st.kind == tasks.Check && h.check.Failures >= tasks.MaxRetries:
		return true
	case st.kind != tasks.Confirm && task.FailsAgain(s.active.ID, st.kind):
		return true
	default:
		return st.failed && h.deadlinePassed == s.active.ID
	}
}

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
		if h.status.exception() && !h.lost && !h.absent {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	return names
}

// exception reports whether a host keeps a deployment from being wholly successful.
func (st hostStatus) exception() bool { return st.failed || st.exhausted }

// finishedWith is what is recorded with the end of a deployment.
func (s *State) finishedWith() record.Payload {
	const named = 5
	names := []string{}
	for _, h := range s.hosts {
		if !h.lost && !h.status.settled {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		return record.Payload{}
	}
	slices.Sort(names)
	return record.Payload{Exceptions: len(names), Reason: fmt.Sprintf("with %s: %s", phrase.Count(len(names), "exception"), phrase.First(names, named))}
}
