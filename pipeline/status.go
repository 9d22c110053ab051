package pipeline

import (
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
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
	s.projections(func(d *deployment.Deployment, found []pendingEntry) {
		rows = append(rows, s.rows(d, found)...)
	})
	return rows
}

func (s *State) rows(d *deployment.Deployment, found []pendingEntry) []Row {
	waits := map[int]bool{} // stages whose turn has come, of which nothing can be done
	for _, p := range found {
		switch {
		case p.disposition == ready && p.event != record.StageStarted:
			waits[p.Stage] = false
		case p.disposition == ready, p.disposition == blocked && p.reason.Code != reason.AwaitsStage && p.reason.Code != reason.HasFailed:
			if _, known := waits[p.Stage]; !known {
				waits[p.Stage] = true
			}
		}
	}
	top := Row{Target: s.target, Revision: d.Revision, Deployment: d.ID, Attempt: d.Attempt}
	of := func(r Row, t deploylog.Target, p Progress, since int64) Row {
		r.Target, r.Progress, r.Since = t, p, since
		return r
	}
	progress := map[deployment.Status]Progress{deployment.Running: IsRunning, deployment.Failed: HasFailure, deployment.Cancelled: IsStopped, deployment.PassedOver: IsStopped, deployment.Superseded: IsStopped}[d.Status]
	over := d.Status != deployment.Running
	rows := []Row{of(top, s.target, progress, s.revisions[d.Order-1].Since)}
	for i := range s.layout.Stages {
		stage, run := &s.layout.Stages[i], &d.Stages[i]
		row := top
		row.Stage = stage.Name
		p, since := at(run.Marks, record.StageFinished, run.Begun, run.Passed || over)
		if waits[i] && (p == IsRunning || p == IsPending) {
			p = IsWaiting
		}
		rows = append(rows, of(row, stage.Target, p, since))
		for g := range stage.Groups {
			group, run := &stage.Groups[g], &run.Groups[g]
			row.Group, row.Open, row.Failed, row.Hosts = group.Name, run.Open, run.Failed, len(group.Hosts)-run.Beside
			past := over || d.Stages[i].Passed || d.LeavesOut(group.Target)
			p, since := at(run.Marks, record.GroupFinished, run.Begun, past)
			rows = append(rows, of(row, group.Target, p, since))
			row.Open, row.Failed, row.Hosts = 0, 0, 0
			for h := range group.Hosts {
				row.Host = group.Hosts[h].Name
				marks := s.unmended(d, i, group.Hosts[h].Target, run.Hosts[h].Marks)
				p, since := at(marks, record.HostFinished, run.Hosts[h].Marks != nil, past || run.Finished || run.Hosts[h].Beside)
				rows = append(rows, of(row, group.Hosts[h].Target, p, since))
			}
			row.Host = ""
		}
	}
	return rows
}

// at is the progress of a place that has these events.
func at(m *record.Marks, finished string, begun, past bool) (Progress, int64) {
	if k, ok := m.Find(finished); ok {
		return IsFinished, k.Seq
	}
	if k, ok := m.Failure(); ok {
		return HasFailure, k.Seq
	}
	k, _ := m.Began()
	switch {
	case begun && past:
		return IsStopped, k.Seq
	case begun:
		return IsRunning, k.Seq
	case past:
		return IsSkipped, 0
	default:
		return IsPending, 0
	}
}
