package pipeline

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// NeededVersion is that of what Needed leaves out. It is raised when the state comes to depend on
// events that a former build leaves out.
const NeededVersion = 2

// Needed returns what is still needed of an event that was applied, and whether anything
// is: a state to which only that of all events is applied, in order, is the same as this
// one, and stays so whatever is applied to both.
//
// Nothing is asked any more about the hosts and the host groups of deployments that are
// gone, but who began a group last, which is nearly all of a long history. What happened to the pipeline and its stages
// is kept, for rollbacks and what may enter a stage depend on that.
func (s *State) Needed(e deploylog.Event) (needed deploylog.Event, ok bool) {
	kind := e.Target.Kind()
	switch {
	case e.Target == s.target && (e.Name == record.StepsBegun || e.Name == record.StepsEnded):
		return s.neededWork(e)
	case e.Seq == s.head, kind != "host" && kind != "host-group", s.byID[e.Deployment] != nil:
		return e, true
	case e.Name == record.MembersChanged, e.Name == record.MembersHeld:
		return e, s.neededMembers(e)
	case e.Name == record.GroupStarted:
		return e, s.visits[e.Target].at == e.Seq
	}
	name := strings.TrimSuffix(e.Name, record.FailedAfter)
	_, isArtifact := definition.ArtifactKind(name)
	return e, isArtifact || s.failedAt(e) || s.Underway(e.Deployment, e.Target, name) // it ended work that began anew
}

// failedAt reports whether an event is how a host failed that may be repaired, or was.
func (s *State) failedAt(e deploylog.Event) bool {
	if i := s.indexOf(e.Deployment); e.Name == record.HostFinished && i >= 0 && s.revisions[i].Redo != nil {
		return true
	}
	for _, v := range s.visits {
		if k, failed := v.ending.Failed[e.Target]; failed && k.Seq == e.Seq {
			return true
		}
	}
	return false
}

// neededWork leaves out of what began or ended the work that is neither going on nor, where
// it failed, to be tried again. The end of work is only needed with its beginning.
func (s *State) neededWork(e deploylog.Event) (needed deploylog.Event, ok bool) {
	p := record.Read(e.Data)
	steps := slices.DeleteFunc(slices.Clone(p.Steps), func(w record.Work) bool {
		tried := e.Name == record.StepsEnded && s.byID[w.Deployment] != nil
		return !tried && s.work.All[step.Key{Deployment: w.Deployment, Target: w.Target, Event: w.Event}] == nil
	})
	if len(steps) < len(p.Steps) {
		p.Steps = steps
		e.Data = p.Data()
	}
	return e, len(steps) > 0 || e.Seq == s.head
}

// neededMembers reports whether an event is the last that a host group has its hosts from,
// or holds for.
func (s *State) neededMembers(e deploylog.Event) bool {
	for name, seq := range s.changed {
		if seq == e.Seq && record.GroupTarget(s.name, name) == e.Target {
			return true
		}
	}
	for name, held := range s.held {
		if held.Seq == e.Seq && record.GroupTarget(s.name, name) == e.Target {
			return true
		}
	}
	return false
}
