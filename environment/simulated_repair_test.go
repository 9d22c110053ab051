package environment

import (
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// mended is what is to be done on a host that has to wait for its step: its only task, which is
// of an earlier revision, is started again where it is down. Else it is what was to be done.
func (n *naive) mended(h *naiveHost, do todo) todo {
	if !n.bounded(h, do) || n.mayBegin() > 0 || len(h.tasks) != 1 {
		return do
	}
	for revision, t := range h.tasks {
		down := t.status == report.TaskDied || t.status == report.TaskFailed || t.status == report.TaskStarting
		if down && revision != n.force.task {
			return todo{tasks.Start, revision, hosts.Free, t.rests}
		}
	}
	return do
}

// mends reports whether a step is the start of a task of an earlier revision.
func (n *naive) mends(step tasks.Step) bool {
	return step.Kind == tasks.Start && step.Revision != n.force.task
}

// restsUntilStep reports whether nothing is to be done on a host before another step.
func (n *naive) restsUntilStep(h *naiveHost) bool {
	do := n.next(h)
	return n.bounded(h, do) && n.mended(h, do) == do
}
