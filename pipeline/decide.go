package pipeline

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Can is what the caller of Decide is able to do.
type Can struct {
	Work func(Step) bool // begin the work of a step; nil is always
}

// Decide yields what is doable and unlocked, older revisions first, within one
// in the order of the pipeline. All steps of one pass may be done at once; a step
// in progress is yielded again until its event is recorded. One whose work failed is
// not yielded while that rests. A caller that has enough work stops iterating, which
// makes the rest cost nothing. Nothing may be applied to the state while it is iterated.
func (s *State) Decide(now time.Time, can Can) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		s.doable(func(step Step) bool {
			if step.NotBefore.After(now) {
				return true
			}
			return step.Work() && (step.Tries.rest(now) || can.Work != nil && !can.Work(step)) || yield(step)
		})
	}
}

// doable yields what Decide does, and what rests.
func (s *State) doable(yield func(Step) bool) {
	if s.currentLayout() == nil {
		return
	}
	held, stragglers, newest := s.batchHolders(), s.stragglers(), s.newestAt()
	for _, d := range s.deployments {
		w := s.walkOf(d, held, stragglers, yield, nil)
		w.superseded = s.supersededBy(d, newest)
		if d.status == Running && !w.walk() {
			return
		}
	}
}

// Wake is when the first of the steps may be tried again that failed and may be done, or
// the first artifact must have been received, which may be past. Zero is never: nothing else
// depends on the time.
func (s *State) Wake() time.Time {
	tries, deadline := s.wake(func(Tries) bool { return true }), s.Deadline(time.Time{})
	if tries.IsZero() || !deadline.IsZero() && deadline.Before(tries) {
		return deadline
	}
	return tries
}

// Rests is when the first of those steps may be tried again that may not be now.
func (s *State) Rests(now time.Time) time.Time {
	return s.wake(func(t Tries) bool { return t.rest(now) })
}

func (s *State) wake(such func(Tries) bool) (first time.Time) {
	if !slices.ContainsFunc(s.deployments, func(d *deployment) bool { return d.status == Running && len(d.tries) > 0 }) {
		return first
	}
	s.doable(func(step Step) bool {
		if next := step.Tries.Next(); step.Tries.Failed > 0 && such(step.Tries) && (first.IsZero() || next.Before(first)) {
			first = next
		}
		return true
	})
	return first
}

// batchHolders is, for each batch, the deployment in it.
func (s *State) batchHolders() []*deployment {
	holders := make([]*deployment, len(s.layout.batches))
	for _, d := range s.deployments {
		for b := range holders {
			if holders[b] == nil && d.holds(s.layout.batches[b]) {
				holders[b] = d
			}
		}
	}
	return holders
}

// walk goes through one deployment; its methods return false once the caller has
// enough.
type walk struct {
	l          *layout
	d          *deployment
	holders    []*deployment // by batch
	stragglers [][]*Work     // by batch
	work       *underway
	yield      func(Step) bool
	superseded string                     // by which revision
	keptOut    func(stage int) bool       // it must not be entered
	awaits     func(Step, *Work)          // is called with what would be yielded but for work; may be nil
	passedOver func() (cause string)      // "" unless a fix has gone by the deployment while it waits
	waits      func(at place, why Reason) // is called with a host that has to wait; nil is not
	pipeline   deploylog.Target
}

// unless yields a step, unless it has to wait for the end of work.
func (w *walk) unless(work *Work, step Step) bool {
	if work == nil {
		return w.yield(step)
	}
	if w.awaits != nil {
		w.awaits(step, work)
	}
	return true
}

// own is the first work of the deployment that is such.
func (w *walk) own(such func(*Work) bool) *Work {
	return w.work.first(func(o *Work) bool { return o.Deployment == w.d.id && such(o) })
}

// beside is work at the target of a step that is not its own: a host does one thing of a
// pipeline at a time.
func (w *walk) beside(step Step) *Work {
	if len(w.work.at) == 0 || isFailure(step.Event) {
		return nil
	}
	return w.work.firstAt(step.Target, func(o *Work) bool { return o.Deployment != step.Deployment || o.Event != step.Event })
}

// walkOf is the walk through a deployment. What does not begin because it is paused is not
// yielded; kept, unless it is nil, is called with its stage, and why.
func (s *State) walkOf(d *deployment, holders []*deployment, stragglers [][]*Work, yield func(Step) bool, kept func(stage int, why Reason)) walk {
	w := walk{l: s.layout, d: d, holders: holders, stragglers: stragglers, work: &s.work, pipeline: s.target, yield: yield, keptOut: func(i int) bool {
		_, is := s.keptOut(d, i)
		return is
	}, passedOver: func() string { return s.passedOver(d) }}
	if len(s.paused) > 0 {
		w.yield = func(step Step) bool {
			if !step.begins() {
				return yield(step)
			}
			i := w.l.stageAt[StageTarget(s.name, step.Stage)]
			why, paused := s.pause(d, &w.l.stages[i])
			if paused && kept != nil {
				kept(i, why)
			}
			return paused || yield(step)
		}
	}
	return w
}

