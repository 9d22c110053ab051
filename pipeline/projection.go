package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
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
	deployment.Place
	target      deploylog.Target
	event       string
	disposition disposition
	reason      reason.Reason // of ready, blocked and left
}

// projection finds all pending entries of one deployment. What Decide yields is
// ready: both go through the deployment with the same walk.
type projection struct {
	s          *State
	d          *deployment.Deployment
	holders    []*deployment.Deployment // of batches, as of the deployment's turn
	superseded string                   // by which revision
	stragglers [][]*step.Work
	ready      map[deployment.EntryKey]bool
	awaits     map[deployment.EntryKey]*step.Work // what would be ready but for work
	entries    []pendingEntry
}

// origin is an event that is responsible for the disposition of an entry.
type origin struct {
	target deploylog.Target
	mark   record.Mark
}

// projections yields the pending entries of all deployments, oldest first.
func (s *State) projections(yield func(*deployment.Deployment, []pendingEntry)) {
	if s.currentLayout() == nil {
		return
	}
	held, stragglers, newest := s.batchHolders(), s.stragglers(), s.newestAt()
	for _, d := range s.deployments {
		p := projection{
			s: s, d: d, holders: slices.Clone(held), stragglers: stragglers, superseded: s.supersededBy(d, newest),
			ready: map[deployment.EntryKey]bool{}, awaits: map[deployment.EntryKey]*step.Work{},
		}
		p.project(held)
		yield(d, p.entries)
	}
}

// project goes through the deployment as Decide does: the older deployments have
// taken their batches from holders, and this one takes its own.
func (o *projection) project(held []*deployment.Deployment) {
	if o.d.Status != deployment.Running {
		o.addEnded()
		return
	}
	w := o.s.walkOf(o.d, held, o.stragglers, func(step step.Step) bool {
		if !step.NotBefore.IsZero() {
			return true // when nobody does what is waited for, which is told there
		}
		at, ok := o.s.layout.Place(step.Target)
		if !ok {
			at = deployment.Place{Stage: deployment.None, Group: deployment.None, Host: deployment.None}
		}
		o.ready[deployment.EntryKey{Target: step.Target, Event: step.Event}] = true
		why, failed := step.Tried()
		if !failed {
			why = reason.Reason{Code: reason.Ready, Cause: step.Cause}
		}
		if w := o.s.work.All[step.Key()]; w != nil {
			why.Since = w.Since
		}
		if step.SupersededBy != "" {
			why.Holder, why.Cause = step.SupersededBy, record.SupersededText(step.SupersededBy)
		}
		o.add(at, step.Target, step.Event, ready, why)
		return true
	}, o.addKept)
	w.Superseded = o.superseded
	w.Awaits = func(step step.Step, work *step.Work) {
		o.awaits[deployment.EntryKey{Target: step.Target, Event: step.Event}] = work
	}
	w.Waits = func(at deployment.Place, why reason.Reason) {
		step := w.Host(at)
		o.add(at, step.Target, step.Event, blocked, why)
		o.ready[deployment.EntryKey{Target: step.Target, Event: step.Event}] = true // it is added already
	}
	w.Do()
	if o.superseded != "" {
		return
	}
	if as, failed, is := w.Ending(); is && o.d.AwaitsClosing(o.s.layout, as, failed) {
		o.closingEntries(&w, as, failed)
		return
	}
	for i := range o.s.layout.Stages {
		if stage := &o.s.layout.Stages[i]; !o.d.Elsewhere(stage) && (stage.When != definition.WhenFailed || o.d.Stages[i].Begun) {
			o.stage(i)
		}
	}
	o.addUpcoming(deployment.Place{Stage: deployment.None, Group: deployment.None, Host: deployment.None}, o.s.target, record.PipelineFinished)
}

func (o *projection) add(at deployment.Place, t deploylog.Target, event string, f disposition, why reason.Reason) {
	why.Revision, why.Deployment, why.Target, why.Event = o.d.Revision, o.d.ID, t, event
	o.entries = append(o.entries, pendingEntry{Place: at, target: t, event: event, disposition: f, reason: why})
}

