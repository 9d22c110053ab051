package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/walk"
)

// A closing stage has when: it runs whichever way the stages before it ended, or only after a
// failure. A deployment that fails, or is to end otherwise, does its closing stages first, and
// stays in its batches as long.

// closing returns the closing stages of the definition, and their host groups.
func (s *State) closing() (all []deploylog.Target) {
	if s.definition == nil {
		return nil
	}
	for i := range s.definition.Stages {
		if stage := &s.definition.Stages[i]; stage.Closing() {
			all = append(all, record.StageTarget(s.name, stage.Name))
			if stage.Deploy != nil {
				for g := range stage.Deploy.HostGroups {
					all = append(all, record.GroupTarget(s.name, stage.Deploy.HostGroups[g].Name))
				}
			}
		}
	}
	return all
}

// endEvents are the events that end a deployment, or ask for its end where closing stages come
// first. Asked again, it ends at once.
func (s *State) endEvent(d *deployment.Deployment, as deployment.Status, name string, p record.Payload) deploylog.Event {
	if d.End == nil && d.AwaitsClosing(s.layout, as, d.BrokenAt(s.layout)) {
		name, p.Ends = record.EndRequested, string(as)
	}
	return d.Event(s.target, name, p)
}

// closingEntries adds what is left of a deployment that is about to end.
func (o *projection) closingEntries(w *walk.Walk, as deployment.Status, failed int) {
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
func (o *projection) closingReason(w *walk.Walk, i int, as deployment.Status, failed int) reason.Reason {
	stage := &o.s.layout.Stages[i]
	if before := w.ClosesAfter(i, as, failed); before != deployment.None {
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
