package environment

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// host is a machine that has tasks, or should have one.
type host struct {
	name           string
	index          int
	desired        bool               // it should have a task of the active revision
	lost           bool               // it is no longer in the inventory
	absent         bool               // nor is this one, which the environment keeps while it holds
	spared         bool               // a rollback leaves its tasks alone until somebody confirms that it leaves
	baked          bool               // it failed in the bake of the active deployment
	started        bool               // the active deployment started a task of its revision on it
	replaced       bool               // it began to take away a task that may be of use
	deadlinePassed string             // deployment whose healthy deadline its task missed
	check          tasks.CheckFailure // of its new task; zero is none
	tasks          []*tasks.State
	attempts       tasks.AttemptCounts
	cordon         *report.Cordon // nil while it is not cordoned
	zone           string         // by the attribute that hosts are ordered by; "" is none
	resumed        time.Time      // when it was uncordoned
	generation     int            // incremented on every evaluation, so that stale timers are ignored
	status         hostStatus
}

func (h *host) find(revision int) *tasks.State {
	for _, t := range h.tasks {
		if t.Revision == revision {
			return t
		}
	}
	return nil
}

// add returns the task of a revision, and adds it if it is new.
func (h *host) add(revision int) *tasks.State {
	t := h.find(revision)
	if t == nil {
		t = &tasks.State{Revision: revision, Of: revision}
		i, _ := slices.BinarySearchFunc(h.tasks, revision, func(t *tasks.State, r int) int { return t.Revision - r })
		h.tasks = slices.Insert(h.tasks, i, t)
	}
	return t
}

func (h *host) remove(revision int) {
	h.tasks = slices.DeleteFunc(h.tasks, func(t *tasks.State) bool { return t.Revision == revision })
}

// availableTasks counts the tasks of the host that count as healthy.
func (h *host) availableTasks() (n int) {
	for _, t := range h.tasks {
		if t.Available() {
			n++
		}
	}
	return n
}

// class is the budget that the next step on a host draws on.
type class int

// The classes. A host that is settled or waits for time has classNone.
const (
	classNone    class = iota
	classFree          // costs no budget: stops no available task that counts
	classFirst         // begins work on another host: not while too many have failed
	classEvict         // stops the only available task of a host that is drained
	classReplace       // stops the only available task of a host that should have one
	classDrain         // stops the only available task of a host that should have none
	classSurge         // gives the host a second task
	classCount         // how many there are
)

// hostStatus is the result of the last evaluation of a host.
type hostStatus struct {
	class     class
	kind      tasks.Kind
	task      int  // revision
	available bool // it has an available task
	serving   bool // available, and it should have a task
	runs      bool // it has a healthy task of the active revision, and should have one
	double    bool
	settled   bool // it is in the desired state, or cordoned
	passed    bool // it is not in the desired state, and nothing is done about it, because it is cordoned
	failed    bool // it counts against max_failed
	exhausted bool // it is not settled, and has had its chance
	tried     bool // nor is it, and it was tried or cannot be seen
	begun     bool // it has the new task, or the deployment takes the old one away; see wave
	begins    bool // its next step does that
	inFlight  bool // the next step was begun and has no result
	retrying  bool // it waits for a retry that may well succeed
	overdue   bool // its healthy deadline has passed, which is not recorded
	adoptable bool // it has a healthy task of an earlier revision with the same task, which is not recorded
}

// evaluate computes the status of a host, and when time alone changes it; zero is
// never.
func (s *State) evaluate(h *host, now time.Time) (st hostStatus, next time.Time) {
	if h.lost || s.active == nil {
		return hostStatus{settled: true}, next
	}
	st.available, st.double = h.availableTasks() > 0, len(h.tasks) > 1
	st.serving = st.available && h.desired
	var current *tasks.State
	if h.desired {
		current = h.find(s.activeTask())
	}
	if current != nil && s.outdated(h, current) {
		current = nil
	}
	var task *tasks.State // which the next step is done with; nil for the Start of a new one
	st.runs = current != nil && current.Available()
	st.class, st.kind, task = s.nextAction(h, current)
	st.settled = st.kind == "" || st.kind == tasks.Start && task != nil && task.Available() // drift is repaired while the deployment proceeds
	if h.cordon != nil && s.active.Kind != record.ByDelete {
		st.passed, st.settled = !st.settled, true
		st.class, st.kind, task = s.cordonedAction(h, current)
	}
	st.task, st.adoptable = s.activeTask(), s.adopts(current)
	if h.absent || h.spared {
		s.countBegun(h, &st, current, task) // what was begun there counts for the step
		return st.untouched(h.spared), next
	}
	if task != nil {
		// The result of another step would never come, if a controller died.
		st.task, st.inFlight = task.Revision, task.InFlight() && (st.kind == tasks.Start) == (task.Status == report.TaskStarting)
		if notBefore := s.notBefore(st.kind, task); notBefore.After(now) && !task.Since.After(now) { // else the clock was set back
			st.class, next = classNone, notBefore
			st.retrying = st.kind == tasks.Confirm || task.Failures < tasks.MaxRetries
		}
	}
	next = st.awaitCheck(h.check, now, next)
	s.countBegun(h, &st, current, task)
	s.judge(h, &st, current, task)
	next = s.watchDeadline(h, &st, current, now, next)
	return st, next
}