// keptOut finds why a deployment whose turn it is does not enter a stage.
func (s *State) keptOut(d *deployment, stage int) (why Reason, is bool) {
	if d.rollback != nil { // others are kept out for it
		return s.pause(d, &s.layout.stages[stage])
	}
	if why, is = s.stoppedBy(d, stage); is {
		return why, true
	}
	if why, is = s.fixAhead(d); is && d.worksIn(s.layout) != none {
		return why, true
	}
	return s.pause(d, &s.layout.stages[stage])
}

func (w *walk) step(t deploylog.Target, event string) Step {
	return Step{Deployment: w.d.id, Revision: w.d.revision, Target: t, Event: event, Attempt: w.d.attempt}
}

func (w *walk) walk() bool {
	if w.superseded != "" {
		step := w.step(w.pipeline, EventSuperseded)
		step.SupersededBy = w.superseded
		return w.yield(step)
	}
	for i := range w.l.stages {
		if k, bad := w.d.stages[i].marks.find(stageFailed); bad { // nothing new begins
			failed := w.step(w.pipeline, pipelineFailed)
			failed.Cause = fmt.Sprintf("stage %s failed: %s", w.l.stages[i].Name, k.cause)
			return w.yield(failed)
		}
	}
	if cause := w.d.aimless(w.l); cause != "" {
		failed := w.step(w.pipeline, pipelineFailed)
		failed.Cause = cause
		return w.yield(failed)
	}
	if w.d.left == 0 {
		return w.unless(w.own(func(*Work) bool { return true }), w.step(w.pipeline, pipelineFinished))
	}
	if cause := w.passedOver(); cause != "" {
		over := w.step(w.pipeline, EventSkipped)
		over.Cause = cause
		return w.yield(over)
	}
	for i := range w.l.stages {
		run := &w.d.stages[i]
		switch {
		case run.passed:
		case run.begun:
			if !w.stage(i) {
				return false
			}
		case w.d.reached(&w.l.stages[i]) && !w.keptOut(i):
			if !w.enter(i) {
				return false
			}
		}
	}
	return true
}

// reached reports whether all stages before are passed: a stage joins its paths.
func (d *deployment) reached(stage *stageLayout) bool {
	for _, b := range stage.before {
		if !d.stages[b].passed {
			return false
		}
	}
	return true
}

// enter takes the batches that begin with a stage, if they are free.
func (w *walk) enter(i int) bool {
	for _, b := range w.l.stages[i].opens {
		if w.holders[b] != nil {
			return true
		}
	}
	for _, b := range w.l.stages[i].opens {
		if work := straggler(w.stragglers, b, w.d); work != nil {
			return w.unless(work, w.inStage(i, stageStarted))
		}
	}
	for _, b := range w.l.stages[i].opens {
		w.holders[b] = w.d
	}
	return w.yield(w.inStage(i, stageStarted))
}

func (w *walk) inStage(i int, event string) Step {
	s := w.step(w.l.stages[i].target, event)
	s.Stage = w.l.stages[i].Name
	return s
}

