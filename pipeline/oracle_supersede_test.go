package pipeline

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// superseded: the newest revision wins, so one that waits is passed over when a newer one
// waits for the same stage, has been there, or has finished: an older revision never
// overtakes. One that is in a stage is left alone.
func (n *naive) superseded(r *revision, frontiers map[*revision][]entry) bool {
	if !n.definition.Supersede || r.only != "" {
		return false
	}
	waits := n.ready(r, frontiers[r])
	if len(waits) == 0 {
		return false
	}
	if slices.ContainsFunc(frontiers[r], func(e entry) bool { return e.event != "stage-started" && !strings.HasPrefix(e.target, "pipeline/") }) {
		return false
	}
	for _, newer := range n.revisions[r.order:] {
		if newer.only != "" {
			continue
		}
		if newer.finished {
			return true
		}
		if newer.over {
			continue
		}
		if r.fix && !newer.fix && n.awaitsFix(r) {
			continue
		}
		for _, e := range waits {
			if slices.Contains(n.ready(newer, frontiers[newer]), e) || n.passed(newer, e) {
				return true
			}
		}
	}
	return false
}

// awaitsFix: there is a stage in which a revision before this one failed, so that those
// that are no fix do not get in.
func (n *naive) awaitsFix(r *revision) bool {
	return slices.ContainsFunc(n.definition.Stages, func(s definition.Stage) bool {
		stopped := n.outcomes("stage/" + n.name + "/" + s.Name).stopped
		stops := (s.StopOnFailure == nil || *s.StopOnFailure) && s.Build == nil && s.Approval == nil
		return stops && stopped > 0 && stopped < r.order
	})
}

// ready are the entries of a frontier that come after no other.
func (n *naive) ready(r *revision, frontier []entry) (ready []entry) {
	for _, e := range frontier {
		if !slices.ContainsFunc(frontier, func(f entry) bool { return slices.Contains(n.flood(r, f), e) }) && strings.HasPrefix(e.target, "stage/") {
			ready = append(ready, e)
		}
	}
	return ready
}
