package pipeline

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Can is what the caller of Decide is able to do.
type Can struct {
	Work func(step.Step) bool // begin the work of a step; nil is always
}

// Decide yields what is doable and unlocked, older revisions first, within one
// in the order of the pipeline. All steps of one pass may be done at once; a step
// in progress is yielded again until its event is recorded. One whose work failed is
// not yielded while that rests. A caller that has enough work stops iterating, which
// makes the rest cost nothing. Nothing may be applied to the state while it is iterated.
func (s *State) Decide(now time.Time, can Can) iter.Seq[step.Step] {
	return func(yield func(step.Step) bool) {
		s.doable(func(step step.Step) bool {
			if step.NotBefore.After(now) {
				return true
			}
			return step.Work() && (step.Tries.Rest(now) || can.Work != nil && !can.Work(step)) || yield(step)
		})
	}
}

// doable yields what Decide does, and what rests.
func (s *State) doable(yield func(step.Step) bool) {
	if s.currentLayout() == nil {
		return
	}
	held, stragglers, newest := s.batchHolders(), s.stragglers(), s.newestAt()
	for _, d := range s.deployments {
		w := s.walkOf(d, held, stragglers, yield, nil)
		w.superseded = s.supersededBy(d, newest)
		if d.Status == deployment.Running && !w.walk() {
			return
		}
	}
}

// Wake is when the first of the steps may be tried again that failed and may be done, or
// the first artifact or approval must have come, which may be past. Zero is never: nothing else
// depends on the time.
func (s *State) Wake() time.Time {
	tries, deadline := s.wake(func(deployment.Tries) bool { return true }), s.Deadline(time.Time{})
	if tries.IsZero() || !deadline.IsZero() && deadline.Before(tries) {
		return deadline
	}
	return tries
}

// Rests is when the first of those steps may be tried again that may not be now.
func (s *State) Rests(now time.Time) time.Time {
	return s.wake(func(t deployment.Tries) bool { return t.Rest(now) })
}

func (s *State) wake(such func(deployment.Tries) bool) (first time.Time) {
	if !slices.ContainsFunc(s.deployments, func(d *deployment.Deployment) bool { return d.Status == deployment.Running && len(d.Tries) > 0 }) {
		return first
	}
	s.doable(func(step step.Step) bool {
		if next := step.Tries.Next(); step.Tries.Failed > 0 && such(step.Tries) && (first.IsZero() || next.Before(first)) {
			first = next
		}
		return true
	})
	return first
}

// batchHolders is, for each batch, the deployment in it.
func (s *State) batchHolders() []*deployment.Deployment {
	holders := make([]*deployment.Deployment, len(s.layout.Batches))
	for _, d := range s.deployments {
		for b := range holders {
			if holders[b] == nil && d.Holds(s.layout, s.layout.Batches[b]) {
				holders[b] = d
			}
		}
	}
	return holders
}

// walk goes through one deployment; its methods return false once the caller has
// enough.
type walk struct {
	l          *deployment.Layout
	d          *deployment.Deployment
	holders    []*deployment.Deployment // by batch
	stragglers [][]*step.Work           // by batch
	work       *step.Underway
	yield      func(step.Step) bool
	superseded string                                       // by which revision
	overtaken  string                                       // why it fails in a stage to which it came back
	keptOut    func(stage int) bool                         // it must not be entered
	awaits     func(step.Step, *step.Work)                  // is called with what would be yielded but for work; may be nil
	passedOver func() (cause string)                        // "" unless the deployment waits and is skipped for a fix
	waits      func(at deployment.Place, why reason.Reason) // is called with a host that has to wait; nil is not
	pipeline   deploylog.Target
	outcome    step.Outcome // for closing stages
}

// unless yields a step, unless it has to wait for the end of work.
func (w *walk) unless(work *step.Work, step step.Step) bool {
	if work == nil {
		return w.yield(step)
	}
	if w.awaits != nil {
		w.awaits(step, work)
	}
	return true
}

// own is the first work of the deployment that is such.
func (w *walk) own(such func(*step.Work) bool) *step.Work {
	return w.work.First(func(o *step.Work) bool { return o.Deployment == w.d.ID && such(o) })
}

// beside is work at the target of a step that is not its own: a host does one thing of a
// pipeline at a time.
func (w *walk) beside(s step.Step) *step.Work {
	if len(w.work.At) == 0 || record.IsFailure(s.Event) {
		return nil
	}
	return w.work.FirstAt(s.Target, func(o *step.Work) bool { return o.Deployment != s.Deployment || o.Event != s.Event })
}

