package environment

import (
	"cmp"
	"iter"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Can is what the caller of Decide is able to do.
type Can struct {
	Work    func(host string) bool // begin work on a host; nil is always
	Verify  func() bool            // begin to verify a step; nil is always
	Disrupt bool                   // stop healthy tasks, and judge that time has passed: the health of all tasks is known
	Checked func(host string) bool // the new task of the active deployment could be started on a host; nil is always

	// Unwatched is when the time began in which nobody watched, before the caller did; zero is none.
	// It is recorded before any deadline is found to have passed.
	Unwatched time.Time

	// Back are those of the environment's hosts with which an automatic rollback to a revision
	// may begin; these are none where the inventory has to say which there are. It fails where
	// the rollback is to be refused. Nil is always all.
	Back func(revision int, hosts []string) ([]string, error)
}

// Decide yields what may be done now. A Record comes alone: once its events are
// recorded, decide again. All work that is yielded may begin together.
func (s *State) Decide(now time.Time, can Can) iter.Seq[tasks.Step] {
	return func(yield func(tasks.Step) bool) {
		if s.active == nil {
			return
		}
		s.advance(now)
		if events := s.transitions(now, can); len(events) > 0 {
			yield(tasks.Step{Kind: tasks.Record, Deployment: s.active.ID, Target: s.target, Events: events})
			return
		}
		if !s.hostsKnown {
			return
		}
		if step, ok := s.verifyStep(now, can); ok && !yield(step) {
			return
		}
		s.yieldWork(can, yield)
	}
}

// yieldWork yields the work that may begin on hosts.
func (s *State) yieldWork(can Can, yield func(tasks.Step) bool) {
	turn, disrupted := s.turn(), 0 // which leaves as many disruptions fewer
	if !s.yieldRepairs(turn, can, yield) {
		return
	}
	for c := hosts.Free; c < hosts.Classes; c++ {
		disrupts := c == hosts.Evict || c == hosts.Replace || c == hosts.Drain
		if s.held(c) != "" || !can.Disrupt && disrupts {
			continue
		}
		room := s.room(c)
		if disrupts {
			room -= disrupted
		}
		for i := range s.sets[c].All() {
			if room <= 0 {
				break
			}
			h := s.hosts[i]
			if s.pausedFor(h.Status.Kind) || turn.keeps(h) != "" || can.Work != nil && !can.Work(h.Name) {
				continue
			}
			room--
			turn.took(h)
			if disrupts {
				disrupted++
			}
			step := s.step(h)
			if s.toCheck(h, can) {
				step = s.checkStep(h)
			}
			if !yield(step) {
				return
			}
		}
	}
}

// verdict is whether the next step on a host is Ready, or why it is not, and the
// task that is responsible.
func (s *State) verdict(h *hosts.Host, now time.Time) (reason.Code, *tasks.State) {
	st := h.Status
	if h.Lost {
		return reason.HostLost, h.Tasks[0]
	}
	t := h.Find(st.Task)
	if h.Absent {
		return reason.HostLost, t
	}
	turn := s.turn()
	switch {
	case st.Passed && st.Kind == "":
		return reason.Cordoned, t
	case st.Kind == hosts.AwaitProbe:
		for _, lost := range h.Tasks {
			if lost.Status == report.TaskLost {
				return reason.AwaitsProbe, lost
			}
		}
		return reason.AwaitsProbe, t
	case t != nil && t.InFlight() && st.Class != hosts.None:
		return reason.InProgress, t
	case s.pausedFor(turn.next(h)):
		return reason.TaskPaused, t
	case t != nil && st.Class == hosts.None && !t.RetryAfter(now).IsZero():
		return reason.AwaitsRetry, t
	case st.Kind == tasks.Confirm:
		return reason.AwaitsHealth, t
	case st.Kind == tasks.Check && st.Class == hosts.None:
		return reason.AwaitsRetry, nil
	}
	if turn.repairs(h) {
		return repairVerdict(h), t
	}
	if code := cmp.Or(s.held(st.Class), turn.keeps(h)); code != "" {
		return code, t
	}
	return reason.Ready, t
}

// held is why no host of a class may begin work, "" when some may.
func (s *State) held(c hosts.Class) reason.Code {
	switch {
	case c == hosts.Free || c == hosts.None: // costs no budget
		return ""
	case s.pause != nil:
		return reason.TaskPaused
	case s.halted() && c != hosts.Evict:
		return reason.TooManyFailed
	case s.room(c) > 0:
		return ""
	case c == hosts.Surge:
		return reason.MaxOver
	default:
		return reason.MinHealthy
	}
}

// room is how many hosts of a class may begin work.
func (s *State) room(c hosts.Class) int {
	switch c {
	case hosts.Replace, hosts.Evict:
		return s.servingDisruptionsLeft()
	case hosts.Drain:
		return s.disruptionsLeft()
	case hosts.Surge:
		return s.surgeLeft()
	default:
		return len(s.hosts)
	}
}

// pausedFor reports whether a pause keeps back a step: all but those that only
// observe.
func (s *State) pausedFor(k tasks.Kind) bool { return s.pause != nil && k != tasks.Confirm }

// step is the next step of a host.
func (s *State) step(h *hosts.Host) tasks.Step {
	f, st := s.active, h.Status
	if st.Kind == tasks.Check {
		return s.checkStep(h)
	}
	step := tasks.Step{Kind: st.Kind, Deployment: f.ID, Target: record.TaskTarget(s.name, st.Task, h.Name), Host: h.Name, Revision: st.Task}
	if st.Kind == tasks.Confirm {
		t := h.Find(st.Task)
		step.Deployment, step.Attempt = t.Deployment, t.Attempt
		return step
	}
	event := record.TaskTerminating
	if st.Kind == tasks.Start {
		event, step.Timeout = record.TaskStarted, time.Duration(s.configuration().HealthyDeadline)
	}
	step.Attempt = h.Attempts.Next(f.ID, st.Task, event)
	step.Events = []deploylog.Event{step.Event(event, record.Payload{})}
	return step
}
