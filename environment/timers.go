package environment

import (
	"time"

	"github.com/deployster-go/deployster/environment/report"
)

// timer is when a host is to be re-evaluated. One whose host was evaluated since
// it was set is ignored.
type timer struct {
	at         time.Time
	host       int
	generation int // of the host when the timer was set
}

// Before reports whether a timer is due before another.
func (a timer) Before(other timer) bool { return a.at.Before(other.at) }

// nextTimer is the first valid timer.
func (s *State) nextTimer() (timer, bool) {
	for len(s.timers) > 0 {
		if first := s.timers[0]; s.timerValid(first) {
			return first, true
		}
		s.timers.Pop()
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
	if v := s.wave.verify; s.awaitsVerification() && !v.open && v.retryAt.After(s.clock) && !s.unverified() {
		wake = v.retryAt
	}
	if !wake.IsZero() && s.waves() && s.wave.seq > 0 && s.stepDone() {
		if end, _ := s.pauseEnd(); end.After(s.clock) {
			wake = end
		}
	}
	if first, ok := s.nextTimer(); ok && (wake.IsZero() || first.at.Before(wake)) {
		wake = first.at
	}
	return wake
}

// timerValid reports whether the host of a timer was not evaluated since it was set.
func (s *State) timerValid(a timer) bool { return s.hosts[a.host].Generation == a.generation }

// advance re-evaluates the hosts whose timers are due, or all hosts when the clock
// was set back: then their timers would fire too late.
func (s *State) advance(now time.Time) {
	if s.clock.Sub(now) > time.Second {
		s.clock = now
		if s.lastProgress.After(now) {
			s.lastProgress = now
		}
		if s.wave.reached.After(now) {
			s.wave.reached = now
		}
		s.unwatched = s.unwatched.Before(now)
		s.refreshAll(now)
	}
	s.clock = latest(s.clock, now)
	for {
		first, ok := s.nextTimer()
		if !ok || first.at.After(now) {
			return
		}
		s.modify(s.hosts[first.host], now, func() {})
	}
}

// deadline is when the active deployment is stuck unless there is progress; zero
// when no deadline applies.
func (s *State) deadline() time.Time {
	if s.active == nil || s.finished || s.pause != nil || s.active.Status == report.DeploymentStuck || !s.waiting.IsZero() || s.AwaitsHosts() {
		return time.Time{}
	}
	if s.awaitsVerification() { // which takes its time, and fails in the end
		return time.Time{}
	}
	if s.waves() && s.wave.seq > 0 {
		end, ok := s.pauseEnd()
		if !ok {
			return time.Time{}
		}
		return s.unwatched.After(latest(s.lastProgress, end), time.Duration(s.active.Configuration.ProgressDeadline))
	}
	return s.unwatched.After(s.lastProgress, time.Duration(s.active.Configuration.ProgressDeadline))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
