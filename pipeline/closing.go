package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// A closing stage has when: it runs whichever way the stages before it ended, or only after a
// failure. A deployment that fails, or is to end otherwise, does its closing stages first, and
// stays in its batches as long.

// closing returns the closing stages of the definition.
func (s *State) closing() (all []deploylog.Target) {
	if s.definition == nil {
		return nil
	}
	for i := range s.definition.Stages {
		if stage := &s.definition.Stages[i]; stage.Closing() {
			all = append(all, record.StageTarget(s.name, stage.Name))
		}
	}
	return all
}

// endEvents are the events that end a deployment, or ask for its end where closing stages come
// first. Asked again, it ends at once.
func (s *State) endEvent(d *deployment.Deployment, as deployment.Status, name string, p record.Payload) deploylog.Event {
	if d.End == nil && d.FailedAt(s.layout) == deployment.None && d.AwaitsClosing(s.layout, as, deployment.None) {
		name, p.Ends = record.EndRequested, string(as)
	}
	return d.Event(s.target, name, p)
}

// end yields the end of a deployment, after its closing stages. Where what ends it may change
// in the meantime, that is recorded first.
func (w *walk) end(end step.Step, as deployment.Status) bool {
	failed := w.d.FailedAt(w.l)
	if as == deployment.Failed || !w.d.AwaitsClosing(w.l, as, failed) {
		return w.close(end, as, failed)
	}
	asked := w.step(w.pipeline, record.EndRequested)
	asked.Ends, asked.Cause, asked.SupersededBy = string(as), end.Cause, end.SupersededBy
	return w.yield(asked)
}

// asked yields the end that was asked for.
func (w *walk) asked() bool {
	end := w.step(w.pipeline, map[deployment.Status]string{
		deployment.Cancelled: record.PipelineCancelled, deployment.PassedOver: record.PipelineSkipped, deployment.Superseded: record.PipelineSuperseded,
	}[w.d.End.As])
	if end.Event == "" {
		end.Event = record.PipelineFailed
	}
	end.Cause, end.By, end.SupersededBy = w.d.End.Cause, w.d.End.By, w.d.End.SupersededBy
	failed := w.d.FailedAt(w.l)
	if failed != deployment.None && w.l.Stages[failed].Closing() {
		failed = deployment.None // that is not why it ends
	}
	return w.close(end, w.d.End.As, failed)
}

// close yields what the closing stages have to do, and then the end of the deployment.
func (w *walk) close(end step.Step, as deployment.Status, failed int) bool {
	closes := false
	for i := range w.l.Stages {
		closes = closes || w.d.Closes(w.l, i, as, failed)
	}
	if !closes {
		return w.yield(end)
	}
	inClosing := func(o *step.Work) bool {
		return o.Place.Stage != deployment.None && w.l.Stages[o.Place.Stage].Closing()
	}
	if work := w.own(func(o *step.Work) bool { return !inClosing(o) }); work != nil {
		return w.unless(work, end)
	}
	w.outcome = step.Outcome{Status: string(as), Cause: end.Cause}
	if failed != deployment.None {
		w.outcome.Stage = w.l.Stages[failed].Name
	}
	open := false
	for i := range w.l.Stages {
		if !w.d.Closes(w.l, i, as, failed) || w.d.HasClosed(i) {
			continue
		}
		open = true
		switch {
		case w.d.Stages[i].Begun:
			if !w.stage(i) {
				return false
			}
		case w.closesAfter(i, as, failed) == deployment.None && !w.keptOut(i):
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

// closesAfter returns a closing stage that has to end before another one begins, or None.
func (w *walk) closesAfter(i int, as deployment.Status, failed int) int {
	for _, before := range w.l.Stages[i].Ancestors {
		if w.d.Closes(w.l, before, as, failed) && !w.d.HasClosed(before) {
			return before
		}
	}
	return deployment.None
}

// ending returns how a deployment is about to end otherwise than well, if it is.
func (w *walk) ending() (as deployment.Status, failed int, is bool) {
	failed = w.d.FailedAt(w.l)
	if w.d.End != nil {
		if failed != deployment.None && w.l.Stages[failed].Closing() {
			failed = deployment.None
		}
		return w.d.End.As, failed, true
	}
	return deployment.Failed, failed, failed != deployment.None
}

// closingEntries adds what is left of a deployment that is about to end.
func (o *projection) closingEntries(w *walk, as deployment.Status, failed int) {
	event := map[deployment.Status]string{
		deployment.Cancelled: record.PipelineCancelled, deployment.PassedOver: record.PipelineSkipped, deployment.Superseded: record.PipelineSuperseded, deployment.Failed: record.PipelineFailed,
	}[as]
	for i := range o.s.layout.Stages {
		stage, run := &o.s.layout.Stages[i], &o.d.Stages[i]
		at := deployment.Place{Stage: i, Group: deployment.None, Host: deployment.None}
		switch {
		case !o.d.Closes(o.s.layout, i, as, failed):
			continue
		case o.d.HasClosed(i):
			o.addFailure(at, stage.Target, record.StageFinished, run.Marks)
			continue
		case run.Begun, o.ready[deployment.EntryKey{Target: stage.Target, Event: record.StageStarted}]:
		default:
			why := o.closingReason(w, i, as, failed)
			o.add(at, stage.Target, record.StageStarted, blocked, why)
		}
		o.insideStage(i, nil)
		o.addUpcoming(at, stage.Target, record.StageFinished)
	}
	o.addUpcoming(deployment.Place{Stage: deployment.None, Group: deployment.None, Host: deployment.None}, o.s.target, event)
}

// closingReason is why a closing stage of a deployment that is about to end has not begun.
func (o *projection) closingReason(w *walk, i int, as deployment.Status, failed int) reason.Reason {
	stage := &o.s.layout.Stages[i]
	if before := w.closesAfter(i, as, failed); before != deployment.None {
		return reason.Reason{Code: reason.AwaitsStage, Name: o.s.layout.Stages[before].Name, By: o.s.layout.Stages[before].Target}
	}
	if why, is := o.s.keptOut(o.d, i); is {
		return why
	}
	for _, b := range stage.Opens {
		if holder := o.holders[b]; holder != nil && holder != o.d {
			return o.heldBy(holder, o.s.layout.Batches[b])
		}
	}
	for _, work := range o.awaits {
		return work.Reason()
	}
	return reason.Reason{Code: reason.Ready, Cause: fmt.Sprintf("revision %s is about to end", o.d.Revision)}
}
