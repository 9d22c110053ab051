// Package walk finds what may happen next in one deployment of a pipeline.
package walk

import (
	"cmp"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Walk goes through one deployment; its methods return false once the caller has
// enough.
type Walk struct {
	Layout     *deployment.Layout
	Deployment *deployment.Deployment
	Holders    []*deployment.Deployment // by batch
	Stragglers [][]*step.Work           // by batch
	Work       *step.Underway
	Yield      func(step.Step) bool
	Superseded string                                       // by which revision
	Overtaken  string                                       // why it fails in a stage to which it came back
	KeptOut    func(stage int) bool                         // it must not be entered
	Awaits     func(step.Step, *step.Work)                  // is called with what would be yielded but for work; may be nil
	PassedOver func() (cause string)                        // "" unless the deployment waits and is skipped for a fix
	Waits      func(at deployment.Place, why reason.Reason) // is called with a host that has to wait; nil is not
	Pipeline   deploylog.Target
	Outcome    step.Outcome // for closing stages
}

// unless yields a step, unless it has to wait for the end of work.
func (w *Walk) unless(work *step.Work, step step.Step) bool {
	if work == nil {
		return w.Yield(step)
	}
	if w.Awaits != nil {
		w.Awaits(step, work)
	}
	return true
}

// own is the first work of the deployment that is such.
func (w *Walk) own(such func(*step.Work) bool) *step.Work {
	return w.Work.First(func(o *step.Work) bool { return o.Deployment == w.Deployment.ID && such(o) })
}

// beside is work at the target of a step that is not its own: a host does one thing of a
// pipeline at a time.
func (w *Walk) beside(s step.Step) *step.Work {
	if len(w.Work.At) == 0 || record.IsFailure(s.Event) {
		return nil
	}
	return w.Work.FirstAt(s.Target, func(o *step.Work) bool { return o.Deployment != s.Deployment || o.Event != s.Event })
}

func (w *Walk) step(t deploylog.Target, event string) step.Step {
	return step.Step{Deployment: w.Deployment.ID, Revision: w.Deployment.Revision, Target: t, Event: event, Attempt: w.Deployment.Attempt, Takes: w.Deployment.Takes}
}

// Do yields what may happen in the deployment; false is that the caller has enough.
func (w *Walk) Do() bool {
	if w.Deployment.End != nil {
		return w.asked()
	}
	if w.Superseded != "" {
		step := w.step(w.Pipeline, record.PipelineSuperseded)
		step.SupersededBy = w.Superseded
		return w.end(step, deployment.Superseded)
	}
	for i := range w.Layout.Stages {
		if k, bad := w.Deployment.Stages[i].Marks.Find(record.StageFailed); bad { // nothing new begins
			failed := w.step(w.Pipeline, record.PipelineFailed)
			failed.Cause = fmt.Sprintf("stage %s failed: %s", w.Layout.Stages[i].Name, k.Cause)
			return w.end(failed, deployment.Failed)
		}
	}
	if cause := cmp.Or(w.Deployment.Aimless(w.Layout), w.Overtaken); cause != "" {
		failed := w.step(w.Pipeline, record.PipelineFailed)
		failed.Cause = cause
		return w.end(failed, deployment.Failed)
	}
	if w.Deployment.Left == 0 {
		return w.unless(w.own(func(*step.Work) bool { return true }), w.step(w.Pipeline, record.PipelineFinished))
	}
	if cause := w.PassedOver(); cause != "" {
		over := w.step(w.Pipeline, record.PipelineSkipped)
		over.Cause = cause
		return w.end(over, deployment.PassedOver)
	}
	for i := range w.Layout.Stages {
		run := &w.Deployment.Stages[i]
		switch {
		case run.Passed:
		case run.Begun:
			if !w.stage(i) {
				return false
			}
		case w.Deployment.Reached(&w.Layout.Stages[i]) && !w.KeptOut(i):
			if !w.enter(i) {
				return false
			}
		}
	}
	return true
}

// enter takes the batches that begin with a stage, if they are free.
func (w *Walk) enter(i int) bool {
	for _, b := range w.Layout.Stages[i].Opens {
		if w.Holders[b] != nil {
			return true
		}
	}
	for _, b := range w.Layout.Stages[i].Opens {
		if work := Straggler(w.Stragglers, b, w.Deployment); work != nil {
			return w.unless(work, w.inStage(i, record.StageStarted))
		}
	}
	for _, b := range w.Layout.Stages[i].Opens {
		w.Holders[b] = w.Deployment
	}
	return w.Yield(w.inStage(i, record.StageStarted))
}

func (w *Walk) inStage(i int, event string) step.Step {
	s := w.step(w.Layout.Stages[i].Target, event)
	s.Stage = w.Layout.Stages[i].Name
	return s
}

// stage yields what may happen in a stage that has begun.
func (w *Walk) stage(i int) bool {
	stage, run := &w.Layout.Stages[i], &w.Deployment.Stages[i]
	if k, bad := run.Marks.Failure(); bad {
		failed := w.inStage(i, record.StageFailed)
		failed.Cause = k.Cause
		return w.Yield(failed)
	}
	manifest, retries := stage.Once()
	switch {
	case stage.Deploy != nil:
		return w.deploy(i)
	case stage.Approval != nil && !run.Marks.Has(record.StageApproved):
		return w.awaitsApproval(i)
	case stage.Build.Elsewhere():
		for k := range stage.Build.Artifacts {
			if w.Deployment.Awaits(stage, run, k) {
				return w.awaitsArtifact(i, stage.Build.Artifacts[k])
			}
		}
	case stage.Environment != "" && !run.Marks.Has(record.StageDeployed):
		work := w.inStage(i, record.StageDeployed)
		work.Environment = stage.Environment
		work.Original, work.RollsBack = w.Deployment.Original, w.Deployment.Rollback != nil
		work.First = w.Deployment.Redo.Info != nil && w.Deployment.Redo.Info.First
		return w.unless(w.beside(work), w.tried(work))
	case stage.Build != nil && stage.Build.Group != "":
		if run.Marks.Has(record.StageBuilt) {
			return w.finishStage(i)
		}
		work := w.inStage(i, record.StageBuilt)
		as := w.Deployment.Applies(stage.Unit, manifest)
		work.Packages, work.Files, work.Timeout = as.Manifest, as.Files, stage.Timeout()
		work.Artifacts = stage.Build.Packages
		return w.unless(w.beside(work), w.tried(work))
	case manifest != "" && !run.Marks.Has(record.StageApplied):
		work := w.inStage(i, record.StageApplied)
		as := w.Deployment.Applies(stage.Unit, manifest)
		work.Manifest, work.Files, work.Retries = as.Manifest, as.Files, retries
		work.Timeout = stage.Timeout()
		work.Outcome = w.outcome(stage)
		if stage.Build != nil {
			for k, kind := range stage.Build.Artifacts {
				if w.Deployment.Awaits(stage, run, k) {
					work.Artifacts = append(work.Artifacts, kind)
				}
			}
		}
		return w.unless(w.beside(work), w.tried(work))
	}
	return w.finishStage(i)
}

// outcome returns how the stages before a closing one ended; nil of other stages.
func (w *Walk) outcome(stage *deployment.StageLayout) *step.Outcome {
	if !stage.Closing() {
		return nil
	}
	outcome := w.Outcome
	return &outcome
}

// finishStage yields that a stage is finished, unless something of the revision is still
// being done there.
func (w *Walk) finishStage(i int) bool {
	end := w.inStage(i, record.StageFinished)
	if w.Layout.Stages[i].Deploy != nil {
		end.Skipped = w.Deployment.Missed(&w.Layout.Stages[i], i)
	}
	return w.unless(w.own(func(o *step.Work) bool { return o.Place.Stage == i }), end)
}

func (w *Walk) deploy(i int) bool {
	stage, run := &w.Layout.Stages[i], &w.Deployment.Stages[i]
	finished := true
	for g := range stage.Groups {
		if k, bad := run.Groups[g].Marks.Failure(); bad && !run.Groups[g].Finished {
			failed := w.inStage(i, record.StageFailed)
			failed.Cause = fmt.Sprintf("host group %s failed: %s", stage.Groups[g].Name, k.Cause)
			return w.Yield(failed)
		}
		finished = finished && run.Groups[g].Finished
	}
	if finished {
		return w.finishStage(i)
	}
	for g := range stage.Groups {
		if !run.Groups[g].Finished && !w.group(i, g) {
			return false
		}
	}
	return true
}

func (w *Walk) group(i, g int) bool {
	group, run := &w.Layout.Stages[i].Groups[g], &w.Deployment.Stages[i].Groups[g]
	marker := func(event string) step.Step {
		s := w.inStage(i, event)
		s.Target, s.Group = group.Target, group.Name
		return s
	}
	switch budget := group.MaxFailed.Of(len(group.Hosts)); {
	case run.Failed > budget:
		failed := marker(record.GroupFailed)
		failed.Cause = fmt.Sprintf("%d of %d hosts failed, %d may: %s", run.Failed, len(group.Hosts), budget, run.Cause(group))
		return w.Yield(failed)
	case !run.Begun:
		return w.Yield(marker(record.GroupStarted))
	case !group.Known || group.Holds():
		return true
	case run.Open == 0:
		end := marker(record.GroupFinished)
		end.Skipped = w.Deployment.Missed(&w.Layout.Stages[i], i, g)
		return w.unless(w.own(func(o *step.Work) bool { return o.Place.Stage == i && o.Place.Group == g }), end)
	}
	return w.hosts(i, g)
}

// Host is the next step of an open host.
func (w *Walk) Host(at deployment.Place) step.Step {
	stage := &w.Layout.Stages[at.Stage]
	layout, host := &stage.Groups[at.Group].Hosts[at.Host], &w.Deployment.Stages[at.Stage].Groups[at.Group].Hosts[at.Host]
	next := w.Deployment.Next(stage, host)
	s := w.step(layout.Target, stage.Chain[next])
	s.Stage, s.Group, s.Host = stage.Name, stage.Groups[at.Group].Name, layout.Name
	switch {
	case host.StepFailed:
		k, _ := host.Marks.Failure()
		s.Event, s.Cause = record.HostFailed, k.Describe()
	case next > 0 && next < len(stage.Chain)-1:
		step := &stage.Deploy.Steps[next-1]
		as := w.Deployment.Applies(stage.Units[next-1], step.Manifest)
		s.Manifest, s.Files, s.Retries = as.Manifest, as.Files, step.Retries
		s.Timeout, s.Keeps, s.Outcome = time.Duration(step.Timeout), step.Keeps(), w.outcome(stage)
		s = w.tried(s)
	case next == len(stage.Chain)-1:
		missing := make([]bool, len(stage.Chain))
		s.Skipped = stage.Skips(missing, stage.Missing(host.Marks, missing))
	}
	return s
}

// tried adds the tries that have failed to a step that takes work.
func (w *Walk) tried(s step.Step) step.Step {
	s.Bounds = w.Deployment.Bounds(w.Layout, s.Manifest)
	if len(w.Deployment.Tries) > 0 {
		s.Tries = w.Deployment.Tries[deployment.EntryKey{Target: s.Target, Event: s.Event}]
	}
	return s
}

// end yields the end of a deployment, after its closing stages. Where what ends it may change
// in the meantime, that is recorded first.
func (w *Walk) end(end step.Step, as deployment.Status) bool {
	failed := w.Deployment.FailedAt(w.Layout)
	if as == deployment.Failed || !w.Deployment.AwaitsClosing(w.Layout, as, failed) {
		return w.close(end, as, failed)
	}
	asked := w.step(w.Pipeline, record.EndRequested)
	asked.Ends, asked.Cause, asked.SupersededBy = string(as), end.Cause, end.SupersededBy
	return w.Yield(asked)
}

// asked yields the end that was asked for.
func (w *Walk) asked() bool {
	end := w.step(w.Pipeline, map[deployment.Status]string{
		deployment.Cancelled: record.PipelineCancelled, deployment.PassedOver: record.PipelineSkipped, deployment.Superseded: record.PipelineSuperseded,
	}[w.Deployment.End.As])
	if end.Event == "" {
		end.Event = record.PipelineFailed
	}
	end.Cause, end.By, end.SupersededBy = w.Deployment.End.Cause, w.Deployment.End.By, w.Deployment.End.SupersededBy
	return w.close(end, w.Deployment.End.As, w.Deployment.BrokenAt(w.Layout))
}

// close yields what the closing stages have to do, and then the end of the deployment.
func (w *Walk) close(end step.Step, as deployment.Status, failed int) bool {
	closes := false
	for i := range w.Layout.Stages {
		closes = closes || w.Deployment.Closes(w.Layout, i, as, failed)
	}
	if !closes {
		return w.Yield(end)
	}
	inClosing := func(o *step.Work) bool {
		return o.Place.Stage != deployment.None && w.Layout.Stages[o.Place.Stage].Closing()
	}
	if work := w.own(func(o *step.Work) bool { return !inClosing(o) }); work != nil {
		return w.unless(work, end)
	}
	w.Outcome = step.Outcome{Status: string(as), Cause: end.Cause}
	if failed != deployment.None {
		w.Outcome.Stage = w.Layout.Stages[failed].Name
	}
	open := false
	for i := range w.Layout.Stages {
		if !w.Deployment.Closes(w.Layout, i, as, failed) || w.Deployment.HasClosed(i) {
			continue
		}
		open = true
		switch {
		case w.Deployment.Stages[i].Begun:
			if !w.stage(i) {
				return false
			}
		case w.ClosesAfter(i, as, failed) == deployment.None && !w.KeptOut(i):
			if !w.enter(i) {
				return false
			}
		}
	}
	if open {
		return true
	}
	return w.unless(w.own(inClosing), end)
}

// ClosesAfter returns a closing stage that has to end before another one begins, or None.
func (w *Walk) ClosesAfter(i int, as deployment.Status, failed int) int {
	for _, before := range w.Layout.Stages[i].Ancestors {
		if w.Deployment.Closes(w.Layout, before, as, failed) && !w.Deployment.HasClosed(before) {
			return before
		}
	}
	return deployment.None
}

// Ending returns how a deployment is about to end otherwise than well, if it is.
func (w *Walk) Ending() (as deployment.Status, failed int, is bool) {
	if w.Deployment.End != nil {
		return w.Deployment.End.As, w.Deployment.BrokenAt(w.Layout), true
	}
	failed = w.Deployment.FailedAt(w.Layout)
	return deployment.Failed, failed, failed != deployment.None
}

// flies reports whether a host is in flight, also by what is done there, or was tried, of
// which no event of its own tells yet.
func (w *Walk) flies(i, g int, h int32) bool {
	run := &w.Deployment.Stages[i].Groups[g].Hosts[h]
	if run.InFlight() || !run.Reopened || run.Closed {
		return run.InFlight()
	}
	t := w.Layout.Stages[i].Groups[g].Hosts[h].Target
	for k := range w.Deployment.Tries {
		if k.Target == t {
			return true
		}
	}
	return w.Work.FirstAt(t, func(o *step.Work) bool { return o.Deployment == w.Deployment.ID }) != nil
}

// flying is how many hosts of a group are in flight.
func (w *Walk) flying(i, g int) int {
	run := &w.Deployment.Stages[i].Groups[g]
	n := run.InFlight
	if run.Reopened == 0 {
		return n
	}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		if run.Hosts[h].Reopened && w.flies(i, g, h) {
			n++
		}
	}
	return n
}

