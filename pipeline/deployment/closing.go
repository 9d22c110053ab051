package deployment

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// End is how a deployment is to end, otherwise than well, once its closing stages have.
type End struct {
	As           Status
	By           string
	Cause        string
	FailedAt     deploylog.Target // the stage for which it fails without having begun it; "" is none
	SupersededBy string           // revision
	Seq          int64            // of the event
}

// FailedAt returns the index of the first stage that failed, or None.
func (d *Deployment) FailedAt(l *Layout) int {
	return slices.IndexFunc(l.Stages, func(s StageLayout) bool { return d.Marks[s.Target].Has(record.StageFailed) })
}

// BrokenAt returns the index of the stage for which the end was requested, otherwise of the first
// one that failed, or None. It is no closing stage: those are not why a deployment ends.
func (d *Deployment) BrokenAt(l *Layout) int {
	if d.End != nil {
		if i, ok := l.StageAt[d.End.FailedAt]; ok {
			return i
		}
	}
	return slices.IndexFunc(l.Stages, func(s StageLayout) bool { return !s.Closing() && d.Marks[s.Target].Has(record.StageFailed) })
}

// HasBegun reports whether the deployment has begun a stage.
func (d *Deployment) HasBegun() bool {
	return slices.ContainsFunc(d.Stages, func(run stageRun) bool { return run.Begun })
}

// Closes reports whether a stage is one that runs when the deployment ends so. A failure counts
// for the stages after it, also if the deployment is then canceled; failed is the stage that fails,
// or None of a failure in no stage.
func (d *Deployment) Closes(l *Layout, i int, as Status, failed int) bool {
	stage := &l.Stages[i]
	if !stage.Closing() || d.Only() != "" || !d.HasBegun() {
		return false
	}
	if stage.When == definition.Always {
		return true
	}
	return failed == None && as == Failed || failed != None && slices.Contains(stage.Ancestors, failed)
}

// HasClosed reports whether a closing stage has ended.
func (d *Deployment) HasClosed(i int) bool {
	m := d.Stages[i].Marks
	return m.Has(record.StageFinished) || m.Has(record.StageFailed)
}

// AwaitsClosing reports whether a deployment that is to end so has closing stages to run first.
func (d *Deployment) AwaitsClosing(l *Layout, as Status, failed int) bool {
	for i := range l.Stages {
		if d.Closes(l, i, as, failed) && !d.HasClosed(i) {
			return true
		}
	}
	return false
}