// watchDeadline fills in whether a task has missed its healthy deadline, and returns when
// the host is to be evaluated again.
func (s *State) watchDeadline(h *host, st *hostStatus, current *tasks.State, now, next time.Time) time.Time {
	deadline := s.healthyDeadline(h, current)
	if deadline.IsZero() {
		return next
	}
	if st.overdue = !deadline.After(now); !st.overdue && (next.IsZero() || deadline.Before(next)) {
		next = deadline
	}
	return next
}

// untouched is the status of a host where nothing is done: nobody knows yet whether it is
// to leave. settled says that nothing is to be done before that is known.
func (st hostStatus) untouched(settled bool) hostStatus {
	st.class, st.begins, st.settled = classNone, false, st.settled || settled
	if st.kind = awaitProbe; st.settled {
		st.kind = ""
	}
	return st
}

// nextAction is the next step on a host and the task it is done with; current is
// the task of the active revision.
func (s *State) nextAction(h *host, current *tasks.State) (class, tasks.Kind, *tasks.State) {
	if old := s.outgoing(h, current); old != nil {
		return s.checkAgain(h, s.terminateClass(h, current, old), tasks.Terminate, old)
	}
	switch {
	case s.awaitsProbe(h, current):
		return classNone, awaitProbe, nil
	case !h.desired:
		return classNone, "", nil
	case current == nil && len(h.tasks) > 0:
		return classSurge, tasks.Start, nil
	case current == nil && h.started:
		return classFree, tasks.Start, nil
	case current == nil:
		return classFirst, tasks.Start, nil
	}
	return s.nextOfCurrent(current)
}

// terminateClass is the class of terminating an old task of a host.
func (s *State) terminateClass(h *host, current, old *tasks.State) class {
	switch {
	case s.active.Kind == record.ByDelete || old.Status == report.TaskTerminating || h.availableTasks() > 1:
		return classFree
	case old.Available() && h.desired:
		return classReplace
	case old.Available():
		return classDrain
	case h.desired && current == nil && !h.started:
		return classFirst
	}
	return classFree
}

// nextOfCurrent is the next step with the task of the active revision.
func (s *State) nextOfCurrent(current *tasks.State) (class, tasks.Kind, *tasks.State) {
	switch current.Status {
	case report.TaskTerminating:
		return classFree, tasks.Terminate, current
	case report.TaskLost:
		return classNone, awaitProbe, nil
	case report.TaskLaunched:
		return classFree, tasks.Confirm, current
	case report.TaskHealthy:
		return classNone, "", nil
	case report.TaskDrifted:
		if s.configuration().Drift == definition.ReportDrift {
			return classNone, "", nil
		}
		return classReplace, tasks.Start, current
	default:
		return classFree, tasks.Start, current
	}
}

// awaitProbe is the kind of a step that is not taken before a lost task is probed
// again. The task may be well, so it is neither stopped nor started.
const awaitProbe tasks.Kind = "await"

// outgoing is the task that leaves the host next: first those that are not
// available, then older ones.
func (s *State) outgoing(h *host, current *tasks.State) (first *tasks.State) {
	retained := s.retained(h, current)
	for _, t := range h.tasks {
		lost := t.Status == report.TaskLost && s.active.Kind != record.ByDelete
		if t != current && t != retained && !lost && (first == nil || !t.Available() && first.Available()) {
			first = t
		}
	}
	return first
}

// awaitsProbe reports whether a task that should leave the host is lost.
func (s *State) awaitsProbe(h *host, current *tasks.State) bool {
	retained := s.retained(h, current)
	return slices.ContainsFunc(h.tasks, func(t *tasks.State) bool { return t != current && t != retained && t.Status == report.TaskLost })
}

// retained is the task that Surge keeps until the new one is healthy: the one of
// the highest rank, of several the newest. A task of rank 0 is not kept.
func (s *State) retained(h *host, current *tasks.State) (last *tasks.State) {
	if !h.desired || s.configuration().Method != definition.Surge || current != nil && current.Available() {
		return nil
	}
	for _, t := range h.tasks {
		if t != current && t.Rank() > 0 && (last == nil || t.Rank() >= last.Rank()) {
			last = t
		}
	}
	return last
}

// notBefore is when the next step may be taken with a task.
func (s *State) notBefore(kind tasks.Kind, t *tasks.State) time.Time {
	switch {
	case kind == tasks.Confirm:
		return t.Since.Add(time.Duration(s.configuration().MinHealthyTime))
	case kind == tasks.Terminate && t.Status != report.TaskTerminating:
		return time.Time{}
	}
	return t.RetryAt
}

// healthyDeadline is by when a task must be healthy; zero when no deadline applies
// or its passing is recorded.
func (s *State) healthyDeadline(h *host, t *tasks.State) time.Time {
	f := s.active
	if t == nil || t.Available() || h.cordon != nil || s.finished || s.pause != nil || h.deadlinePassed == f.ID || t.FirstStarted.IsZero() || t.Deployment != f.ID {
		return time.Time{}
	}
	return latest(latest(t.FirstStarted, s.resumed), h.resumed).Add(time.Duration(f.Configuration.HealthyDeadline))
}
