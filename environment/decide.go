package environment

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Can is what the one who asks for a decision is able to do.
type Can struct {
	Work    func(host string) bool // begin something on a host; nil is always
	Disrupt bool                   // stop what is healthy: the health of all tasks is known
}

// Decide yields what may be done now. A Record comes alone: when its events are
// recorded, ask again. All work that is yielded may be begun together.
func (s *State) Decide(now time.Time, can Can) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		if s.active == nil {
			return
		}
		s.advance(now)
		if events := s.transitions(now, can); len(events) > 0 {
			yield(Step{Kind: Record, Deployment: s.active.ID, Target: s.target, Events: events})
			return
		}
		if s.hostsKnown {
			s.yieldWork(can, yield)
		}
	}
}

// Wake is when something may become possible by the passing of time alone; zero
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

// rings tells whether an alarm still is of interest.
func (s *State) timerValid(a timer) bool { return s.hosts[a.host].generation == a.generation }

// awake looks again at the hosts for which time has passed, or at all when the
// clock was set back: then what was to come would come too late.
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

// deadline is when the deployment in force is stuck unless there is progress,
// zero when that does not matter.
func (s *State) deadline() time.Time {
	if s.active == nil || s.finished || s.pause != nil || s.active.Status == DeploymentStuck {
		return time.Time{}
	}
	return s.lastProgress.Add(time.Duration(s.active.Configuration.ProgressDeadline))
}

// facts are what is to be recorded, because it is so.
func (s *State) transitions(now time.Time, can Can) []deploylog.Event {
	f := s.active
	if s.hostsKnown && s.total.unsettled == 0 {
		switch {
		case f.Kind == ByDelete:
			return []deploylog.Event{s.event(EventDeleted, payload{By: f.By, Reason: f.Reason})}
		case !s.finished && can.Disrupt: // else what is known to be healthy may not be
			return []deploylog.Event{s.event(EventFinished, payload{})}
		}
	}
	if s.pause != nil {
		return nil
	}
	if late := s.deadlineEvents(); len(late) > 0 {
		return late
	}
	if s.finished || f.Status == DeploymentStuck {
		return nil
	}
	reason := ""
	switch deadline := s.deadline(); {
	case s.halted():
		reason = fmt.Sprintf("%s failed, and max_failed is %s", count(s.total.failed, "host"), f.Configuration.MaxFailed)
	case !now.Before(deadline):
		reason = fmt.Sprintf("no progress for %s", f.Configuration.ProgressDeadline)
	default:
		return nil
	}
	return s.stuckEvents(reason, now)
}

// maxLate is how many tasks that are late are told of at once.
const maxDeadlineEvents = 500

func (s *State) deadlineEvents() (events []deploylog.Event) {
	for i := range s.overdue.all() {
		h := s.hosts[i]
		events = append(events, deploylog.Event{
			Deployment: s.active.ID, Target: TaskTarget(s.name, s.active.Revision, h.name), Revision: strconv.Itoa(s.active.Revision), Name: EventTaskDeadlinePassed, Attempt: 1,
			Data: payload{Error: fmt.Sprintf("not healthy within %s", s.active.Configuration.HealthyDeadline)}.data(),
		})
		if len(events) == maxDeadlineEvents {
			break
		}
	}
	return events
}

// stuck are the events of a deployment that does not go on, and of the rollback
// that comes of it.
func (s *State) stuckEvents(reason string, now time.Time) []deploylog.Event {
	f := s.active
	if troubles := s.failureCauses(); troubles != "" {
		reason += ": " + deploylog.Cause(troubles)
	}
	events := []deploylog.Event{s.event(EventStuck, payload{Error: reason})}
	if s.shouldRollBack() {
		c := f.Configuration // with which it could go on
		events = append(events, s.startEvents(deploymentRequest{
			kind: ByRollback, revision: s.lastFinished, automatic: true, by: "deployster",
			change: Change{Method: &c.Method, MinHealthyPercent: &c.MinHealthyPercent, MaxOver: &c.MaxOver},
			reason: fmt.Sprintf("revision %d is stuck, and auto_rollback is set", f.Revision),
		}, now)...)
	}
	return events
}

// givesUp tells whether a deployment that is stuck brings the one before back. It
// does not when nothing of it was tried, because nobody was at work.
func (s *State) shouldRollBack() bool {
	f := s.active
	return f.Configuration.AutoRollback && f.Kind == ByDeploy && s.lastFinished != 0 && s.lastFinished < f.Revision && s.started
}

// troubles tells what is wrong on the first hosts where something is.
func (s *State) failureCauses() string {
	const most = 3
	var all []string
	more := 0
	for _, h := range s.hosts {
		if h.lost || h.status.settled {
			continue
		}
		for _, t := range h.tasks {
			if t.failures == 0 && t.status != TaskLost || t.cause == "" {
				continue
			}
			if len(all) == most {
				more++
				break
			}
			all = append(all, h.name+": "+t.cause)
			break
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and %s more", count(more, "host")))
	}
	return strings.Join(all, "\n")
}

// work yields what may be done on hosts.
func (s *State) yieldWork(can Can, yield func(Step) bool) {
	begun := 0 // of the class before
	each := func(c class, room int) bool {
		begun = 0
		for i := range s.sets[c].all() {
			if room <= 0 {
				return true
			}
			h := s.hosts[i]
			if s.pause != nil && h.status.kind != Confirm || can.Work != nil && !can.Work(h.name) {
				continue
			}
			room--
			begun++
			if !yield(s.step(h)) {
				return false
			}
		}
		return true
	}
	if !each(classFree, len(s.hosts)) || s.halted() || s.pause != nil || !each(classFirst, len(s.hosts)) {
		return
	}
	if can.Disrupt {
		spare := s.disruptionsLeft()
		if !each(classReplace, s.servingDisruptionsLeft()) || !each(classDrain, spare-begun) {
			return
		}
	}
	each(classSurge, s.surgeLeft())
}

// step is what is to be done on a host.
func (s *State) step(h *host) Step {
	f, st := s.active, h.status
	step := Step{Kind: st.kind, Deployment: f.ID, Target: TaskTarget(s.name, st.task, h.name), Host: h.name, Revision: st.task}
	if st.kind == Confirm {
		t := h.find(st.task)
		step.Deployment, step.Attempt = t.deployment, t.attempt
		return step
	}
	event := EventTaskTerminating
	if st.kind == Start {
		event, step.Timeout = EventTaskStarted, time.Duration(f.Configuration.HealthyDeadline)
	}
	step.Attempt = h.attempts.next(f.ID, st.task, event)
	step.Events = []deploylog.Event{step.event(event, payload{})}
	return step
}

func (step Step) event(name string, p payload) deploylog.Event {
	return deploylog.Event{
		Deployment: step.Deployment, Target: step.Target, Revision: strconv.Itoa(step.Revision), Name: name, Attempt: step.Attempt, Data: p.data(),
	}
}

// event is one of the deployment in force.
func (s *State) event(name string, p payload) deploylog.Event {
	return deploylog.Event{
		Deployment: s.active.ID, Target: s.target, Revision: strconv.Itoa(s.active.Revision), Name: name, Attempt: s.attempts[name] + 1, Data: p.data(),
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