// hosts yields the next steps of the open hosts of a group. No more begin than may be in
// flight at once: so many hosts may break beyond those that may fail.
func (w *Walk) hosts(i, g int) bool {
	group, run := &w.Layout.Stages[i].Groups[g], &w.Deployment.Stages[i].Groups[g]
	left := w.flying(i, g)
	room := group.MostInFlight(len(group.Hosts)) - left
	var why reason.Reason
	if w.Waits != nil && room < run.Open-left {
		why = w.inFlightReason(i, g, left)
	}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		at, flies := deployment.Place{Stage: i, Group: g, Host: int(h)}, w.flies(i, g, h)
		if !flies && room <= 0 {
			if w.Waits != nil {
				w.Waits(at, why)
			} else if left <= 0 {
				return true // all others have to wait
			}
			continue
		}
		step := w.Host(at)
		work := w.beside(step)
		switch {
		case flies:
			left--
		case work == nil: // else it does not begin yet
			room--
		}
		if !w.unless(work, step) {
			return false
		}
	}
	return true
}

// inFlightReason is why a host of a group does not begin: the first of those in flight.
func (w *Walk) inFlightReason(i, g, flying int) reason.Reason {
	group, run := &w.Layout.Stages[i].Groups[g], &w.Deployment.Stages[i].Groups[g]
	r := reason.Reason{Code: reason.AwaitsFlight, Name: group.Name, Cause: fmt.Sprintf("%d of %d, and max_in_flight lets %d", flying, len(group.Hosts), group.MostInFlight(len(group.Hosts)))}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		if w.flies(i, g, h) {
			k, _ := run.Hosts[h].Marks.Began()
			r.By, r.ByEvent, r.Seq = group.Hosts[h].Target, k.Event, k.Seq
			break
		}
	}
	return r
}

