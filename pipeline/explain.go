package pipeline

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/suggest"
)

// Explain returns, for everything at or below a target that does not move, the
// reason, and what is ready, for each deployment that has not finished, oldest
// first. What holds a stage or a group holds what is below it. Before them are the
// groups that hold and for which no revision waits yet.
func (s *State) Explain(t deploylog.Target) []Reason {
	at, why := s.find(t)
	if why != nil {
		return []Reason{*why}
	}
	var reasons []Reason
	s.projections(func(_ *deployment, found []pendingEntry) {
		for _, p := range found {
			if p.disposition != upcoming && at.touches(p.place) {
				reasons = append(reasons, p.reason)
			}
		}
	})
	holds := slices.DeleteFunc(append(s.pauseReasons(), s.Holds()...), func(h Reason) bool {
		place, ok := s.layout.place(h.Target)
		if !ok {
			return false // the pipeline's own
		}
		return !at.touches(place) || slices.ContainsFunc(reasons, func(r Reason) bool { return r.Target == h.Target && r.Code == h.Code })
	})
	return append(holds, reasons...)
}

// touches reports whether one place is the other, or above or below it.
func (p place) touches(o place) bool {
	same := func(a, b int) bool { return a == none || b == none || a == b }
	return same(p.stage, o.stage) && same(p.group, o.group) && same(p.host, o.host)
}

// find looks a target up, or says why it does not exist.
func (s *State) find(t deploylog.Target) (place, *Reason) {
	all := place{none, none, none}
	if t == s.target {
		return all, nil
	}
	var known []string
	if s.currentLayout() != nil {
		whole, others := s.whole(t)
		if at, ok := s.layout.place(whole); ok {
			return at, nil
		}
		if len(others) > 0 {
			return all, &Reason{Code: NoTarget, Target: t, Name: strings.Join(others, " or ")}
		}
		t = whole
		if group, _, isHost := groupOf(t); isHost {
			if at, ok := s.layout.groupAt[group]; ok {
				name := s.layout.stages[at.stage].groups[at.group].Name
				return all, &Reason{Code: NoMember, Target: t, Name: name, By: group, ByEvent: EventMembersChanged, Seq: s.changed[name]}
			}
		}
		for other := range s.layout.stageAt {
			known = append(known, string(other))
		}
		for other := range s.layout.groupAt {
			known = append(known, string(other))
		}
	}
	known = slices.DeleteFunc(append(known, string(s.target)), func(k string) bool {
		return !strings.HasPrefix(k, t.Kind()+"/")
	})
	slices.Sort(known)
	return all, &Reason{Code: NoTarget, Target: t, Name: suggest.Closest(string(t), known)}
}

// enteringReasons is why a stage of a deployment has not begun.
func (s *State) enteringReasons(d *deployment, i int) []Reason {
	var reasons []Reason
	s.projections(func(o *deployment, found []pendingEntry) {
		for _, p := range found {
			if o == d && p.event == stageStarted && p.stage == i {
				reasons = append(reasons, p.reason)
			}
		}
	})
	return reasons
}
