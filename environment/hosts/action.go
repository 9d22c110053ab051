package hosts

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// nextAction is the next step on a host and the task it is done with; current is
// the task of the active revision.
func (w *Wanted) nextAction(h *Host, current *tasks.State) (Class, tasks.Kind, *tasks.State) {
	if old := w.outgoing(h, current); old != nil {
		return w.checkAgain(h, w.terminateClass(h, current, old), tasks.Terminate, old)
	}
	switch {
	case w.awaitsProbe(h, current):
		return None, AwaitProbe, nil
	case !h.Desired:
		return None, "", nil
	case current == nil && len(h.Tasks) > 0:
		return Surge, tasks.Start, nil
	case current == nil && h.Started:
		return Free, tasks.Start, nil
	case current == nil:
		return First, tasks.Start, nil
	}
	return w.nextOfCurrent(current)
}

// terminateClass is the class of terminating an old task of a host.
func (w *Wanted) terminateClass(h *Host, current, old *tasks.State) Class {
	switch {
	case w.Deployment.Kind == record.ByDelete || old.Status == report.TaskTerminating || h.AvailableTasks() > 1:
		return Free
	case old.Available() && h.Desired:
		return Replace
	case old.Available():
		return Drain
	case h.Desired && current == nil && !h.Started:
		return First
	}
	return Free
}

// nextOfCurrent is the next step with the task of the active revision.
func (w *Wanted) nextOfCurrent(current *tasks.State) (Class, tasks.Kind, *tasks.State) {
	switch current.Status {
	case report.TaskTerminating:
		return Free, tasks.Terminate, current
	case report.TaskLost:
		return None, AwaitProbe, nil
	case report.TaskLaunched:
		return Free, tasks.Confirm, current
	case report.TaskHealthy:
		return None, "", nil
	case report.TaskDrifted:
		if w.Configuration.Drift == definition.ReportDrift {
			return None, "", nil
		}
		return Replace, tasks.Start, current
	default:
		return Free, tasks.Start, current
	}
}

// AwaitProbe is the kind of a step that is not taken before a lost task is probed
// again. The task may be well, so it is neither stopped nor started.
const AwaitProbe tasks.Kind = "await"

// outgoing is the task that leaves the host next: first those that are not
// available, then older ones.
func (w *Wanted) outgoing(h *Host, current *tasks.State) (first *tasks.State) {
	retained := w.retained(h, current)
	for _, t := range h.Tasks {
		lost := t.Status == report.TaskLost && w.Deployment.Kind != record.ByDelete
		if t != current && t != retained && !lost && (first == nil || !t.Available() && first.Available()) {
			first = t
		}
	}
	return first
}

// awaitsProbe reports whether a task that should leave the host is lost.
func (w *Wanted) awaitsProbe(h *Host, current *tasks.State) bool {
	retained := w.retained(h, current)
	return slices.ContainsFunc(h.Tasks, func(t *tasks.State) bool { return t != current && t != retained && t.Status == report.TaskLost })
}

// retained is the task that Surge keeps until the new one is healthy: the one of
// the highest rank, of several the newest. A task of rank 0 is not kept.
func (w *Wanted) retained(h *Host, current *tasks.State) (last *tasks.State) {
	if !h.Desired || w.Configuration.Method != definition.Surge || current != nil && current.Available() {
		return nil
	}
	for _, t := range h.Tasks {
		if t != current && t.Rank() > 0 && (last == nil || t.Rank() >= last.Rank()) {
			last = t
		}
	}
	return last
}

// notBefore is when the next step may be taken with a task.
func (w *Wanted) notBefore(kind tasks.Kind, t *tasks.State) time.Time {
	switch {
	case kind == tasks.Confirm:
		return t.Since.Add(time.Duration(w.Configuration.MinHealthyTime))
	case kind == tasks.Terminate && t.Status != report.TaskTerminating:
		return time.Time{}
	}
	return t.RetryAt
}

// checks reports whether a step of a class is to be checked before.
func checks(c Class, k tasks.Kind) bool { return c == Replace && k == tasks.Terminate }

// Checks reports whether the next step of the host is to be preceded by a check of the new
// task there.
func (st Status) Checks() bool { return checks(st.Class, st.Kind) }

// checkAgain is the step of a host whose new task failed its check: that comes before
// anything else there, as often as the start of a failed task.
func (w *Wanted) checkAgain(h *Host, c Class, k tasks.Kind, t *tasks.State) (Class, tasks.Kind, *tasks.State) {
	if checks(c, k) && h.Check.Deployment == w.Deployment.ID {
		return Free, tasks.Check, nil
	}
	return c, k, t
}

// cordonedAction is the next step on a cordoned host: none but to see whether a new task
// stays healthy, and to terminate the tasks of one that is drained.
func (w *Wanted) cordonedAction(h *Host, current *tasks.State) (Class, tasks.Kind, *tasks.State) {
	if !h.Cordon.Drain {
		if current != nil && current.Status == report.TaskLaunched {
			return Free, tasks.Confirm, current
		}
		return None, "", nil
	}
	var first *tasks.State
	lost := false
	for _, t := range h.Tasks {
		if t.Status == report.TaskLost {
			lost = true
		} else if first == nil || !t.Available() && first.Available() {
			first = t
		}
	}
	switch {
	case first == nil && lost:
		return None, AwaitProbe, nil
	case first == nil:
		return None, "", nil
	case !first.Available() || h.AvailableTasks() > 1:
		return Free, tasks.Terminate, first
	case h.Desired:
		return Evict, tasks.Terminate, first
	default:
		return Drain, tasks.Terminate, first
	}
}

// outdated reports whether a task is that of the active revision, and is to be started anew
// because it was started before the restart of all.
func (w *Wanted) outdated(h *Host, t *tasks.State) bool {
	f := w.Deployment
	return f.Kind == record.ByRestart && !w.Finished && t.Made < f.Seq && (len(w.Only) == 0 || w.Only[h.Name])
}

// adopts reports whether a task, which is what the active deployment wants, is healthy and
// that of another revision until now.
func (w *Wanted) adopts(current *tasks.State) bool {
	return current != nil && current.Available() && current.Of != w.Deployment.Revision
}
