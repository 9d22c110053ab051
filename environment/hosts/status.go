package hosts

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// Class is the budget that the next step on a host draws on.
type Class int

// The classes. A host that is settled or waits for time has None.
const (
	None    Class = iota
	Free          // costs no budget: stops no available task that counts
	First         // begins work on another host: not while too many have failed
	Evict         // stops the only available task of a host that is drained
	Replace       // stops the only available task of a host that should have one
	Drain         // stops the only available task of a host that should have none
	Surge         // gives the host a second task
	Classes       // how many there are
)

// Status is the result of the last evaluation of a host.
type Status struct {
	Class     Class      `json:",omitzero"`
	Kind      tasks.Kind `json:",omitzero"`
	Task      int        `json:",omitzero"` // revision
	Available bool       `json:",omitzero"` // it has an available task
	Serving   bool       `json:",omitzero"` // available, and it should have a task
	Runs      bool       `json:",omitzero"` // it has a healthy task of the active revision, and should have one
	Double    bool       `json:",omitzero"`
	Settled   bool       `json:",omitzero"` // it is in the desired state, or cordoned
	Passed    bool       `json:",omitzero"` // it is not in the desired state, and nothing is done about it, because it is cordoned
	Failed    bool       `json:",omitzero"` // it counts against max_failed
	Exhausted bool       `json:",omitzero"` // it is not settled, and has had its chance
	Tried     bool       `json:",omitzero"` // nor is it, and it was tried or cannot be seen
	Begun     bool       `json:",omitzero"` // it has the new task, or the deployment takes the old one away; see Wanted.countBegun
	Begins    bool       `json:",omitzero"` // its next step does that
	InFlight  bool       `json:",omitzero"` // the next step was begun and has no result
	Retrying  bool       `json:",omitzero"` // it waits for a retry that may well succeed
	Overdue   bool       `json:",omitzero"` // its healthy deadline has passed, which is not recorded
	Adoptable bool       `json:",omitzero"` // it has a healthy task of an earlier revision with the same task, which is not recorded

	Repair      int        `json:",omitzero"` // revision of its only task, which is down or not confirmed, while the host is not begun; 0 is none
	RepairKind  tasks.Kind `json:",omitzero"` // what is to be done with that where the host has to wait: start it again, or confirm it
	RepairDue   bool       `json:",omitzero"` // that may be done now
	Repairing   bool       `json:",omitzero"` // that was begun, and has no result
	RepairLater bool       `json:",omitzero"` // it waits for a time, and may well succeed then
}

// Exception reports whether a host keeps a deployment from being wholly successful.
func (st Status) Exception() bool { return st.Failed || st.Exhausted }

// Wanted is what the active deployment wants of all hosts.
type Wanted struct {
	Deployment    *report.Deployment        // nil where there is none
	Task          int                       // the revision with which its task came
	Configuration *definition.Configuration // by which hosts are worked on now
	Finished      bool
	Paused        bool
	Resumed       time.Time       // when a pause of it ended
	Unwatched     unwatched.Spans // in which no deadline passes
	Steps         bool            // a step of it bounds how many hosts are begun
	Only          map[string]bool // hosts that it restarts; none is all
}

// Evaluate computes the status of a host, and when time alone changes it; zero is
// never.
func (w *Wanted) Evaluate(h *Host, now time.Time) (st Status, next time.Time) {
	if h.Lost || w.Deployment == nil {
		return Status{Settled: true}, next
	}
	st.Available, st.Double = h.AvailableTasks() > 0, len(h.Tasks) > 1
	st.Serving = st.Available && h.Desired
	var current *tasks.State
	if h.Desired {
		current = h.Find(w.Task)
	}
	if current != nil && w.outdated(h, current) {
		current = nil
	}
	var task *tasks.State // which the next step is done with; nil for the Start of a new one
	st.Runs = current != nil && current.Available()
	st.Class, st.Kind, task = w.nextAction(h, current)
	st.Settled = st.Kind == "" || st.Kind == tasks.Start && task != nil && task.Available() // drift is repaired while the deployment proceeds
	if h.Cordon != nil && w.Deployment.Kind != record.ByDelete {
		st.Passed, st.Settled = !st.Settled, true
		st.Class, st.Kind, task = w.cordonedAction(h, current)
	}
	st.Task, st.Adoptable = w.Task, w.adopts(current)
	if h.Absent || h.Spared {
		w.countBegun(h, &st, current, task) // what was begun there counts for the step
		return st.untouched(h.Spared), next
	}
	if task != nil {
		// The result of another step would never come, if a controller died.
		st.Task, st.InFlight = task.Revision, task.InFlight() && (st.Kind == tasks.Start) == (task.Status == report.TaskStarting)
		if notBefore := w.notBefore(st.Kind, task); notBefore.After(now) && !task.Since.After(now) { // else the clock was set back
			st.Class, next = None, notBefore
			st.Retrying = st.Kind == tasks.Confirm || task.Failures < tasks.MaxRetries
		}
	}
	next = st.awaitCheck(h.Check, now, next)
	w.countBegun(h, &st, current, task)
	w.judge(h, &st, current, task)
	next = w.watchDeadline(h, &st, current, now, next)
	return st, w.watchRepair(h, &st, now, next)
}

