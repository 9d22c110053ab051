package environment

import (
	"cmp"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// Report returns the status of the environment.
func (s *State) Report() Report {
	r := Report{Environment: s.name, Event: s.head, Inventory: s.inventory, Deleted: s.deleted, Orphans: s.Orphans(), Rows: []Row{}, Hosts: []HostRow{}, Pause: s.pause, Held: s.kept, Cordoned: s.Cordons(), Step: s.stepInfo()}
	for _, v := range s.revisions {
		r.Rows = append(r.Rows, s.row(v))
	}
	if s.active == nil {
		return r
	}
	d := *s.active
	r.Deployment, r.Deadline, r.Healthy = &d, s.deadline(), s.total.available
	if s.finished {
		r.Exceptions, r.Baking = s.exceptions(), s.bakes(s.clock) && d.BakeFailed == ""
	}
	if d.Kind != record.ByDelete {
		r.Minimum = s.minimum()
	}
	for _, h := range s.hosts {
		if !h.desired && len(h.tasks) == 0 {
			continue
		}
		row := HostRow{Host: h.name, Desired: h.desired, Lost: h.lost || h.absent, Failed: h.status.failed, Check: s.checkRow(h), Passed: h.status.passed, Tasks: []TaskRow{}}
		for _, t := range h.tasks {
			row.Tasks = append(row.Tasks, t.row(record.TaskTarget(s.name, t.revision, h.name)))
		}
		r.Hosts = append(r.Hosts, row)
	}
	slices.SortFunc(r.Hosts, func(a, b HostRow) int { return cmp.Compare(a.Host, b.Host) })
	return r
}

// health is the status of the active revision with so many healthy tasks.
func (s *State) health(current int) RevisionStatus {
	if current < s.minimum() {
		return Degraded
	}
	return Active
}

// row is a revision as in a status table.
func (s *State) row(v *revision) Row {
	row := Row{Revision: v.Number, Status: Created, Current: s.current[v.Number]}
	wanted := s.active != nil && s.active.Kind != record.ByDelete && s.active.Revision == v.Number
	going := !v.undeployed || row.Current > 0
	switch {
	case wanted && s.finished:
		row.Status = s.health(row.Current)
	case wanted && s.active.Status == DeploymentStuck:
		row.Status = Stuck
	case wanted:
		row.Status = Deploying
	case v.replaced && v.reverted && going:
		row.Status = Reverting
	case v.replaced && v.reverted:
		row.Status = Reverted
	case v.replaced && going:
		row.Status = Undeploying
	case v.replaced:
		row.Status = Inactive
	}
	if wanted {
		row.Desired = s.total.desired
	}
	return row
}

func (t *task) row(target deploylog.Target) TaskRow {
	row := TaskRow{Revision: t.of, Target: string(target), Status: t.status, Seq: t.seq, Since: t.since, Failures: t.failures, Cause: t.cause}
	if t.of != t.revision {
		row.TaskOf = t.revision
	}
	if !t.available() && t.retryAt.After(t.since) {
		row.Next = t.retryAt
	}
	if t.available() {
		row.Failures = 0
	}
	return row
}

// retryAfter is when a task is tried again, zero when nothing delays it.
func (t *task) retryAfter(now time.Time) time.Time {
	if t.available() || !t.retryAt.After(now) {
		return time.Time{}
	}
	return t.retryAt
}
