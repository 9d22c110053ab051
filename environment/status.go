package environment

import (
	"cmp"
	"slices"
	"time"
)

// Report tells how the environment is.
func (s *State) Report() Report {
	r := Report{Environment: s.name, Event: s.head, Deleted: s.deleted, Rows: []Row{}, Hosts: []HostRow{}, Pause: s.pause}
	for _, v := range s.revisions {
		r.Rows = append(r.Rows, s.row(v))
	}
	if s.force == nil {
		return r
	}
	d := *s.force
	r.Deployment, r.Deadline, r.Healthy = &d, s.deadline(), s.total.up
	if d.Kind != ByDelete {
		r.Minimum = s.minimum()
	}
	for _, h := range s.hosts {
		if !h.wanted && len(h.tasks) == 0 {
			continue
		}
		row := HostRow{Host: h.name, Desired: h.wanted, Lost: h.lost, Failed: h.now.failed, Tasks: []TaskRow{}}
		for _, t := range h.tasks {
			row.Tasks = append(row.Tasks, t.row())
		}
		r.Hosts = append(r.Hosts, row)
	}
	slices.SortFunc(r.Hosts, func(a, b HostRow) int { return cmp.Compare(a.Host, b.Host) })
	return r
}

// row is a revision as the seed's tables show it.
func (s *State) row(v *revision) Row {
	row := Row{Revision: v.Number, Status: Created, Current: s.current[v.Number]}
	wanted := s.force != nil && s.force.Kind != ByDelete && s.force.Revision == v.Number
	going := !v.gone || row.Current > 0
	switch {
	case wanted && s.reached:
		row.Status = Active
	case wanted && s.force.Status == DeploymentStuck:
		row.Status = Stuck
	case wanted:
		row.Status = Deploying
	case v.left && v.reverted && going:
		row.Status = Reverting
	case v.left && v.reverted:
		row.Status = Reverted
	case v.left && going:
		row.Status = Undeploying
	case v.left:
		row.Status = Inactive
	}
	if wanted {
		row.Desired = s.total.wanted
	}
	return row
}

func (t *task) row() TaskRow {
	row := TaskRow{Revision: t.revision, Status: t.status, Seq: t.seq, Since: t.since, Failures: t.failures, Cause: t.cause}
	if !t.up() && t.next.After(t.since) {
		row.Next = t.next
	}
	if t.up() {
		row.Failures = 0
	}
	return row
}

// waitsUntil is when a task is tried again, zero when it is not at rest.
func (t *task) waitsUntil(now time.Time) time.Time {
	if t.up() || !t.next.After(now) {
		return time.Time{}
	}
	return t.next
}
