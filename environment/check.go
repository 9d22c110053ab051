package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Before Replace stops the only healthy task of a host, the new task is checked there: its
// manifest is loaded, resolved and planned, and nothing is done. What fails then would fail
// after the old task was stopped. A check that succeeds is remembered by who made it; only
// one that fails is recorded, and one that succeeds after that.

// checks reports whether a step with a task is to be checked before.
func (s *State) checks(c class, k tasks.Kind) bool { return c == classReplace && k == tasks.Terminate }

// checkAgain is the step of a host whose new task failed its check: that comes before
// anything else there, as often as the start of a failed task.
func (s *State) checkAgain(h *host, c class, k tasks.Kind, t *tasks.State) (class, tasks.Kind, *tasks.State) {
	if s.checks(c, k) && h.check.Deployment == s.active.ID {
		return classFree, tasks.Check, nil
	}
	return c, k, t
}

// toCheck reports whether the next step of a host is to be preceded by a check.
func (s *State) toCheck(h *host, can Can) bool {
	return can.Checked != nil && s.checks(h.status.class, h.status.kind) && !can.Checked(h.name)
}

// checkStep is the check of the new task of a host. It begins with no event: it changes
// nothing.
func (s *State) checkStep(h *host) tasks.Step {
	f, revision := s.active, s.activeTask()
	return tasks.Step{
		Kind: tasks.Check, Deployment: f.ID, Target: record.TaskTarget(s.name, revision, h.name), Host: h.name, Revision: revision,
		Timeout: time.Duration(s.configuration().HealthyDeadline),
		Attempt: max(h.attempts.Next(f.ID, revision, record.TaskChecked), h.attempts.Next(f.ID, revision, record.TaskCheckFailed)),
	}
}

// checked are the events that record the result of a check.
func (s *State) checked(step tasks.Step, cause string) []deploylog.Event {
	h := s.byName[step.Host]
	switch {
	case s.active == nil || s.active.ID != step.Deployment || h == nil:
		return nil
	case cause != "":
		return []deploylog.Event{step.Event(record.TaskCheckFailed, record.Payload{Error: cause})}
	case h.check.Deployment == step.Deployment:
		return []deploylog.Event{step.Event(record.TaskChecked, record.Payload{})}
	default:
		return nil
	}
}

// checkRow is nil where no check has failed.
func (s *State) checkRow(h *host) *report.CheckRow {
	if h.status.kind != tasks.Check {
		return nil
	}
	return &report.CheckRow{Seq: h.check.Seq, Since: h.check.Since, Failures: h.check.Failures, Cause: h.check.Cause, Next: h.check.RetryAt}
}

// awaitCheck fills in when the check of a host's new task is repeated, and returns when the
// host is to be evaluated again.
func (st *hostStatus) awaitCheck(c tasks.CheckFailure, now, next time.Time) time.Time {
	if st.kind != tasks.Check || !c.RetryAt.After(now) || c.Since.After(now) { // else the clock was set back
		return next
	}
	st.class, st.retrying = classNone, c.Failures < tasks.MaxRetries
	return c.RetryAt
}