// awaitsApproval yields, for a stage that waits for approval, its failure when that does not
// come in time. Where fewer are needed since the pipeline changed, there may be enough.
func (w *Walk) awaitsApproval(i int) bool {
	stage := &w.Layout.Stages[i]
	if len(w.Deployment.Approvals[stage.Target]) > 0 && w.Deployment.Approval(stage).Missing() == 0 {
		return w.Yield(w.inStage(i, record.StageApproved))
	}
	return w.late(i, fmt.Sprintf("it was not approved within %s", stage.Approval.Expires))
}

// awaitsArtifact yields, for a stage that waits for an artifact, its failure when that does
// not come in time.
func (w *Walk) awaitsArtifact(i int, kind string) bool {
	return w.late(i, fmt.Sprintf("artifact %s was not received within %s", kind, w.Layout.Stages[i].Build.Timeout))
}

// late yields the failure of a stage that waits for others only so long.
func (w *Walk) late(i int, cause string) bool {
	failed := w.inStage(i, record.StageFailed)
	failed.NotBefore, failed.Cause = w.Deployment.Deadline(&w.Layout.Stages[i]), cause
	return failed.NotBefore.IsZero() || w.Yield(failed)
}

// Straggler is the first work of another deployment in a batch.
func Straggler(in [][]*step.Work, batch int, d *deployment.Deployment) (first *step.Work) {
	if in == nil {
		return nil
	}
	for _, w := range in[batch] {
		if w.Deployment != d.ID && (first == nil || w.Seq < first.Seq || w.Seq == first.Seq && w.Target < first.Target) {
			first = w
		}
	}
	return first
}
