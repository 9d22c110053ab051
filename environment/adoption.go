package environment

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// A revision that changes only its hosts or how it is deployed has the task of an earlier
// one. The two share its tasks: what was made under the earlier number is what the later
// revision wants, so it is adopted, and keeps its name and all variables. New hosts and
// tasks that are started again get that name and number, too: all hosts of a revision
// have the same.

// taskIn is the revision whose task a definition has: itself where 0.
func (s *State) taskIn(d *definition.Definition) int {
	if f := s.active; f != nil && f.Kind != record.ByDelete && definition.SameTask(s.revisions[f.Revision-1].Definition, d) {
		return s.taskOf(f.Revision)
	}
	for _, r := range slices.Backward(s.revisions[max(s.firstRevision, 1)-1:]) {
		if definition.SameTask(r.Definition, d) {
			return r.task
		}
	}
	return 0
}

// taskOf is the revision with which the task of a revision came: the number in the
// target, the name and the variables of its tasks.
func (s *State) taskOf(revision int) int { return s.revisions[revision-1].task }

// activeTask is that of the active deployment.
func (s *State) activeTask() int { return s.taskOf(s.active.Revision) }

// TaskTarget is the target of the task of a revision on a host; also of one that shares
// the task of an earlier revision.
func (s *State) TaskTarget(revision int, host string) deploylog.Target {
	if revision >= 1 && revision <= len(s.revisions) {
		revision = s.taskOf(revision)
	}
	return record.TaskTarget(s.name, revision, host)
}

// maxAdopted is how many tasks are adopted at once.
const maxAdopted = 500

// adoptionEvents record that the healthy tasks of an earlier revision with the same task
// are those of the active one.
func (s *State) adoptionEvents() (events []deploylog.Event) {
	for i := range s.adoptable.All() {
		h := s.hosts[i]
		step := tasks.Step{Deployment: s.active.ID, Target: record.TaskTarget(s.name, s.activeTask(), h.Name), Revision: s.active.Revision}
		step.Attempt = h.Attempts.Next(step.Deployment, s.activeTask(), record.TaskAdopted)
		events = append(events, step.Event(record.TaskAdopted, record.Payload{From: h.Find(s.activeTask()).Of}))
		if len(events) == maxAdopted {
			break
		}
	}
	return events
}