// walkOf is the walk through a deployment. What does not begin because it is paused is not
// yielded; kept, unless it is nil, is called with its stage, and why.
func (s *State) walkOf(d *deployment.Deployment, holders []*deployment.Deployment, stragglers [][]*step.Work, yield func(step.Step) bool, kept func(stage int, why reason.Reason)) walk {
	w := walk{overtaken: s.overtaken(d), l: s.layout, d: d, holders: holders, stragglers: stragglers, work: &s.work, pipeline: s.target, yield: yield, outcome: step.Outcome{Status: "succeeded"}, keptOut: func(i int) bool {
		_, is := s.keptOut(d, i)
		return is
	}, passedOver: func() string { return s.passedOver(d) }}
	if len(s.paused) > 0 {
		w.yield = func(step step.Step) bool {
			if !step.Begins() {
				return yield(step)
			}
			i := w.l.StageAt[record.StageTarget(s.name, step.Stage)]
			why, paused := s.pause(d, &w.l.Stages[i])
			if paused && kept != nil {
				kept(i, why)
			}
			return paused || yield(step)
		}
	}
	return w
}

// keptOut finds why a deployment whose turn it is does not enter a stage.
func (s *State) keptOut(d *deployment.Deployment, stage int) (why reason.Reason, is bool) {
	if d.Only() != "" || s.layout.Stages[stage].Closing() { // others are kept out for it
		return s.pause(d, &s.layout.Stages[stage])
	}
	if why, is = s.outcomes.Stopped(s.layout, d, stage, nil); is {
		return why, true
	}
	if why, is = s.skippedFor(d); is && d.WorksIn(s.layout) != deployment.None {
		return why, true
	}
	return s.pause(d, &s.layout.Stages[stage])
}

func (w *walk) step(t deploylog.Target, event string) step.Step {
	return step.Step{Deployment: w.d.ID, Revision: w.d.Revision, Target: t, Event: event, Attempt: w.d.Attempt, Takes: w.d.Takes}
}

func (w *walk) walk() bool {
	if w.d.End != nil {
		return w.asked()
	}
	if w.superseded != "" {
		step := w.step(w.pipeline, record.PipelineSuperseded)
		step.SupersededBy = w.superseded
		return w.end(step, deployment.Superseded)
	}
	for i := range w.l.Stages {
		if k, bad := w.d.Stages[i].Marks.Find(record.StageFailed); bad { // nothing new begins
			failed := w.step(w.pipeline, record.PipelineFailed)
			failed.Cause = fmt.Sprintf("stage %s failed: %s", w.l.Stages[i].Name, k.Cause)
			return w.end(failed, deployment.Failed)
		}
	}
	if cause := cmp.Or(w.d.Aimless(w.l), w.overtaken); cause != "" {
		failed := w.step(w.pipeline, record.PipelineFailed)
		failed.Cause = cause
		return w.end(failed, deployment.Failed)
	}
	if w.d.Left == 0 {
		return w.unless(w.own(func(*step.Work) bool { return true }), w.step(w.pipeline, record.PipelineFinished))
	}
	if cause := w.passedOver(); cause != "" {
		over := w.step(w.pipeline, record.PipelineSkipped)
		over.Cause = cause
		return w.end(over, deployment.PassedOver)
	}
	for i := range w.l.Stages {
		run := &w.d.Stages[i]
		switch {
		case run.Passed:
		case run.Begun:
			if !w.stage(i) {
				return false
			}
		case w.d.Reached(&w.l.Stages[i]) && !w.keptOut(i):
			if !w.enter(i) {
				return false
			}
		}
	}
	return true
}

// enter takes the batches that begin with a stage, if they are free.
func (w *walk) enter(i int) bool {
	for _, b := range w.l.Stages[i].Opens {
		if w.holders[b] != nil {
			return true
		}
	}
	for _, b := range w.l.Stages[i].Opens {
		if work := straggler(w.stragglers, b, w.d); work != nil {
			return w.unless(work, w.inStage(i, record.StageStarted))
		}
	}
	for _, b := range w.l.Stages[i].Opens {
		w.holders[b] = w.d
	}
	return w.yield(w.inStage(i, record.StageStarted))
}

func (w *walk) inStage(i int, event string) step.Step {
	s := w.step(w.l.Stages[i].Target, event)
	s.Stage = w.l.Stages[i].Name
	return s
}

