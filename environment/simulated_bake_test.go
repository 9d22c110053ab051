package environment

import (
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// bake is a deployment after its end, while what dies still counts.
type bake struct {
	until  time.Time
	failed map[string]bool // hosts
	broken bool            // it is recorded that too many have
}

// beginBake wants a deployment that ends to count on from its exceptions.
func (n *naive) beginBake(e deploylog.Event) {
	f := n.force
	f.bake = bake{failed: map[string]bool{}}
	if f.kind == record.ByDelete || f.configuration.Bake == 0 {
		return
	}
	f.bake.until = e.CreatedAt.Add(time.Duration(f.configuration.Bake))
	for _, h := range n.there(n.unsettled) {
		f.bake.failed[h.name] = true
	}
}

// noteBaked notes a task of the revision in force that fails while it bakes.
func (n *naive) noteBaked(s *simulation, e deploylog.Event, h *naiveHost, revision int) {
	f := n.force
	if !f.reached || !e.CreatedAt.Before(f.bake.until) || revision != f.task || !h.wanted || h.absent || n.cordoned(h) {
		return
	}
	if e.Name == record.TaskDied || e.Name == record.TaskFailed {
		f.bake.failed[h.name] = true
		s.tally["failed in a bake"]++
	}
}

// breaksBake reports whether it is to be recorded that too many failed.
func (n *naive) breaksBake() bool {
	f := n.force
	return f.reached && !f.paused && !f.bake.until.IsZero() && !f.bake.broken && len(f.bake.failed) > n.tolerated()
}

// noteBroken wants a bake to fail when it does, and the revision before to be deployed
// again where that is wanted.
func (n *naive) noteBroken(s *simulation) {
	f := n.force
	if !n.breaksBake() {
		s.fail("%s failed in its bake because of %v", f.id, slices.Sorted(maps.Keys(f.bake.failed)))
	}
	f.bake.broken = true
	n.good = n.good[:len(n.good)-1]
	if f.configuration.AutoRollback && f.kind == record.ByDeploy {
		n.goesBack = n.backTo(s, n.lastGood(func(revision int) bool { return n.tasks[revision-1] != f.task }))
	}
}
