package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
)

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
