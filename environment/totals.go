package environment

import (
	"time"

	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/ordered"
	"github.com/deployster-go/deployster/environment/record"
)

// totals counts the hosts by status.
type totals struct{ desired, available, serving, runs, double, unsettled, failed, inFlight, retrying, absent, exhausted, tried, exceptions, begun, waiting, begunOpen, begunFailed, repairing, repairsLater int }

// modify changes something of a host and re-evaluates it.
func (s *State) modify(h *hosts.Host, now time.Time, change func()) {
	s.count(h, -1)
	change()
	s.refresh(h, now)
	s.count(h, 1)
}

// refreshAll re-evaluates all hosts.
func (s *State) refreshAll(now time.Time) {
	s.sets, s.overdue, s.adoptable, s.repairs, s.timers, s.total = [hosts.Classes]ordered.Set{}, nil, nil, nil, s.timers[:0], totals{}
	clear(s.current)
	s.zones.Clear()
	for _, h := range s.hosts {
		s.refresh(h, now)
		s.count(h, 1)
	}
}

// wanted is what the active deployment wants of hosts.
func (s *State) wanted() *hosts.Wanted {
	if s.active == nil {
		return &hosts.Wanted{}
	}
	return &hosts.Wanted{
		Deployment: s.active, Task: s.activeTask(), Configuration: s.configuration(),
		Finished: s.finished, Paused: s.pause != nil, Resumed: s.resumed, Unwatched: s.unwatched, Steps: s.waves(), Only: s.only,
	}
}

// refresh re-evaluates a host and sets its timer.
func (s *State) refresh(h *hosts.Host, now time.Time) {
	var next time.Time
	h.Status, next = s.wanted().Evaluate(h, now)
	h.Generation++
	if !next.IsZero() {
		s.timers.Push(timer{next, h.Index, h.Generation})
	}
}

// count adds a host to the totals and sets (by is 1), or removes it (by is -1).
func (s *State) count(h *hosts.Host, by int) {
	if s.active == nil || h.Lost {
		return
	}
	one := func(yes bool, n *int) {
		if yes {
			*n += by
		}
	}
	put := func(s *ordered.Set) {
		if by > 0 {
			s.Add(h.Index)
		} else {
			s.Remove(h.Index)
		}
	}
	one(h.Desired, &s.total.desired)
	one(h.Absent, &s.total.absent)
	one(h.Status.Available, &s.total.available)
	one(h.Status.Serving, &s.total.serving)
	one(h.Status.Runs, &s.total.runs)
	one(h.Status.Double, &s.total.double)
	one(!h.Status.Settled, &s.total.unsettled)
	one(h.Status.Failed, &s.total.failed)
	one(h.Status.Exhausted, &s.total.exhausted)
	one(h.Status.Tried, &s.total.tried)
	one(h.Status.Exception(), &s.total.exceptions)
	one(h.Status.Begun, &s.total.begun)
	one(h.Desired && !h.Status.Begun && h.Cordon == nil, &s.total.waiting)
	one(h.Status.Begun && !h.Status.Settled, &s.total.begunOpen)
	one(h.Status.Begun && !h.Status.Settled && h.Status.Failed, &s.total.begunFailed)
	one(h.Status.InFlight, &s.total.inFlight)
	one(h.Status.Retrying, &s.total.retrying)
	s.countZone(h, by)
	if h.Status.Class != hosts.None {
		put(&s.sets[h.Status.Class])
	}
	if h.Status.Overdue {
		put(&s.overdue)
	}
	if h.Status.Adoptable {
		put(&s.adoptable)
	}
	one(h.Status.Repairing, &s.total.repairing)
	one(h.Status.RepairLater, &s.total.repairsLater)
	if h.Status.RepairDue {
		put(&s.repairs)
	}
	for _, t := range h.Tasks {
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
	return s.active != nil && !s.finished && s.active.Configuration.MaxFailed != nil && s.total.failed > s.tolerated()
}