// addKept adds, once, why nothing begins in a stage that has begun.
func (o *projection) addKept(stage int, why reason.Reason) {
	t := o.s.layout.Stages[stage].Target
	if !slices.ContainsFunc(o.entries, func(p pendingEntry) bool { return p.target == t && p.disposition == blocked }) {
		o.add(deployment.Place{Stage: stage, Group: deployment.None, Host: deployment.None}, t, record.StageFinished, blocked, why)
	}
}

// addUpcoming adds what will be done, unless it is known to be ready. It may have to wait
// for work.
func (o *projection) addUpcoming(at deployment.Place, t deploylog.Target, event string) {
	switch k := (deployment.EntryKey{Target: t, Event: event}); {
	case o.ready[k]:
	case o.awaits[k] != nil:
		o.add(at, t, event, blocked, o.awaits[k].Reason())
	default:
		o.add(at, t, event, upcoming, reason.Reason{})
	}
}

func (o *projection) addNotNew(at deployment.Place, t deploylog.Target, event string, by origin) {
	o.add(at, t, event, skipped, reason.Reason{Code: reason.NotNew, By: by.target, ByEvent: by.mark.Event, Seq: by.mark.Seq})
}

// addEnded adds why a deployment that ended does not proceed.
func (o *projection) addEnded() {
	d, l := o.d, o.s.layout
	why := reason.Reason{Code: reason.HasFailed, By: o.s.target, ByEvent: d.Ended.Event, Seq: d.Ended.Seq, Cause: d.Ended.Cause, Called: o.s.called(d)}
	switch d.Status {
	case deployment.Cancelled:
		why.Code = reason.WasCancelled
	case deployment.PassedOver:
		why.Code = reason.WasSkipped
	case deployment.Superseded:
		why.Code, why.Holder = reason.WasSuperseded, o.s.revisions[d.Order-1].SupersededBy
	default: // it has failed
	}
	o.add(deployment.Place{Stage: deployment.None, Group: deployment.None, Host: deployment.None}, o.s.target, record.PipelineFinished, blocked, why)
	for _, w := range o.s.work.Sorted() {
		if w.Deployment == d.ID {
			o.add(w.Place, w.Target, w.Event, blocked, w.Reason())
		}
	}
	for i := range l.Stages {
		o.addFailure(deployment.Place{Stage: i, Group: deployment.None, Host: deployment.None}, l.Stages[i].Target, record.StageFinished, d.Stages[i].Marks)
		for g := range l.Stages[i].Groups {
			group, run := &l.Stages[i].Groups[g], &d.Stages[i].Groups[g]
			o.addFailure(deployment.Place{Stage: i, Group: g, Host: deployment.None}, group.Target, record.GroupFinished, run.Marks)
			for h := range group.Hosts {
				t := group.Hosts[h].Target
				o.addFailure(deployment.Place{Stage: i, Group: g, Host: h}, t, record.HostFinished, o.s.unmended(d, i, t, run.Hosts[h].Marks))
			}
		}
	}
}

func (o *projection) addFailure(at deployment.Place, t deploylog.Target, event string, m *record.Marks) {
	if k, bad := m.Failure(); bad {
		why := reason.Reason{Code: reason.HasFailed, By: t, ByEvent: k.Event, Seq: k.Seq, Cause: k.Describe(), Called: o.s.called(o.d)}
		if at.Host != deployment.None && (o.d.Status == deployment.Running || o.d.Stages[at.Stage].Passed) {
			why.Name = o.s.layout.Stages[at.Stage].Name
		}
		o.add(at, t, event, blocked, why)
	}
}

func (o *projection) stage(i int) {
	stage, run := &o.s.layout.Stages[i], &o.d.Stages[i]
	at := deployment.Place{Stage: i, Group: deployment.None, Host: deployment.None}
	switch {
	case run.Passed:
		by := o.passedBy(i)
		if !run.Begun {
			o.addNotNew(at, stage.Target, record.StageStarted, by)
			return
		}
		o.insideStage(i, &by)
		if !run.Marks.Has(record.StageFinished) {
			o.addNotNew(at, stage.Target, record.StageFinished, by)
		}
		return
	case run.Begun:
	case o.ready[deployment.EntryKey{Target: stage.Target, Event: record.StageStarted}]:
	default:
		for _, why := range o.enteringReasons(i) {
			o.add(at, stage.Target, record.StageStarted, blocked, why)
		}
	}
	o.insideStage(i, nil)
	o.addUpcoming(at, stage.Target, record.StageFinished)
}

