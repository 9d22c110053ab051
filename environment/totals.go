package environment

import (
	"time"

	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/record"
)

// totals counts the hosts by status.
type totals struct{ desired, available, serving, runs, double, unsettled, failed, inFlight, retrying, absent, exhausted, tried, exceptions, begun, waiting, begunOpen, begunFailed int }

// modify changes something of a host and re-evaluates it.
func (s *State) modify(h *host, now time.Time, change func()) {
	s.count(h, -1)
	change()
	s.refresh(h, now)
	s.count(h, 1)
}

// refreshAll re-evaluates all hosts.
func (s *State) refreshAll(now time.Time) {
	s.sets, s.overdue, s.adoptable, s.timers, s.total = [classCount]ordered.Set{}, nil, nil, s.timers[:0], totals{}
	clear(s.current)
	s.zones.Clear()
	for _, h := range s.hosts {
		s.refresh(h, now)
		s.count(h, 1)
	}
}

// refresh re-evaluates a host and sets its timer.
func (s *State) refresh(h *host, now time.Time) {
	var next time.Time
	h.status, next = s.evaluate(h, now)
	h.generation++
	if !next.IsZero() {
		s.timers.Push(timer{next, h.index, h.generation})
	}
}

// count adds a host to the totals and sets (by is 1), or removes it (by is -1).
func (s *State) count(h *host, by int) {
	if s.active == nil || h.lost {
		return
	}
	one := func(yes bool, n *int) {
		if yes {
			*n += by
		}
	}
	put := func(s *ordered.Set) {
		if by > 0 {
			s.Add(h.index)
		} else {
			s.Remove(h.index)
		}
	}
	one(h.desired, &s.total.desired)
	one(h.absent, &s.total.absent)
	one(h.status.available, &s.total.available)
	one(h.status.serving, &s.total.serving)
	one(h.status.runs, &s.total.runs)
	one(h.status.double, &s.total.double)
	one(!h.status.settled, &s.total.unsettled)
	one(h.status.failed, &s.total.failed)
	one(h.status.exhausted, &s.total.exhausted)
	one(h.status.tried, &s.total.tried)
	one(h.status.exception(), &s.total.exceptions)
	one(h.status.begun, &s.total.begun)
	one(h.desired && !h.status.begun && h.cordon == nil, &s.total.waiting)
	one(h.status.begun && !h.status.settled, &s.total.begunOpen)
	one(h.status.begun && !h.status.settled && h.status.failed, &s.total.begunFailed)
	one(h.status.inFlight, &s.total.inFlight)
	one(h.status.retrying, &s.total.retrying)
	s.countZone(h, by)
	if h.status.class != classNone {
		put(&s.sets[h.status.class])
	}
	if h.status.overdue {
		put(&s.overdue)
	}
	if h.status.adoptable {
		put(&s.adoptable)
	}
	for _, t := range h.tasks {
		if t.Available() || s.active.Kind == record.ByDelete || t.Of != s.active.Revision {
			s.current[t.Of] += by
		}
	}
}

// minimum is how many hosts must keep an available task.
func (s *State) minimum() int { return s.configuration().Minimum(s.total.desired) }

// disruptionsLeft is how many available tasks may be stopped.
func (s *State) disruptionsLeft() int { return s.total.available - s.minimum() }

// servingDisruptionsLeft is how many available tasks may be stopped on hosts that
// should have one: tasks on hosts that left do not make up for them.
func (s *State) servingDisruptionsLeft() int { return s.total.serving - s.minimum() }

// surgeLeft is how many more hosts may have two tasks.
func (s *State) surgeLeft() int {
	return s.configuration().MostDoubled(s.total.desired) - s.total.double
}

// halted reports whether too many hosts have failed to begin work on another.
func (s *State) halted() bool {
	return !s.finished && s.active.Configuration.MaxFailed != nil && s.total.failed > s.tolerated()
}
