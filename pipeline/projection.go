package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// disposition is what becomes of an entry that has not happened.
type disposition int

const (
	upcoming disposition = iota // it will be done in its turn
	ready                       // its turn is now
	blocked                     // its turn is now, and something holds it
	skipped                     // it will not be done
)

// pendingEntry is an entry of a deployment that has not happened. What is skipped of
// a stage, group or host that never began has one entry, that of its beginning.
type pendingEntry struct {
	place
	target      deploylog.Target
	event       string
	disposition disposition
	reason      Reason // of ready, blocked and left
}

// projection finds all pending entries of one deployment. What Decide yields is
// ready: both go through the deployment with the same walk.
type projection struct {
	s          *State
	d          *deployment
	holders    []*deployment // of batches, as of the deployment's turn
	superseded string        // by which revision
	stragglers [][]*Work
	ready      map[entryKey]bool
	awaits     map[entryKey]*Work // what would be ready but for work
	entries    []pendingEntry
}

type entryKey struct {
	target deploylog.Target
	event  string
}

// origin is an event that is responsible for the disposition of an entry.
type origin struct {
	target deploylog.Target
	mark   mark
}

// projections yields the pending entries of all deployments, oldest first.
func (s *State) projections(yield func(*deployment, []pendingEntry)) {
	if s.currentLayout() == nil {
		return
	}
	held, stragglers, newest := s.batchHolders(), s.stragglers(), s.newestAt()
	for _, d := range s.deployments {
		p := projection{
			s: s, d: d, holders: slices.Clone(held), stragglers: stragglers, superseded: s.supersededBy(d, newest),
			ready: map[entryKey]bool{}, awaits: map[entryKey]*Work{},
		}
		p.project(held)
		yield(d, p.entries)
	}
}

// project goes through the deployment as Decide does: the older deployments have
// taken their batches from holders, and this one takes its own.
func (o *projection) project(held []*deployment) {
	if o.d.status != Running {
		o.addEnded()
		return
	}
	w := o.s.walkOf(o.d, held, o.stragglers, func(step Step) bool {
		if !step.NotBefore.IsZero() {
			return true // when nobody does what is waited for, which is told there
		}
		at, ok := o.s.layout.place(step.Target)
		if !ok {
			at = place{none, none, none}
		}
		o.ready[entryKey{step.Target, step.Event}] = true
		why, failed := step.tried()
		if !failed {
			why = Reason{Code: Ready, Cause: step.Cause}
		}
		if w := o.s.work.all[workKey{step.Deployment, step.Target, step.Event}]; w != nil {
			why.Since = w.Since
		}
		if step.SupersededBy != "" {
			why.Holder, why.Cause = step.SupersededBy, supersededText(step.SupersededBy)
		}
		o.add(at, step.Target, step.Event, ready, why)
		return true
	}, o.addKept)
	w.superseded = o.superseded
	w.awaits = func(step Step, work *Work) { o.awaits[entryKey{step.Target, step.Event}] = work }
	w.waits = func(at place, why Reason) {
		step := w.host(at)
		o.add(at, step.Target, step.Event, blocked, why)
		o.ready[entryKey{step.Target, step.Event}] = true // it is added already
	}
	w.walk()
	if o.superseded != "" {
		return
	}
	for i := range o.s.layout.stages {
		if !o.d.elsewhere(&o.s.layout.stages[i]) {
			o.stage(i)
		}
	}
	o.addUpcoming(place{none, none, none}, o.s.target, pipelineFinished)
}

func (o *projection) add(at place, t deploylog.Target, event string, f disposition, why Reason) {
	why.Revision, why.Deployment, why.Target, why.Event = o.d.revision, o.d.id, t, event
	o.entries = append(o.entries, pendingEntry{place: at, target: t, event: event, disposition: f, reason: why})
}

// addKept adds, once, why nothing begins in a stage that has begun.
func (o *projection) addKept(stage int, why Reason) {
	t := o.s.layout.stages[stage].target
	if !slices.ContainsFunc(o.entries, func(p pendingEntry) bool { return p.target == t && p.disposition == blocked }) {
		o.add(place{stage, none, none}, t, stageFinished, blocked, why)
	}
}

// addUpcoming adds what will be done, unless it is known to be ready. It may have to wait
// for work.
func (o *projection) addUpcoming(at place, t deploylog.Target, event string) {
	switch k := (entryKey{t, event}); {
	case o.ready[k]:
	case o.awaits[k] != nil:
		o.add(at, t, event, blocked, o.awaits[k].reason())
	default:
		o.add(at, t, event, upcoming, Reason{})
	}
}

