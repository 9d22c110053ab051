package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// While no more hosts may begin than have begun, those of later steps keep the tasks that
// they have. One that dies there is started again as what it was: it would stay down for as
// long as the step takes, or a person to promote it. That is no progress of the deployment.

// full reports whether no host may begin before the next step.
func (t *turn) full() bool { return t.waves && t.left <= 0 }

// repairs reports whether the task of an earlier revision on a host is to be started again.
func (t *turn) repairs(h *hosts.Host) bool { return t.full() && h.Status.Repair != 0 }

// repairing reports whether repairs were begun and have no result, or are to begin before
// long.
func (s *State) repairing() bool {
	if !s.turn().full() {
		return false
	}
	return s.total.repairing > 0 || s.pause == nil && s.active.Status != report.DeploymentStuck && (s.total.repairsLater > 0 || s.hostsKnown && !s.repairs.Empty())
}

// yieldRepairs yields the repairs that may begin, and reports whether more may be yielded.
// They cost no budget, for they stop nothing.
func (s *State) yieldRepairs(turn *turn, can Can, yield func(tasks.Step) bool) bool {
	if !turn.full() || s.pause != nil {
		return true
	}
	for i := range s.repairs.All() {
		if h := s.hosts[i]; (can.Work == nil || can.Work(h.Name)) && !yield(s.repairStep(h)) {
			return false
		}
	}
	return true
}

// repairStep starts the task of an earlier revision again.
func (s *State) repairStep(h *hosts.Host) tasks.Step {
	id, revision := s.active.ID, h.Status.Repair
	step := tasks.Step{
		Kind: tasks.Start, Deployment: id, Target: record.TaskTarget(s.name, revision, h.Name), Host: h.Name, Revision: revision,
		Attempt: h.Attempts.Next(id, revision, record.TaskStarted), Timeout: time.Duration(s.configuration().HealthyDeadline),
	}
	step.Events = []deploylog.Event{step.Event(record.TaskStarted, record.Payload{})}
	return step
}

// repairVerdict is the verdict on a host whose task is to be started again.
func repairVerdict(h *hosts.Host) reason.Code {
	if !h.Status.RepairDue {
		return reason.AwaitsRetry
	}
	return reason.Ready
}