// stage yields what may happen in a stage that has begun.
func (w *walk) stage(i int) bool {
	stage, run := &w.l.Stages[i], &w.d.Stages[i]
	if k, bad := run.Marks.Failure(); bad {
		failed := w.inStage(i, record.StageFailed)
		failed.Cause = k.Cause
		return w.yield(failed)
	}
	manifest, retries := stage.Once()
	switch {
	case stage.Deploy != nil:
		return w.deploy(i)
	case stage.Approval != nil && !run.Marks.Has(record.StageApproved):
		return w.awaitsApproval(i)
	case stage.Build.Elsewhere():
		for k := range stage.Build.Artifacts {
			if w.d.Awaits(stage, run, k) {
				return w.awaitsArtifact(i, stage.Build.Artifacts[k])
			}
		}
	case stage.Environment != "" && !run.Marks.Has(record.StageDeployed):
		work := w.inStage(i, record.StageDeployed)
		work.Environment = stage.Environment
		work.Original, work.RollsBack = w.d.Original, w.d.Rollback != nil
		return w.unless(w.beside(work), w.tried(work))
	case stage.Build != nil && stage.Build.Group != "":
		if run.Marks.Has(record.StageBuilt) {
			return w.finishStage(i)
		}
		work := w.inStage(i, record.StageBuilt)
		as := w.d.Applies(stage.Unit, manifest)
		work.Packages, work.Files, work.Timeout = as.Manifest, as.Files, stage.Timeout()
		work.Artifacts = stage.Build.Packages
		return w.unless(w.beside(work), w.tried(work))
	case manifest != "" && !run.Marks.Has(record.StageApplied):
		work := w.inStage(i, record.StageApplied)
		as := w.d.Applies(stage.Unit, manifest)
		work.Manifest, work.Files, work.Retries = as.Manifest, as.Files, retries
		work.Timeout = stage.Timeout()
		if stage.Closing() {
			outcome := w.outcome
			work.Outcome = &outcome
		}
		if stage.Build != nil {
			for k, kind := range stage.Build.Artifacts {
				if w.d.Awaits(stage, run, k) {
					work.Artifacts = append(work.Artifacts, kind)
				}
			}
		}
		return w.unless(w.beside(work), w.tried(work))
	}
	return w.finishStage(i)
}

// finishStage yields that a stage is finished, unless something of the revision is still
// being done there.
func (w *walk) finishStage(i int) bool {
	end := w.inStage(i, record.StageFinished)
	if w.l.Stages[i].Deploy != nil {
		end.Skipped = w.d.Missed(&w.l.Stages[i], i)
	}
	return w.unless(w.own(func(o *step.Work) bool { return o.Place.Stage == i }), end)
}

func (w *walk) deploy(i int) bool {
	stage, run := &w.l.Stages[i], &w.d.Stages[i]
	finished := true
	for g := range stage.Groups {
		if k, bad := run.Groups[g].Marks.Failure(); bad && !run.Groups[g].Finished {
			failed := w.inStage(i, record.StageFailed)
			failed.Cause = fmt.Sprintf("host group %s failed: %s", stage.Groups[g].Name, k.Cause)
			return w.yield(failed)
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

func (w *walk) group(i, g int) bool {
	group, run := &w.l.Stages[i].Groups[g], &w.d.Stages[i].Groups[g]
	marker := func(event string) step.Step {
		s := w.inStage(i, event)
		s.Target, s.Group = group.Target, group.Name
		return s
	}
	switch budget := group.MaxFailed.Of(len(group.Hosts)); {
	case run.Failed > budget:
		failed := marker(record.GroupFailed)
		failed.Cause = fmt.Sprintf("%d of %d hosts failed, %d may: %s", run.Failed, len(group.Hosts), budget, run.Cause(group))
		return w.yield(failed)
	case !run.Begun:
		return w.yield(marker(record.GroupStarted))
	case !group.Known || group.Holds():
		return true
	case run.Open == 0:
		end := marker(record.GroupFinished)
		end.Skipped = w.d.Missed(&w.l.Stages[i], i, g)
		return w.unless(w.own(func(o *step.Work) bool { return o.Place.Stage == i && o.Place.Group == g }), end)
	}
	return w.hosts(i, g)
}

// host is the next step of an open host.
func (w *walk) host(at deployment.Place) step.Step {
	stage := &w.l.Stages[at.Stage]
	layout, host := &stage.Groups[at.Group].Hosts[at.Host], &w.d.Stages[at.Stage].Groups[at.Group].Hosts[at.Host]
	next := w.d.Next(stage, host)
	s := w.step(layout.Target, stage.Chain[next])
	s.Stage, s.Group, s.Host = stage.Name, stage.Groups[at.Group].Name, layout.Name
	switch {
	case host.StepFailed:
		k, _ := host.Marks.Failure()
		s.Event, s.Cause = record.HostFailed, k.Describe()
	case next > 0 && next < len(stage.Chain)-1:
		step := &stage.Deploy.Steps[next-1]
		as := w.d.Applies(stage.Units[next-1], step.Manifest)
		s.Manifest, s.Files, s.Retries = as.Manifest, as.Files, step.Retries
		s.Timeout = time.Duration(step.Timeout)
		s = w.tried(s)
	case next == len(stage.Chain)-1:
		missing := make([]bool, len(stage.Chain))
		s.Skipped = stage.Skips(missing, stage.Missing(host.Marks, missing))
	}
	return s
}

// tried adds the tries that have failed to a step that takes work.
func (w *walk) tried(s step.Step) step.Step {
	if len(w.d.Tries) > 0 {
		s.Tries = w.d.Tries[deployment.EntryKey{Target: s.Target, Event: s.Event}]
	}
	return s
}
