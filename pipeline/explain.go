package pipeline

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
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
	if t == s.target {
		holds = append(holds, s.askedReasons()...)
	}
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

// Holder is what keeps a slot of a host: a deployment that has begun its steps there, and
// not finished them.
type Holder struct {
	Host       string
	Deployment string
	Revision   string
	Target     deploylog.Target
	Event      string // its next step there
}

// Holding are the deployments that keep slots of hosts. One that does not go on, because it
// ended, is paused or its host group holds, keeps none.
func (s *State) Holding() (all []Holder) {
	s.doable(func(step step.Step) bool {
		if step.Host != "" && s.inMidst(step) {
			all = append(all, Holder{step.Host, step.Deployment, step.Revision, step.Target, step.Event})
		}
		return true
	})
	return all
}

// inMidst reports whether steps were begun on the host of a step.
func (s *State) inMidst(step step.Step) bool {
	at := s.layout.HostAt[step.Target]
	host := &s.byID[step.Deployment].Stages[at.Stage].Groups[at.Group].Hosts[at.Host]
	return host.Last > 0 || step.Tries.Failed > 0 || s.Underway(step.Deployment, step.Target, step.Event)
}

// called returns what commands call a deployment where its revision is not enough; "" is that
// it is.
func (s *State) called(d *deployment.Deployment) string {
	named := s.meant
	if d.Status != deployment.Running {
		named = s.ended
	}
	if r, err := named(d.Revision); err == nil && r.Deployment == d.ID {
		return ""
	}
	return d.ID
}

// Called returns what commands call a deployment where its revision is not enough; "" is that
// it is, or that there is no such deployment.
func (s *State) Called(id string) string {
	if d := s.byID[id]; d != nil {
		return s.called(d)
	}
	return ""
}

// holders finds what the holder of a batch waits for itself.
type holders struct {
	s   *State
	all []pendingEntry // of all deployments, oldest first
}

// link adds to the reasons that name another revision, stage or host what that waits for.
func (h holders) link(shown func(deployment.Place) bool) {
	type flight struct {
		deployment string
		by         deploylog.Target
	}
	flights := map[flight]*reason.Reason{} // a whole group may wait for one host: that is looked for once
	for i := range h.all {
		p := &h.all[i]
		if p.disposition != blocked {
			continue
		}
		switch r := &p.reason; r.Code {
		case reason.AwaitsBatch:
			h.linkBatch(r)
		case reason.AwaitsStage:
			if at := h.s.layout.StageAt[r.By]; !shown(deployment.Place{Stage: at, Group: deployment.None, Host: deployment.None}) {
				r.Root = h.root(r.Deployment, at, nil)
			}
		case reason.AwaitsFlight:
			if r.By == "" {
				continue
			}
			root, known := flights[flight{r.Deployment, r.By}]
			if !known {
				root = h.rootAt(r.Deployment, func(o pendingEntry) bool { return o.target == r.By }, nil)
				flights[flight{r.Deployment, r.By}] = root
			}
			if root != nil {
				own := *root
				r.Root = &own
			}
		case reason.AwaitsFix:
			if d := h.s.byID[r.HeldBy]; d != nil && d.Status == deployment.Running && d.FailedAt(h.s.layout) == deployment.None {
				r.Root = h.root(d.ID, h.s.layout.StageAt[r.By], nil)
			}
		default: // the others name what they wait for
		}
	}
}

// linkBatch adds where the holder of a batch is really kept.
func (h holders) linkBatch(r *reason.Reason) {
	to := slices.IndexFunc(h.s.layout.Stages, func(stage deployment.StageLayout) bool { return stage.Name == r.To })
	if to < 0 {
		return
	}
	if r.Root = h.root(r.HeldBy, to, nil); r.Root == nil || r.Root.Deployment != r.HeldBy {
		return
	}
	at, ok := h.s.layout.Place(r.Root.Target)
	if stage := &h.s.layout.Stages[max(0, at.Stage)]; ok && stage.Target != r.By {
		r.Name, r.By, r.ByEvent, r.Seq = stage.Name, stage.Target, "", 0
		if k, began := h.s.byID[r.HeldBy].Marks[stage.Target].Began(); began {
			r.ByEvent, r.Seq = k.Event, k.Seq
		}
	}
}

// root returns what a deployment waits for before it has passed a stage.
func (h holders) root(id string, to int, seen []string) *reason.Reason {
	return h.rootAt(id, func(p pendingEntry) bool {
		return p.Stage == deployment.None || p.Stage == to || slices.Contains(h.s.layout.Stages[to].Ancestors, p.Stage)
	}, seen)
}

// rootAt returns the most urgent of the reasons of a deployment at such places: what somebody
// has to do, then another revision, then what is at work.
func (h holders) rootAt(id string, at func(pendingEntry) bool, seen []string) *reason.Reason {
	const least = 3
	best, rank := -1, least
	for i, p := range h.all {
		if p.reason.Deployment == id && at(p) {
			if r := rootRank(p); r < rank {
				best, rank = i, r
			}
		}
	}
	if best < 0 {
		return nil
	}
	root := h.all[best].reason
	root.Root = nil
	if root.Code != reason.AwaitsBatch || slices.Contains(seen, root.HeldBy) {
		return &root
	}
	to := slices.IndexFunc(h.s.layout.Stages, func(stage deployment.StageLayout) bool { return stage.Name == root.To })
	if further := h.root(root.HeldBy, max(0, to), append(seen, id)); further != nil {
		return further
	}
	return &root
}

// rootRank is how urgent an entry is as the root of what waits; what is no root has the last.
func rootRank(p pendingEntry) int {
	const urgent, other, going, none = 0, 1, 2, 3
	switch code := p.reason.Code; {
	case p.disposition == ready:
		return going
	case p.disposition != blocked, code == reason.HasFailed:
		return none
	case code == reason.AwaitsBatch:
		return other
	case p.reason.Blocking(), code == reason.AwaitsSkip:
		return urgent
	default:
		return none
	}
}
