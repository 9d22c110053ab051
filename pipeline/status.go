package pipeline

import (
	"github.com/deployster-go/deployster/deploylog"
)

// Progress is how far a revision has come at one place of the pipeline.
type Progress string

// The kinds of progress.
const (
	IsPending  Progress = "pending"  // its turn has not come
	IsWaiting  Progress = "waiting"  // its turn has come, and something is missing: see Explain
	IsRunning  Progress = "running"  //
	IsFinished Progress = "finished" //
	HasFailure Progress = "failed"   //
	IsSkipped  Progress = "skipped"  // it never began, and will not
	IsStopped  Progress = "stopped"  // it had begun, and does not proceed
)

// Row is one line of a status table: a pipeline, stage, host group or host, and one
// revision.
type Row struct {
	Target     deploylog.Target `json:"target"`
	Stage      string           `json:"stage,omitempty"`      // "" for the pipeline's row
	Group      string           `json:"host_group,omitempty"` // "" for a stage's
	Host       string           `json:"host,omitempty"`       // "" for a group's
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Attempt    int              `json:"attempt"`
	Progress   Progress         `json:"progress"`
	Since      int64            `json:"since,omitempty"`  // event that made it so; 0 when none has yet
	Open       int              `json:"open,omitempty"`   // hosts of a group that have neither finished nor failed
	Failed     int              `json:"failed,omitempty"` // hosts of a group that failed
	Hosts      int              `json:"hosts,omitempty"`  // all of them
}

// Status lists the rows of all deployments that have not finished, oldest first,
// each followed by its stages, groups and hosts.
//
// What a place runs, or failed last, is for the log to answer, since finished
// deployments are not kept here: Log.Latest with Succeeded or Failed, for the
// target of any row. What is in progress follows from the rows, and not from
// Log.InProgress, which knows neither that a deployment was cancelled nor that it
// is retried.
func (s *State) Status() []Row {
	var rows []Row
	s.projections(func(d *deployment, found []pendingEntry) {
		rows = append(rows, s.rows(d, found)...)
	})
	return rows
}

func (s *State) rows(d *deployment, found []pendingEntry) []Row {
	waits := map[int]bool{} // stages whose turn has come, of which nothing can be done
	for _, p := range found {
		switch {
		case p.disposition == ready && p.event != stageStarted:
			waits[p.stage] = false
		case p.disposition == ready, p.disposition == blocked && p.reason.Code != AwaitsStage && p.reason.Code != HasFailed:
			if _, known := waits[p.stage]; !known {
				waits[p.stage] = true
			}
		}
	}
	top := Row{Target: s.target, Revision: d.revision, Deployment: d.id, Attempt: d.attempt}
	of := func(r Row, t deploylog.Target, p Progress, since int64) Row {
		r.Target, r.Progress, r.Since = t, p, since
		return r
	}
	progress := map[Status]Progress{Running: IsRunning, Failed: HasFailure, Cancelled: IsStopped, PassedOver: IsStopped, Superseded: IsStopped}[d.status]
	over := d.status != Running
	rows := []Row{of(top, s.target, progress, s.revisions[d.order-1].Since)}
	for i := range s.layout.stages {
		stage, run := &s.layout.stages[i], &d.stages[i]
		row := top
		row.Stage = stage.Name
		p, since := at(run.marks, stageFinished, run.begun, run.passed || over)
		if waits[i] && (p == IsRunning || p == IsPending) {
			p = IsWaiting
		}
		rows = append(rows, of(row, stage.target, p, since))
		for g := range stage.groups {
			group, run := &stage.groups[g], &run.groups[g]
			row.Group, row.Open, row.Failed, row.Hosts = group.Name, run.open, run.failed, len(group.hosts)
			past := over || d.stages[i].passed
			p, since := at(run.marks, groupFinished, run.begun, past)
			rows = append(rows, of(row, group.target, p, since))
			row.Open, row.Failed, row.Hosts = 0, 0, 0
			for h := range group.hosts {
				row.Host = group.hosts[h].name
				p, since := at(run.hosts[h].marks, hostFinished, run.hosts[h].marks != nil, past || run.finished)
				rows = append(rows, of(row, group.hosts[h].target, p, since))
			}
			row.Host = ""
		}
	}
	return rows
}

// at is the progress of a place that has these events.
func at(m *marks, finished string, begun, past bool) (Progress, int64) {
	if k, ok := m.find(finished); ok {
		return IsFinished, k.seq
	}
	if k, ok := m.failure(); ok {
		return HasFailure, k.seq
	}
	k, _ := m.began()
	switch {
	case begun && past:
		return IsStopped, k.seq
	case begun:
		return IsRunning, k.seq
	case past:
		return IsSkipped, 0
	default:
		return IsPending, 0
	}
}