func (o *projection) addNotNew(at place, t deploylog.Target, event string, by origin) {
	o.add(at, t, event, skipped, Reason{Code: NotNew, By: by.target, ByEvent: by.mark.event, Seq: by.mark.seq})
}

// addEnded adds why a deployment that ended does not proceed.
func (o *projection) addEnded() {
	d, l := o.d, o.s.layout
	why := Reason{Code: HasFailed, By: o.s.target, ByEvent: d.ended.event, Seq: d.ended.seq, Cause: d.ended.cause}
	switch d.status {
	case Cancelled:
		why.Code = WasCancelled
	case PassedOver:
		why.Code = WasSkipped
	case Superseded:
		why.Code, why.Holder = WasSuperseded, o.s.revisions[d.order-1].SupersededBy
	default: // it has failed
	}
	o.add(place{none, none, none}, o.s.target, pipelineFinished, blocked, why)
	for _, w := range o.s.work.sorted() {
		if w.Deployment == d.id {
			o.add(w.place, w.Target, w.Event, blocked, w.reason())
		}
	}
	for i := range l.stages {
		o.addFailure(place{i, none, none}, l.stages[i].target, stageFinished, d.stages[i].marks)
		for g := range l.stages[i].groups {
			group, run := &l.stages[i].groups[g], &d.stages[i].groups[g]
			o.addFailure(place{i, g, none}, group.target, groupFinished, run.marks)
			for h := range group.hosts {
				o.addFailure(place{i, g, h}, group.hosts[h].target, hostFinished, run.hosts[h].marks)
			}
		}
	}
}

func (o *projection) addFailure(at place, t deploylog.Target, event string, m *marks) {
	if k, bad := m.failure(); bad {
		o.add(at, t, event, blocked, Reason{Code: HasFailed, By: t, ByEvent: k.event, Seq: k.seq, Cause: k.describe()})
	}
}

func (o *projection) stage(i int) {
	stage, run := &o.s.layout.stages[i], &o.d.stages[i]
	at := place{i, none, none}
	switch {
	case run.passed:
		by := o.passedBy(i)
		if !run.begun {
			o.addNotNew(at, stage.target, stageStarted, by)
			return
		}
		o.insideStage(i, &by)
		if !run.marks.has(stageFinished) {
			o.addNotNew(at, stage.target, stageFinished, by)
		}
		return
	case run.begun:
	case o.ready[entryKey{stage.target, stageStarted}]:
	default:
		for _, why := range o.enteringReasons(i) {
			o.add(at, stage.target, stageStarted, blocked, why)
		}
	}
	o.insideStage(i, nil)
	o.addUpcoming(at, stage.target, stageFinished)
}

// passedBy is why nothing in a stage is new: its own end, or the first event in a
// stage behind it.
func (o *projection) passedBy(i int) origin {
	l := o.s.layout
	if k, ok := o.d.stages[i].marks.find(stageFinished); ok {
		return origin{l.stages[i].target, k}
	}
	var by origin
	note := func(t deploylog.Target, m *marks) {
		if k, ok := m.began(); ok && (by.mark.seq == 0 || k.seq < by.mark.seq) {
			by = origin{t, k}
		}
	}
	for j := range l.stages {
		if !slices.Contains(l.stages[j].ancestors, i) {
			continue
		}
		note(l.stages[j].target, o.d.stages[j].marks)
		for g := range l.stages[j].groups {
			group, run := &l.stages[j].groups[g], &o.d.stages[j].groups[g]
			note(group.target, run.marks)
			for h := range group.hosts {
				note(group.hosts[h].target, run.hosts[h].marks)
			}
		}
	}
	return by
}

// enteringReasons is why a stage that has not begun does not.
func (o *projection) enteringReasons(i int) []Reason {
	stage := &o.s.layout.stages[i]
	var reasons []Reason
	for _, b := range stage.before {
		if !o.d.stages[b].passed {
			reasons = append(reasons, Reason{Code: AwaitsStage, Name: o.s.layout.stages[b].Name, By: o.s.layout.stages[b].target})
		}
	}
	if len(reasons) > 0 {
		return reasons
	}
	if why, is := o.s.keptOut(o.d, i); is {
		return []Reason{why}
	}
	for _, b := range stage.opens {
		if holder := o.holders[b]; holder != nil && holder != o.d {
			return []Reason{o.heldBy(holder, o.s.layout.batches[b])}
		}
	}
	if w := o.awaits[entryKey{stage.target, stageStarted}]; w != nil {
		reasons = append(reasons, w.reason())
	}
	return reasons
}

