package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// failedCheck is that the new task of a host could not be started.
type failedCheck struct {
	by       string // deployment
	failures int    // in a row
	rests    time.Time
}

// first has what failed its check checked again before anything is stopped.
func (n *naive) checkedFirst(h *naiveHost, do todo) todo {
	if do.kind == tasks.Terminate && do.class == hosts.Replace && h.check.by == n.force.id {
		return todo{tasks.Check, n.force.task, hosts.Free, h.check.rests}
	}
	return do
}

// checks has what nobody has checked checked before it is stopped.
func (n *naive) checks(h *naiveHost, do todo, can Can) todo {
	if do.kind == tasks.Terminate && do.class == hosts.Replace && can.Checked != nil && !can.Checked(h.name) {
		do.kind, do.revision = tasks.Check, n.force.task
	}
	return do
}

// noteCheck notes how a check has ended, and reports whether that is all that an event tells.
func (n *naive) noteCheck(s *simulation, e deploylog.Event, h *naiveHost) bool {
	switch e.Name {
	case record.TaskCheckFailed:
		if h.check.by != e.Deployment {
			h.check = failedCheck{by: e.Deployment}
		}
		h.check.failures++
		h.check.rests = e.CreatedAt.Add(min(time.Minute, time.Second<<min(h.check.failures-1, 10)))
	case record.TaskChecked, record.TaskTerminating, record.TaskStarted:
		h.check = failedCheck{}
	}
	return e.Name == record.TaskCheckFailed || e.Name == record.TaskChecked
}

// staysUp wants no healthy task to be stopped for one that cannot be started there.
func (n *naive) staysUp(s *simulation, step tasks.Step) {
	if do := n.next(n.host(step.Host)); step.Kind == tasks.Terminate && do.class == hosts.Replace && s.unfit(place{step.Host, n.force.task}) {
		s.fail("the healthy task %d on %s is stopped for %d, which cannot be started", step.Revision, step.Host, n.force.task)
	}
}

// unfit reports whether a task cannot be started on a host.
func (s *simulation) unfit(p place) bool { return p.revision > 0 && s.behaves(p) == unable }

// mended is what is to be done on a host that has to wait, for its step or because too many
// have failed: its only task is started again where it is down, and confirmed then. ok is
// false where nothing is to be done with it.
func (n *naive) mended(h *naiveHost, do todo) (mends todo, ok bool) {
	waits := n.bounded(h, do) && n.mayBegin() <= 0 || n.enters(h, do) && do.class != hosts.Free && n.halted()
	if !waits || len(h.tasks) != 1 {
		return do, false
	}
	for revision, t := range h.tasks {
		switch t.status {
		case report.TaskLaunched:
			return todo{tasks.Confirm, revision, hosts.Free, t.since.Add(time.Duration(n.force.configuration.MinHealthyTime))}, true
		case report.TaskDied, report.TaskFailed, report.TaskStarting:
			return todo{tasks.Start, revision, hosts.Free, t.rests}, true
		default:
			return do, false
		}
	}
	return do, false
}

// mends reports whether a step is what is to be done on a host that has to wait.
func (n *naive) mends(step tasks.Step) bool {
	h := n.host(step.Host)
	do, ok := n.mended(h, n.next(h))
	return ok && do.kind == step.Kind && do.revision == step.Revision
}

// restsUntilStep reports whether nothing is to be done on a host before another step.
func (n *naive) restsUntilStep(h *naiveHost) bool {
	do := n.next(h)
	_, mends := n.mended(h, do)
	return n.bounded(h, do) && !mends
}

// noteMended tells of what was mended, and why the host had to wait.
func (n *naive) noteMended(s *simulation, step tasks.Step) {
	switch h := n.host(step.Host); {
	case step.Kind == tasks.Confirm:
		s.tally["a repair that is confirmed"]++
	case step.Revision == n.force.task:
		s.tally["restarted before its step"]++
	case n.bounded(h, n.next(h)):
		s.tally["repaired while a step waits"]++
	default:
		s.tally["repaired while too many have failed"]++
	}
}

// confirms wants a task of an earlier revision to have been healthy for a while.
func (n *naive) confirms(s *simulation, e deploylog.Event, at place, t *naiveTask) {
	f := n.force
	if e.Name == record.TaskFinished && t.status == report.TaskStarting && e.Deployment == f.id && at.revision != f.task && f.configuration.MinHealthyTime > 0 {
		s.fail("%s is taken for healthy at once", e.Target)
	}
}
