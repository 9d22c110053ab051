package environment

import (
	"cmp"
	"slices"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// Report returns the status of the environment.
func (s *State) Report() report.Report {
	r := report.Report{Environment: s.name, Event: s.head, Inventory: s.inventory, Deleted: s.deleted, Orphans: s.Orphans(), Rows: []report.Row{}, Hosts: []report.HostRow{}, Pause: s.pause, Held: s.kept, Cordoned: s.Cordons(), Step: s.stepInfo()}
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
		if !h.Desired && len(h.Tasks) == 0 {
			continue
		}
		row := report.HostRow{Host: h.Name, Desired: h.Desired, Lost: h.Lost || h.Absent, Failed: h.Status.Failed, Check: s.checkRow(h), Passed: h.Status.Passed, Tasks: []report.TaskRow{}}
		for _, t := range h.Tasks {
			row.Tasks = append(row.Tasks, t.Row(record.TaskTarget(s.name, t.Revision, h.Name)))
		}
		r.Hosts = append(r.Hosts, row)
	}
	slices.SortFunc(r.Hosts, func(a, b report.HostRow) int { return cmp.Compare(a.Host, b.Host) })
	return r
}

// health is the status of the active revision with so many healthy tasks.
func (s *State) health(current int) report.RevisionStatus {
	if current < s.minimum() {
		return report.Degraded
	}
	return report.Active
}

// row is a revision as in a status table.
func (s *State) row(v *revision) report.Row {
	row := report.Row{Revision: v.Number, Status: report.Created, Current: s.current[v.Number]}
	wanted := s.active != nil && s.active.Kind != record.ByDelete && s.active.Revision == v.Number
	going := !v.undeployed || row.Current > 0
	switch {
	case wanted && s.finished:
		row.Status = s.health(row.Current)
	case wanted && s.active.Status == report.DeploymentStuck:
		row.Status = report.Stuck
	case wanted:
		row.Status = report.Deploying
	case v.replaced && v.reverted && going:
		row.Status = report.Reverting
	case v.replaced && v.reverted:
		row.Status = report.Reverted
	case v.replaced && going:
		row.Status = report.Undeploying
	case v.replaced:
		row.Status = report.Inactive
	}
	if wanted {
		row.Desired = s.total.desired
	}
	return row
}
