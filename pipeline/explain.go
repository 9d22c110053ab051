package pipeline

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Explain returns, for everything at or below a target that does not move, the
// reason, and what is ready, for each deployment that has not finished, oldest
// first. What holds a stage or a group holds what is below it. Before them are the
// groups that hold and for which no revision waits yet.
func (s *State) Explain(t deploylog.Target) []reason.Reason {
	at, why := s.find(t)
	if why != nil {
		return []reason.Reason{*why}
	}
	var reasons []reason.Reason
	for _, p := range s.linked(at.Touches) {
		if p.disposition != upcoming && at.Touches(p.Place) {
			reasons = append(reasons, p.reason)
		}
	}
	holds := slices.DeleteFunc(append(s.pauseReasons(), s.Holds()...), func(h reason.Reason) bool {
		place, ok := s.layout.Place(h.Target)
		if !ok {
			return false // the pipeline's own
		}
		return !at.Touches(place) || slices.ContainsFunc(reasons, func(r reason.Reason) bool { return r.Target == h.Target && r.Code == h.Code })
	})
	return append(holds, reasons...)
}

// find looks a target up, or says why it does not exist.
func (s *State) find(t deploylog.Target) (deployment.Place, *reason.Reason) {
	all := deployment.Place{Stage: deployment.None, Group: deployment.None, Host: deployment.None}
	if t == s.target {
		return all, nil
	}
	var known []string
	if s.currentLayout() != nil {
		whole, others := s.whole(t)
		if at, ok := s.layout.Place(whole); ok {
			return at, nil
		}
		if len(others) > 0 {
			return all, &reason.Reason{Code: reason.NoTarget, Target: t, Name: strings.Join(others, " or ")}
		}
		t = whole
		if group, _, isHost := record.GroupOf(t); isHost {
			if at, ok := s.layout.GroupAt[group]; ok {
				name := s.layout.Stages[at.Stage].Groups[at.Group].Name
				return all, &reason.Reason{Code: reason.NoMember, Target: t, Name: name, By: group, ByEvent: record.MembersChanged, Seq: s.changed[name]}
			}
		}
		for other := range s.layout.StageAt {
			known = append(known, string(other))
		}
		for other := range s.layout.GroupAt {
			known = append(known, string(other))
		}
	}
	known = slices.DeleteFunc(append(known, string(s.target)), func(k string) bool {
		return !strings.HasPrefix(k, t.Kind()+"/")
	})
	slices.Sort(known)
	return all, &reason.Reason{Code: reason.NoTarget, Target: t, Name: suggest.Closest(string(t), known)}
}

// enteringReasons is why a stage of a deployment has not begun.
func (s *State) enteringReasons(d *deployment.Deployment, i int) []reason.Reason {
	var reasons []reason.Reason
	for _, p := range s.linked(func(deployment.Place) bool { return false }) {
		if p.reason.Deployment == d.ID && p.event == record.StageStarted && p.Stage == i {
			reasons = append(reasons, p.reason)
		}
	}
	return reasons
}

// linked returns the entries of all deployments, oldest first. Reasons that name another
// revision, or a stage that is not shown, say what that waits for.
func (s *State) linked(shown func(deployment.Place) bool) []pendingEntry {
	h := holders{s: s}
	s.projections(func(_ *deployment.Deployment, found []pendingEntry) { h.all = append(h.all, found...) })
	h.link(shown)
	return h.all
}
