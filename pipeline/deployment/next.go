package deployment

import (
	"cmp"
	"slices"
	"time"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// Deadline is when the artifacts, or the approvals, must have come for which a stage waits
// that has begun, in the present attempt of the deployment; zero is never. A clock that is
// set back puts it off, for it is as the log has it.
func (d *Deployment) Deadline(stage *StageLayout) time.Time {
	patience := stage.Patience()
	if patience <= 0 {
		return time.Time{}
	}
	since := d.Since
	if started := d.Started[stage.Target]; started.After(since) {
		since = started
	}
	return since.Add(patience)
}

// Reached reports whether all stages before are passed: a stage joins its paths.
func (d *Deployment) Reached(stage *StageLayout) bool {
	for _, b := range stage.Before {
		if !d.Stages[b].Passed {
			return false
		}
	}
	return true
}

// Awaits reports whether an artifact is missing. A kind that was introduced after
// the revision was registered is not waited for.
func (d *Deployment) Awaits(stage *StageLayout, run *stageRun, kind int) bool {
	return !d.cameLater(stage, kind) && !run.Marks.Has(definition.ArtifactReceived(stage.Build.Artifacts[kind]))
}

// Next is the index in the chain of the next event of an open host. What lies
// Before the last event is not new.
func (d *Deployment) Next(stage *StageLayout, host *hostRun) int {
	return d.after(stage, int(host.Last))
}

// after is the index in the chain of what is done on a host after an event of the chain.
func (d *Deployment) after(stage *StageLayout, at int) int {
	next := at + 1
	for _, step := range stage.Introduced {
		if step.At == next && d.Skips(step) {
			next++
		}
	}
	return next
}

// Skips reports whether an introduced step that is new on a host is left out all
// the same: the revision is older than the step, has not adopted it, and skipped it
// elsewhere.
func (d *Deployment) Skips(step Introduction) bool {
	if !d.Older(step) {
		return false
	}
	if d.Rollback != nil || d.Redo.Info != nil && !d.Redo.Ending.did(step.event) { // what was there did not have it
		return true
	}
	_, gone := d.Skipped[step.event]
	return gone
}

// Older reports whether the revision was registered before something was introduced, and
// has not adopted it.
func (d *Deployment) Older(step Introduction) bool {
	return cmp.Or(d.Age, d.Order) <= step.After && !d.Adopted[step.Unit]
}

// cameLater reports whether the revision is older than a kind of artifact.
func (d *Deployment) cameLater(stage *StageLayout, kind int) bool {
	return slices.ContainsFunc(stage.introducedKinds, func(k Introduction) bool { return k.At == kind && d.Older(k) })
}

// WorksIn is the first stage, by index, that would stay half done if the deployment ended
// now; none is none.
func (d *Deployment) WorksIn(l *Layout) int {
	for i := range l.Stages {
		if run := &d.Stages[i]; run.Begun && !run.Passed && !l.Stages[i].WaitsForOthers() {
			return i
		}
	}
	return None
}
