package environment

import (
	"container/heap"
	"time"
)

// timerQueue orders by time the hosts to re-evaluate. A timer whose host was
// evaluated since it was set is ignored.
type timerQueue []timer

type timer struct {
	at         time.Time
	host       int
	generation int // of the host when the timer was set
}

func (a timerQueue) Len() int { return len(a) }

func (a timerQueue) Less(i, j int) bool { return a[i].at.Before(a[j].at) }

func (a timerQueue) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push and Pop are for package heap.
func (a *timerQueue) Push(x any) { *a = append(*a, x.(timer)) }

// Pop removes the last.
func (a *timerQueue) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// next is the first valid timer.
func (a *timerQueue) next(of func(timer) bool) (timer, bool) {
	for len(*a) > 0 {
		if first := (*a)[0]; of(first) {
			return first, true
		}
		heap.Pop(a)
	}
	return timer{}, false
}

// Wake is when something may become possible by the passing of time alone. Zero
// is never.
func (s *State) Wake() time.Time {
	if s.active == nil {
		return time.Time{}
	}
	wake := s.deadline()
	if first, ok := s.timers.next(s.timerValid); ok && (wake.IsZero() || first.at.Before(wake)) {
		wake = first.at
	}
	return wake
}

// timerValid reports whether the host of a timer was not evaluated since it was set.
func (s *State) timerValid(a timer) bool { return s.hosts[a.host].generation == a.generation }

// advance re-evaluates the hosts whose timers are due, or all hosts when the clock
// was set back: then their timers would fire too late.
func (s *State) advance(now time.Time) {
	if s.clock.Sub(now) > time.Second {
		s.clock = now
		if s.lastProgress.After(now) {
			s.lastProgress = now
		}
		s.refreshAll(now)
	}
	s.clock = latest(s.clock, now)
	for {
		first, ok := s.timers.next(s.timerValid)
		if !ok || first.at.After(now) {
			return
		}
		s.modify(s.hosts[first.host], now, func() {})
	}
}

// deadline is when the active deployment is stuck unless there is progress; zero
// when no deadline applies.
func (s *State) deadline() time.Time {
	if s.active == nil || s.finished || s.pause != nil || s.active.Status == DeploymentStuck {
		return time.Time{}
	}
	return s.lastProgress.Add(time.Duration(s.active.Configuration.ProgressDeadline))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