// passedBy is why nothing in a stage is new: its own end, or the first event in a
// stage behind it.
func (o *projection) passedBy(i int) origin {
	l := o.s.layout
	if k, ok := o.d.Stages[i].Marks.Find(record.StageFinished); ok {
		return origin{l.Stages[i].Target, k}
	}
	var by origin
	note := func(t deploylog.Target, m *record.Marks) {
		if k, ok := m.Began(); ok && (by.mark.Seq == 0 || k.Seq < by.mark.Seq) {
			by = origin{t, k}
		}
	}
	for j := range l.Stages {
		if !slices.Contains(l.Stages[j].Ancestors, i) {
			continue
		}
		note(l.Stages[j].Target, o.d.Stages[j].Marks)
		for g := range l.Stages[j].Groups {
			group, run := &l.Stages[j].Groups[g], &o.d.Stages[j].Groups[g]
			note(group.Target, run.Marks)
			for h := range group.Hosts {
				note(group.Hosts[h].Target, run.Hosts[h].Marks)
			}
		}
	}
	return by
}

// enteringReasons is why a stage that has not begun does not.
func (o *projection) enteringReasons(i int) []reason.Reason {
	stage := &o.s.layout.Stages[i]
	var reasons []reason.Reason
	for _, b := range stage.Before {
		if !o.d.Stages[b].Passed {
			reasons = append(reasons, reason.Reason{Code: reason.AwaitsStage, Name: o.s.layout.Stages[b].Name, By: o.s.layout.Stages[b].Target})
		}
	}
	if len(reasons) > 0 {
		return reasons
	}
	if why, is := o.s.keptOut(o.d, i); is {
		if why.Code == reason.AwaitsFix {
			o.s.callFailed(&why)
		}
		return []reason.Reason{why}
	}
	for _, b := range stage.Opens {
		if holder := o.holders[b]; holder != nil && holder != o.d {
			return []reason.Reason{o.heldBy(holder, o.s.layout.Batches[b])}
		}
	}
	if w := o.awaits[deployment.EntryKey{Target: stage.Target, Event: record.StageStarted}]; w != nil {
		reasons = append(reasons, w.Reason())
	}
	return reasons
}

// heldBy names the deployment in a batch, and the stage at which it is. One that has left a
// stage of the batch and not begun the next one is at the next one.
func (o *projection) heldBy(holder *deployment.Deployment, b deployment.Span) reason.Reason {
	stages, at := o.s.layout.Stages, deployment.None
	for i := range stages {
		switch run := &holder.Stages[i]; {
		case !o.s.layout.Includes(b, i) || run.Passed:
		case at == deployment.None, run.Begun:
			at = i
		}
	}
	if at == deployment.None {
		at = b.From
	}
	r := reason.Reason{
		Code: reason.AwaitsBatch, Holder: holder.Revision, HeldBy: holder.ID, Called: o.s.called(holder),
		Name: stages[at].Name, To: stages[b.To].Name, By: stages[at].Target,
	}
	if holder.Redo.Info != nil {
		r.To = r.Name
	}
	if k, ok := holder.Marks[r.By].Began(); ok {
		r.ByEvent, r.Seq = k.Event, k.Seq
	}
	return r
}

