package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
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
