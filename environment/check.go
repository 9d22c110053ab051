package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Before Replace stops the only healthy task of a host, the new task is checked there: its
// manifest is loaded, resolved and planned, and nothing is done. What fails then would fail
// after the old task was stopped. A check that succeeds is remembered by who made it; only
// one that fails is recorded, and one that succeeds after that.

// toCheck reports whether the next step of a host is to be preceded by a check.
func (s *State) toCheck(h *hosts.Host, can Can) bool {
	return can.Checked != nil && h.Status.Checks() && !can.Checked(h.Name)
}

// checkStep is the check of the new task of a host. It begins with no event: it changes
// nothing.
func (s *State) checkStep(h *hosts.Host) tasks.Step {
	f, revision := s.active, s.activeTask()
	return tasks.Step{
		Kind: tasks.Check, Deployment: f.ID, Target: record.TaskTarget(s.name, revision, h.Name), Host: h.Name, Revision: revision,
		Timeout: time.Duration(s.configuration().HealthyDeadline),
		Attempt: max(h.Attempts.Next(f.ID, revision, record.TaskChecked), h.Attempts.Next(f.ID, revision, record.TaskCheckFailed)),
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
	case h.Check.Deployment == step.Deployment:
		return []deploylog.Event{step.Event(record.TaskChecked, record.Payload{})}
	default:
		return nil
	}
}

// checkRow is nil where no check has failed.
func (s *State) checkRow(h *hosts.Host) *report.CheckRow {
	if h.Status.Kind != tasks.Check {
		return nil
	}
	return &report.CheckRow{Seq: h.Check.Seq, Since: h.Check.Since, Failures: h.Check.Failures, Cause: h.Check.Cause, Next: h.Check.RetryAt}
}