// watchDeadline fills in whether a task has missed its healthy deadline, and returns when
// the host is to be evaluated again.
func (w *Wanted) watchDeadline(h *Host, st *Status, current *tasks.State, now, next time.Time) time.Time {
	deadline := w.healthyDeadline(h, current)
	if deadline.IsZero() {
		return next
	}
	if st.Overdue = !deadline.After(now); !st.Overdue && (next.IsZero() || deadline.Before(next)) {
		next = deadline
	}
	return next
}

// watchRepair fills in whether a host that is not begun has only a task which is down, or is
// started and not confirmed, and returns when the host is to be evaluated again.
func (w *Wanted) watchRepair(h *Host, st *Status, now, next time.Time) time.Time {
	if !st.Begins || len(h.Tasks) != 1 {
		return next
	}
	t := h.Tasks[0]
	switch t.Status {
	case report.TaskLaunched:
		st.RepairKind = tasks.Confirm
	case report.TaskDied, report.TaskFailed, report.TaskStarting:
		st.RepairKind = tasks.Start
	default:
		return next
	}
	st.Repair, st.Repairing = t.Revision, t.InFlight()
	notBefore := w.notBefore(st.RepairKind, t)
	if st.RepairDue = !notBefore.After(now) || t.Since.After(now); st.RepairDue { // or the clock was set back
		return next
	}
	if st.RepairLater = st.RepairKind == tasks.Confirm || t.Failures < tasks.MaxRetries; next.IsZero() || notBefore.Before(next) {
		next = notBefore
	}
	return next
}

// untouched is the status of a host where nothing is done: nobody knows yet whether it is
// to leave. settled says that nothing is to be done before that is known.
func (st Status) untouched(settled bool) Status {
	st.Class, st.Begins, st.Settled = None, false, st.Settled || settled
	if st.Kind = AwaitProbe; st.Settled {
		st.Kind = ""
	}
	return st
}

// awaitCheck fills in when the check of a host's new task is repeated, and returns when the
// host is to be evaluated again.
func (st *Status) awaitCheck(c tasks.CheckFailure, now, next time.Time) time.Time {
	if st.Kind != tasks.Check || !c.RetryAt.After(now) || c.Since.After(now) { // else the clock was set back
		return next
	}
	st.Class, st.Retrying = None, c.Failures < tasks.MaxRetries
	return c.RetryAt
}

// countBegun fills in whether a host is begun, or its next step begins it. One where the new
// task has failed in this deployment is begun, whoever started it there: it counts as failed,
// so it must be tried again.
func (w *Wanted) countBegun(h *Host, st *Status, current, next *tasks.State) {
	st.Begun = h.Desired && (h.Started || h.Replaced && !st.Available || current != nil && (current.Available() || current.FailedIn == w.Deployment.ID))
	st.Begins = h.Desired && !st.Begun && h.Cordon == nil && (st.Kind == tasks.Start || st.Kind == tasks.Terminate && h.Replaces(next))
	if st.Begins && w.Steps {
		st.InFlight = false // it may have to wait for its step before it is done again
	}
}

// judge fills in whether a host has failed; next is the task of its next step.
func (w *Wanted) judge(h *Host, st *Status, current, next *tasks.State) {
	f := w.Deployment
	if h.Cordon != nil {
		return
	}
	st.Failed = current != nil && !current.Available() && (current.FailedIn == f.ID || h.DeadlinePassed == f.ID) ||
		st.Kind == tasks.Check || st.Kind == tasks.Terminate && f.Kind != record.ByDelete && next.FailsAgain(f.ID, tasks.Terminate)
	st.Exhausted = w.exhausted(h, *st, next)
	st.Tried = !st.Settled && (st.Failed || st.Exhausted || h.Started)
}

// exhausted reports whether a host that is not settled has had its chance: it cannot be
// seen, its task failed again and again, or missed its deadline. task is that of the next
// step.
func (w *Wanted) exhausted(h *Host, st Status, task *tasks.State) bool {
	switch {
	case st.Settled || w.Deployment.Kind == record.ByDelete:
		return false
	case st.Kind == AwaitProbe, st.Kind == tasks.Check && h.Check.Failures >= tasks.MaxRetries:
		return true
	case st.Kind != tasks.Confirm && task.FailsAgain(w.Deployment.ID, st.Kind):
		return true
	default:
		return st.Failed && h.DeadlinePassed == w.Deployment.ID
	}
}

// healthyDeadline is by when a task must be healthy; zero when no deadline applies
// or its passing is recorded.
func (w *Wanted) healthyDeadline(h *Host, t *tasks.State) time.Time {
	f := w.Deployment
	if t == nil || t.Available() || h.Cordon != nil || w.Finished || w.Paused || h.DeadlinePassed == f.ID || t.FirstStarted.IsZero() || t.Deployment != f.ID {
		return time.Time{}
	}
	return w.Unwatched.After(slices.MaxFunc([]time.Time{t.FirstStarted, w.Resumed, h.Resumed}, time.Time.Compare), time.Duration(f.Configuration.HealthyDeadline))
}