// stage yields what may happen in a stage that has begun.
func (w *walk) stage(i int) bool {
	stage, run := &w.l.stages[i], &w.d.stages[i]
	if k, bad := run.marks.failure(); bad {
		failed := w.inStage(i, stageFailed)
		failed.Cause = k.cause
		return w.yield(failed)
	}
	manifest, retries := stage.Once()
	switch {
	case stage.Deploy != nil:
		return w.deploy(i)
	case stage.Approval != nil && !run.marks.has(EventApproved):
		return true
	case stage.Build != nil && stage.Build.Manifest == "":
		for k := range stage.Build.Artifacts {
			if w.d.awaits(stage, run, k) {
				return w.awaitsArtifact(i, stage.Build.Artifacts[k])
			}
		}
	case stage.Environment != "" && !run.marks.has(EventDeployed):
		work := w.inStage(i, EventDeployed)
		work.Environment = stage.Environment
		if w.d.rollback != nil {
			work.Original = w.d.rollback.Original
		}
		return w.unless(w.beside(work), w.tried(work))
	case manifest != "" && !run.marks.has(EventApplied):
		work := w.inStage(i, EventApplied)
		as := w.d.applies(stage.unit, manifest)
		work.Manifest, work.Files, work.Retries = as.manifest, as.files, retries
		work.Timeout = stage.Timeout()
		if stage.Build != nil {
			for k, kind := range stage.Build.Artifacts {
				if w.d.awaits(stage, run, k) {
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
	end := w.inStage(i, stageFinished)
	if w.l.stages[i].Deploy != nil {
		end.Skipped = w.skipped(i)
	}
	return w.unless(w.own(func(o *Work) bool { return o.place.stage == i }), end)
}

// awaits reports whether an artifact is missing. A kind that was introduced after
// the revision was registered is not waited for.
func (d *deployment) awaits(stage *stageLayout, run *stageRun, kind int) bool {
	return !d.cameLater(stage, kind) && !run.marks.has(definition.ArtifactReceived(stage.Build.Artifacts[kind]))
}

func (w *walk) deploy(i int) bool {
	stage, run := &w.l.stages[i], &w.d.stages[i]
	finished := true
	for g := range stage.groups {
		if k, bad := run.groups[g].marks.failure(); bad && !run.groups[g].finished {
			failed := w.inStage(i, stageFailed)
			failed.Cause = fmt.Sprintf("host group %s failed: %s", stage.groups[g].Name, k.cause)
			return w.yield(failed)
		}
		finished = finished && run.groups[g].finished
	}
	if finished {
		return w.finishStage(i)
	}
	for g := range stage.groups {
		if !run.groups[g].finished && !w.group(i, g) {
			return false
		}
	}
	return true
}

func (w *walk) group(i, g int) bool {
	group, run := &w.l.stages[i].groups[g], &w.d.stages[i].groups[g]
	marker := func(event string) Step {
		s := w.inStage(i, event)
		s.Target, s.Group = group.target, group.Name
		return s
	}
	switch budget := group.MaxFailed.Of(len(group.hosts)); {
	case run.failed > budget:
		failed := marker(groupFailed)
		failed.Cause = fmt.Sprintf("%d of %d hosts failed, %d may: %s", run.failed, len(group.hosts), budget, run.cause(group))
		return w.yield(failed)
	case !run.begun:
		return w.yield(marker(groupStarted))
	case !group.known || group.holds():
		return true
	case run.open == 0:
		end := marker(groupFinished)
		end.Skipped = w.skipped(i, g)
		return w.unless(w.own(func(o *Work) bool { return o.place.stage == i && o.place.group == g }), end)
	}
	return w.hosts(i, g)
}

// cause is how the first host failed.
func (g *groupRun) cause(group *groupLayout) string {
	for h := range g.hosts {
		if g.hosts[h].failed {
			k, _ := g.hosts[h].marks.failure()
			return fmt.Sprintf("%s: %s", group.hosts[h].name, k.describe())
		}
	}
	return ""
}

// host is the next step of an open host.
func (w *walk) host(at place) Step {
	stage := &w.l.stages[at.stage]
	layout, host := &stage.groups[at.group].hosts[at.host], &w.d.stages[at.stage].groups[at.group].hosts[at.host]
	next := w.d.next(stage, host)
	s := w.step(layout.target, stage.chain[next])
	s.Stage, s.Group, s.Host = stage.Name, stage.groups[at.group].Name, layout.name
	switch {
	case host.stepFailed:
		k, _ := host.marks.failure()
		s.Event, s.Cause = hostFailed, k.describe()
	case next > 0 && next < len(stage.chain)-1:
		step := &stage.Deploy.Steps[next-1]
		as := w.d.applies(stage.units[next-1], step.Manifest)
		s.Manifest, s.Files, s.Retries = as.manifest, as.files, step.Retries
		s.Timeout = time.Duration(step.Timeout)
		s = w.tried(s)
	case next == len(stage.chain)-1:
		missing := make([]bool, len(stage.chain))
		s.Skipped = stage.skips(missing, stage.missing(host.marks, missing))
	}
	return s
}

// tried adds the tries that have failed to a step that takes work.
func (w *walk) tried(s Step) Step {
	if len(w.d.tries) > 0 {
		s.Tries = w.d.tries[entryKey{s.Target, s.Event}]
	}
	return s
}

// next is the index in the chain of the next event of an open host. What lies
// before the last event is not new.
func (d *deployment) next(stage *stageLayout, host *hostRun) int {
	next := int(host.last) + 1
	for _, step := range stage.introduced {
		if step.at == next && d.skips(step) {
			next++
		}
	}
	return next
}

// skips reports whether an introduced step that is new on a host is left out all
// the same: the revision is older than the step, has not adopted it, and skipped it
// elsewhere.
func (d *deployment) skips(step introduction) bool {
	if !d.older(step) {
		return false
	}
	if d.rollback != nil { // what was there did not have it
		return true
	}
	_, gone := d.skipped[step.event]
	return gone
}

// older reports whether the revision was registered before something was introduced, and
// has not adopted it.
func (d *deployment) older(step introduction) bool {
	return cmp.Or(d.age, d.order) <= step.after && !d.adopted[step.unit]
}

// cameLater reports whether the revision is older than a kind of artifact.
func (d *deployment) cameLater(stage *stageLayout, kind int) bool {
	return slices.ContainsFunc(stage.introducedKinds, func(k introduction) bool { return k.at == kind && d.older(k) })
}
