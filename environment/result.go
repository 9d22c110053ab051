package environment

import (
	"cmp"
	"iter"
	"strconv"

	"github.com/deployster-go/deployster/environment/report"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// Completed returns the events that record the result of a step's work: the probe
// result of a Start or Confirm, or why the work failed. A Confirm records nothing
// if its task changed while it was running.
func (s *State) Completed(step Step, seen ProbeResult, err error) []deploylog.Event {
	if step.Kind == Confirm && !s.awaitsConfirm(step) {
		return nil // a probe was recorded before
	}
	name, p := "", record.Payload{}
	if err == nil && step.Kind != Terminate && step.Kind != Check && seen.Health != Healthy && seen.Health != Drifted {
		p.Error = cmp.Or(seen.Detail, string(seen.Health))
	}
	if err != nil {
		p.Error = cmp.Or(err.Error(), "it failed")
	}
	p.Error = deploylog.Cause(p.Error)
	switch {
	case step.Kind == Check:
		return s.checked(step, p.Error)
	case step.Kind == Terminate && err == nil:
		name = record.TaskTerminated
	case step.Kind == Terminate:
		name = record.TaskTerminationFailed
	case p.Error != "":
		name = record.TaskFailed
	case step.Kind == Start && s.needsConfirm(step):
		name = record.TaskLaunched
	default:
		name = record.TaskFinished
	}
	return []deploylog.Event{step.event(name, p)}
}

// awaitsConfirm reports whether a task is still waiting to be confirmed.
func (s *State) awaitsConfirm(step Step) bool {
	h := s.byName[step.Host]
	if h == nil {
		return false
	}
	t := h.find(step.Revision)
	return t != nil && t.status == report.TaskLaunched && t.deployment == step.Deployment && t.attempt == step.Attempt
}

// needsConfirm reports whether a task that was started has to stay healthy for a
// while.
func (s *State) needsConfirm(step Step) bool {
	return s.active != nil && step.Revision == s.activeTask() && s.configuration().MinHealthyTime > 0
}

// ProbeTargets yields the tasks that are to be probed from time to time.
func (s *State) ProbeTargets() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, h := range s.hosts {
			if h.lost {
				continue
			}
			for _, t := range h.tasks {
				if t.probed() && !yield(s.Task(t.revision, h.name)) {
					return
				}
			}
		}
	}
}

// Probed returns the events that record the result of a probe of a task: none when
// nothing has changed.
func (s *State) Probed(seen Task, found ProbeResult) []deploylog.Event {
	h := s.byName[seen.Host]
	if s.active == nil || h == nil || h.lost {
		return nil
	}
	t := h.find(seen.Revision)
	if t == nil || !t.probed() {
		return nil
	}
	if t.status == report.TaskLaunched {
		if found.Health != Unhealthy && found.Health != Unknown {
			return nil
		}
		step := Step{Deployment: t.deployment, Target: record.TaskTarget(s.name, t.revision, h.name), Revision: t.revision, Attempt: t.attempt}
		return []deploylog.Event{step.event(record.TaskFailed, record.Payload{Error: found.cause()})}
	}
	name, p := t.changedBy(found)
	if name == "" {
		return nil
	}
	return []deploylog.Event{{
		Deployment: s.active.ID, Target: record.TaskTarget(s.name, t.revision, h.name), Revision: strconv.Itoa(t.revision),
		Name: name, Attempt: h.attempts.next(s.active.ID, t.revision, name), Data: p.Data(),
	}}
}