// insideStage goes through a stage; by is why nothing in it is new, if so.
func (o *projection) insideStage(i int, by *origin) {
	stage, run := &o.s.layout.Stages[i], &o.d.Stages[i]
	at := deployment.Place{Stage: i, Group: deployment.None, Host: deployment.None}
	needs := func(event string, why reason.Reason) {
		switch {
		case run.Marks.Has(event):
		case by != nil:
			o.addNotNew(at, stage.Target, event, *by)
		case run.Begun && why.Code != "":
			o.add(at, stage.Target, event, blocked, why)
		default:
			o.addUpcoming(at, stage.Target, event)
		}
	}
	manifest, _ := stage.Once()
	switch {
	case stage.Deploy != nil:
		for g := range stage.Groups {
			o.group(i, g, by)
		}
	case stage.Approval != nil:
		needs(record.StageApproved, o.awaitsApproval(i))
	case stage.Environment != "":
		needs(record.StageDeployed, reason.Reason{})
	case stage.Build != nil && stage.Build.Group != "":
		needs(record.StageBuilt, reason.Reason{})
	case manifest != "":
		needs(record.StageApplied, reason.Reason{})
	case stage.Build != nil:
		for k, kind := range stage.Build.Artifacts {
			switch event := definition.ArtifactReceived(kind); {
			case o.d.Awaits(stage, run, k):
				needs(event, reason.Reason{Code: reason.AwaitsArtifact, Name: kind, Until: o.d.Deadline(stage)})
			case !run.Marks.Has(event):
				o.add(at, stage.Target, event, skipped, reason.Reason{Code: reason.CameLater, By: o.s.target, ByEvent: record.PipelineDefined, Seq: o.s.defined, Name: kind})
			}
		}
	}
}

func (o *projection) group(i, g int, by *origin) {
	stage := &o.s.layout.Stages[i]
	group, run := &stage.Groups[g], &o.d.Stages[i].Groups[g]
	at := deployment.Place{Stage: i, Group: g, Host: deployment.None}
	if o.d.LeavesOut(group.Target) {
		return
	}
	if k, ok := run.Marks.Find(record.GroupFinished); ok {
		by = &origin{group.Target, k}
	}
	if !run.Begun {
		if by != nil {
			o.addNotNew(at, group.Target, record.GroupStarted, *by)
			return
		}
		o.addUpcoming(at, group.Target, record.GroupStarted)
	}
	if !group.Known && run.Begun && by == nil {
		o.add(at, group.Target, record.GroupFinished, blocked, reason.Reason{Code: reason.AwaitsMembers, Name: group.Name})
		return
	}
	for h := range group.Hosts {
		o.host(deployment.Place{Stage: i, Group: g, Host: h}, by)
	}
	switch {
	case run.Finished:
	case by != nil:
		o.addNotNew(at, group.Target, record.GroupFinished, *by)
	case run.Begun && group.Holds():
		o.add(at, group.Target, record.GroupFinished, blocked, o.s.holdReason(group))
	default:
		o.addUpcoming(at, group.Target, record.GroupFinished)
	}
}

func (o *projection) host(at deployment.Place, by *origin) {
	stage := &o.s.layout.Stages[at.Stage]
	t, run := stage.Groups[at.Group].Hosts[at.Host].Target, &o.d.Stages[at.Stage].Groups[at.Group].Hosts[at.Host]
	switch {
	case run.Beside:
		return
	case run.Failed:
		o.addFailure(at, t, record.HostFinished, o.s.unmended(o.d, at.Stage, t, run.Marks))
		return
	case run.Marks == nil && by != nil:
		o.addNotNew(at, t, record.HostStarted, *by)
		return
	}
	for c, event := range stage.Chain {
		switch {
		case run.Marks.Has(event):
		case c < int(run.Last):
			later, _ := run.Marks.Find(stage.Chain[run.Last])
			o.addNotNew(at, t, event, origin{t, later})
		case by != nil:
			o.addNotNew(at, t, event, *by)
		case o.skipsLate(stage, c):
			gone := o.d.Skipped[event]
			o.add(at, t, event, skipped, reason.Reason{Code: reason.LeftOut, By: gone.Target, ByEvent: gone.Mark.Event, Seq: gone.Mark.Seq, Name: event})
		default:
			o.addUpcoming(at, t, event)
		}
	}
}

func (o *projection) skipsLate(stage *deployment.StageLayout, at int) bool {
	for _, step := range stage.Introduced {
		if step.At == at {
			return o.d.Skips(step)
		}
	}
	return false
}