func (o *projection) heldBy(holder *deployment, b span) Reason {
	stages := o.s.layout.stages
	r := Reason{Code: AwaitsBatch, Holder: holder.revision, Name: stages[b.from].Name, To: stages[b.to].Name, By: stages[b.from].target}
	for i := b.from; i <= b.to; i++ { // where in the batch it is
		run := &holder.stages[i]
		if run.begun && !run.passed {
			r.Name, r.By = stages[i].Name, stages[i].target
		}
	}
	if k, ok := holder.marks[r.By].began(); ok {
		r.ByEvent, r.Seq = k.event, k.seq
	}
	return r
}

// insideStage goes through a stage; by is why nothing in it is new, if so.
func (o *projection) insideStage(i int, by *origin) {
	stage, run := &o.s.layout.stages[i], &o.d.stages[i]
	at := place{i, none, none}
	needs := func(event string, why Reason) {
		switch {
		case run.marks.has(event):
		case by != nil:
			o.addNotNew(at, stage.target, event, *by)
		case run.begun && why.Code != "":
			o.add(at, stage.target, event, blocked, why)
		default:
			o.addUpcoming(at, stage.target, event)
		}
	}
	manifest, _ := stage.Once()
	switch {
	case stage.Deploy != nil:
		for g := range stage.groups {
			o.group(i, g, by)
		}
	case stage.Approval != nil:
		needs(EventApproved, Reason{Code: AwaitsApproval, Name: stage.Name})
	case stage.Environment != "":
		needs(EventDeployed, Reason{})
	case manifest != "":
		needs(EventApplied, Reason{})
	case stage.Build != nil:
		for k, kind := range stage.Build.Artifacts {
			switch event := definition.ArtifactReceived(kind); {
			case o.d.awaits(stage, run, k):
				needs(event, Reason{Code: AwaitsArtifact, Name: kind, Until: o.d.deadline(stage)})
			case !run.marks.has(event):
				o.add(at, stage.target, event, skipped, Reason{Code: CameLater, By: o.s.target, ByEvent: EventDefined, Seq: o.s.defined, Name: kind})
			}
		}
	}
}

func (o *projection) group(i, g int, by *origin) {
	stage := &o.s.layout.stages[i]
	group, run := &stage.groups[g], &o.d.stages[i].groups[g]
	at := place{i, g, none}
	if k, ok := run.marks.find(groupFinished); ok {
		by = &origin{group.target, k}
	}
	if !run.begun {
		if by != nil {
			o.addNotNew(at, group.target, groupStarted, *by)
			return
		}
		o.addUpcoming(at, group.target, groupStarted)
	}
	if !group.known && run.begun && by == nil {
		o.add(at, group.target, groupFinished, blocked, Reason{Code: AwaitsMembers, Name: group.Name})
		return
	}
	for h := range group.hosts {
		o.host(place{i, g, h}, by)
	}
	switch {
	case run.finished:
	case by != nil:
		o.addNotNew(at, group.target, groupFinished, *by)
	case run.begun && group.holds():
		o.add(at, group.target, groupFinished, blocked, o.s.holdReason(group))
	default:
		o.addUpcoming(at, group.target, groupFinished)
	}
}

func (o *projection) host(at place, by *origin) {
	stage := &o.s.layout.stages[at.stage]
	t, run := stage.groups[at.group].hosts[at.host].target, &o.d.stages[at.stage].groups[at.group].hosts[at.host]
	switch {
	case run.failed:
		o.addFailure(at, t, hostFinished, run.marks)
		return
	case run.marks == nil && by != nil:
		o.addNotNew(at, t, hostStarted, *by)
		return
	}
	for c, event := range stage.chain {
		switch {
		case run.marks.has(event):
		case c < int(run.last):
			later, _ := run.marks.find(stage.chain[run.last])
			o.addNotNew(at, t, event, origin{t, later})
		case by != nil:
			o.addNotNew(at, t, event, *by)
		case o.skipsLate(stage, c):
			gone := o.d.skipped[event]
			o.add(at, t, event, skipped, Reason{Code: LeftOut, By: gone.target, ByEvent: gone.mark.event, Seq: gone.mark.seq, Name: event})
		default:
			o.addUpcoming(at, t, event)
		}
	}
}

func (o *projection) skipsLate(stage *stageLayout, at int) bool {
	for _, step := range stage.introduced {
		if step.at == at {
			return o.d.skips(step)
		}
	}
	return false
}
