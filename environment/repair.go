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

// While no more hosts may begin than have begun, because of a step or because too many have
// failed, the others keep the tasks that they have. One that dies there is started again as
// what it was: it would stay down until a person does something. Of an earlier revision, that
// is no progress of the deployment; of its own, the host is begun with it, for it was down.

// full reports whether no host may begin before the next step.
func (t *turn) full() bool { return t.waves && t.left <= 0 }

// repairs reports whether the only task of a host is to be started again, or confirmed, for
// the host has to wait.
func (t *turn) repairs(h *hosts.Host) bool {
	return h.Status.Repair != 0 && (t.full() || t.halted && h.Status.Class != hosts.Free)
}

// next is what is to be done on a host.
func (t *turn) next(h *hosts.Host) tasks.Kind {
	if t.repairs(h) {
		return h.Status.RepairKind
	}
	return h.Status.Kind
}

// repairing reports whether repairs were begun and have no result, or are to begin before
// long.
func (s *State) repairing() bool {
	if turn := s.turn(); !turn.full() && !turn.halted {
		return false
	}
	return s.total.repairing > 0 || s.active.Status != report.DeploymentStuck && (s.total.repairsLater > 0 || s.hostsKnown && !s.repairs.Empty())
}

// yieldRepairs yields the repairs that may begin, and reports whether more may be yielded.
// They cost no budget, for they stop nothing.
func (s *State) yieldRepairs(turn *turn, can Can, yield func(tasks.Step) bool) bool {
	if !turn.full() && !turn.halted {
		return true
	}
	for i := range s.repairs.All() {
		if h := s.hosts[i]; turn.repairs(h) && !s.pausedFor(h.Status.RepairKind) && (can.Work == nil || can.Work(h.Name)) && !yield(s.repairStep(h)) {
			return false
		}
	}
	return true
}

// repairStep starts the only task of a host again, or confirms that it is healthy.
func (s *State) repairStep(h *hosts.Host) tasks.Step {
	id, revision := s.active.ID, h.Status.Repair
	step := tasks.Step{
		Kind: h.Status.RepairKind, Deployment: id, Target: record.TaskTarget(s.name, revision, h.Name), Host: h.Name, Revision: revision,
	}
	if step.Kind == tasks.Confirm {
		step.Deployment, step.Attempt = h.Tasks[0].Deployment, h.Tasks[0].Attempt
		return step
	}
	step.Attempt, step.Timeout = h.Attempts.Next(id, revision, record.TaskStarted), time.Duration(s.configuration().HealthyDeadline)
	step.Events = []deploylog.Event{step.Event(record.TaskStarted, record.Payload{})}
	return step
}

// repairVerdict is the verdict on a host whose task is to be started again.
func repairVerdict(h *hosts.Host) reason.Code {
	switch {
	case h.Status.RepairKind == tasks.Confirm:
		return reason.AwaitsHealth
	case !h.Status.RepairDue:
		return reason.AwaitsRetry
	}
	return reason.Ready
}
