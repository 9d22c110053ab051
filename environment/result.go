package environment

import (
	"cmp"
	"iter"
	"strconv"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Completed returns the events that record the result of a step's work: the probe
// result of a Start or Confirm, or why the work failed. A Confirm records nothing
// if its task changed while it was running, and a Verify has no probe result.
func (s *State) Completed(step tasks.Step, seen tasks.ProbeResult, err error) []deploylog.Event {
	if step.Kind == tasks.Confirm {
		t := s.awaitingConfirm(step)
		if t == nil {
			return nil // a probe was recorded before
		}
		seen = t.Judge(seen)
	}
	name, p := "", record.Payload{Restarts: seen.Restarts}
	if err == nil && step.Kind != tasks.Verify && step.Kind != tasks.Terminate && step.Kind != tasks.Check && seen.Health != tasks.Healthy && seen.Health != tasks.Drifted {
		p.Error = cmp.Or(seen.Detail, string(seen.Health))
	}
	if err != nil {
		p.Error = cmp.Or(err.Error(), "it failed")
	}
	p.Error = deploylog.Cause(p.Error)
	switch {
	case step.Kind == tasks.Verify:
		return verified(step, p.Error, err)
	case step.Kind == tasks.Check:
		return s.checked(step, p.Error)
	case step.Kind == tasks.Terminate && err == nil:
		name = record.TaskTerminated
	case step.Kind == tasks.Terminate:
		name = record.TaskTerminationFailed
	case p.Error != "":
		name = record.TaskFailed
	case step.Kind == tasks.Start && s.needsConfirm(step):
		name = record.TaskLaunched
	default:
		name = record.TaskFinished
	}
	return []deploylog.Event{step.Event(name, p)}
}

// awaitingConfirm is the task of a step that is still waiting to be confirmed; nil is none.
func (s *State) awaitingConfirm(step tasks.Step) *tasks.State {
	h := s.byName[step.Host]
	if h == nil {
		return nil
	}
	t := h.Find(step.Revision)
	if t == nil || t.Status != report.TaskLaunched || t.Deployment != step.Deployment || t.Attempt != step.Attempt {
		return nil
	}
	return t
}

// needsConfirm reports whether a task that was started has to stay healthy for a
// while. That is so of the deployment's own, and of those of earlier revisions that it repairs.
func (s *State) needsConfirm(step tasks.Step) bool {
	return s.active != nil && (step.Revision == s.activeTask() || step.Deployment == s.active.ID) && s.configuration().MinHealthyTime > 0
}

// ProbeTargets yields the tasks that are to be probed from time to time.
func (s *State) ProbeTargets() iter.Seq[tasks.Task] {
	return func(yield func(tasks.Task) bool) {
		for _, h := range s.hosts {
			if h.Lost {
				continue
			}
			for _, t := range h.Tasks {
				if t.Probed() && !yield(s.Task(t.Revision, h.Name)) {
					return
				}
			}
		}
	}
}

// Probed returns the events that record the result of a probe of a task: none when
// nothing has changed.
func (s *State) Probed(seen tasks.Task, found tasks.ProbeResult) []deploylog.Event {
	h := s.byName[seen.Host]
	if s.active == nil || h == nil || h.Lost {
		return nil
	}
	t := h.Find(seen.Revision)
	if t == nil || !t.Probed() {
		return nil
	}
	found = t.Judge(found)
	if t.Status == report.TaskLaunched {
		if found.Health != tasks.Unhealthy && found.Health != tasks.Unknown {
			return nil
		}
		step := tasks.Step{Deployment: t.Deployment, Target: record.TaskTarget(s.name, t.Revision, h.Name), Revision: t.Revision, Attempt: t.Attempt}
		return []deploylog.Event{step.Event(record.TaskFailed, record.Payload{Error: found.Cause(), Restarts: found.Restarts})}
	}
	name, p := t.ChangedBy(found)
	if name == "" {
		return nil
	}
	return []deploylog.Event{{
		Deployment: s.active.ID, Target: record.TaskTarget(s.name, t.Revision, h.Name), Revision: strconv.Itoa(t.Revision),
		Name: name, Attempt: h.Attempts.Next(s.active.ID, t.Revision, name), Data: p.Data(),
	}}
}
