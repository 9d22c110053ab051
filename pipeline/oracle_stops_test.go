package pipeline

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// outcomes are what became of the revisions in a stage, each by its order.
type outcomes struct {
	stopped  int // the last that failed, which keeps later ones out
	finished int // the last that went through
	fix      int // the last that was released as a fix and began
}

func (n *naive) outcomes(stage string) *outcomes {
	if n.stages[stage] == nil {
		n.stages[stage] = &outcomes{}
	}
	return n.stages[stage]
}

// noteOutcome: a later revision follows after a failure when somebody has resumed the
// stage, or when a fix or the one that failed has gone through. Of a revision that is over
// when a later one finishes nothing counts any more.
func (n *naive) noteOutcome(r *revision, e deploylog.Event) {
	rank := r.order
	switch {
	case r.redoes != nil && r.redoes.only == "":
		rank = r.redoes.order
	case r.only != "": // it is beside the way of revisions
		return
	}
	o := n.outcomes(string(e.Target))
	switch {
	case e.Name == "pipeline-started":
		var data struct{ Fix bool }
		_ = json.Unmarshal(e.Data, &data)
		r.fix = data.Fix
	case e.Name == "pipeline-finished-successfully" && r.redoes != nil:
		r.forgotten = true
	case e.Name == "pipeline-finished-successfully":
		for _, other := range n.revisions {
			other.forgotten = other.forgotten || other.over && other.order < r.order
		}
		r.forgotten = true
	case r.forgotten:
	case e.Name == "stage-started" && r.fix:
		o.fix = max(o.fix, r.order)
	case e.Name == "stage-failed" && e.Attempt == r.attempt && rank >= o.finished && rank >= o.stopped:
		o.stopped = rank
	case e.Name == "stage-finished-successfully":
		o.finished = max(o.finished, rank)
		if rank >= o.stopped {
			o.stopped = 0
		}
	}
}

// keptOut: a revision does not begin a batch in which there is a stage where an earlier one
// failed, nor one that it could not leave without beginning such a batch.
func (n *naive) keptOut(r *revision, e entry) bool {
	if e.event != "stage-started" {
		return false
	}
	return n.overtaken(r) || n.blocksFix(r) || n.isStopped(r, e, false)
}

// isStopped: an earlier revision failed, and the revision is no fix.
// forGood leaves out those that are being tried again.
func (n *naive) isStopped(r *revision, e entry, forGood bool) bool {
	if r.fix {
		return false
	}
	for _, s := range n.definition.Stages {
		t := "stage/" + n.name + "/" + s.Name
		stops := (s.StopOnFailure == nil || *s.StopOnFailure) && s.Build == nil && s.Approval == nil
		if o := n.outcomes(t); !stops || o.stopped == 0 || r.order <= o.stopped {
			continue
		}
		if i := n.outcomes(t).stopped; forGood && !n.revisions[i-1].over {
			continue
		}
		started, finished := entry{t, "stage-started"}, entry{t, "stage-finished-successfully"}
		if n.keepsIn(r, e, started, finished) {
			return true
		}
	}
	return false
}

// keepsIn: who begins the batches of an entry comes to a stage before it has left them, or
// to an entry of which that is so.
func (n *naive) keepsIn(r *revision, e, started, finished entry) bool {
	for _, b := range n.batchesAt(e) {
		behind := started == b[0] || slices.Contains(n.flood(r, b[0]), started)
		before := finished == b[1] || slices.Contains(n.flood(r, finished), b[1])
		if behind && before {
			return true
		}
		for _, inside := range n.flood(r, b[0]) {
			if slices.Contains(n.flood(r, inside), b[1]) && n.keepsIn(r, inside, started, finished) {
				return true
			}
		}
	}
	return false
}

// works: the revision is in a stage that would stay half done if it ended now.
func (n *naive) works(r *revision) bool {
	return slices.ContainsFunc(n.definition.Stages, func(s definition.Stage) bool {
		t := "stage/" + n.name + "/" + s.Name
		waits := s.Approval != nil || s.Build != nil && s.Build.Manifest == "" && s.Build.Group == ""
		return !waits && n.passed(r, entry{t, "stage-started"}) && !n.passed(r, entry{t, "stage-finished-successfully"})
	})
}

// overtaken: a fix began a stage that the revision has not come to.
func (n *naive) overtaken(r *revision) bool {
	if r.only != "" {
		return false
	}
	for _, s := range n.definition.Stages {
		t := "stage/" + n.name + "/" + s.Name
		if n.outcomes(t).fix > r.order && !n.passed(r, entry{t, "stage-started"}) {
			return true
		}
	}
	return false
}

// blocksFix: the revision is in a batch that a newer one, which is a fix, would begin if
// nobody was in it, and never comes to its end.
func (n *naive) blocksFix(r *revision) bool {
	if r.only != "" {
		return false
	}
	for _, f := range n.revisions[r.order:] {
		if !f.fix || f.over || f.only != "" {
			continue
		}
		frontier, _ := n.frontier(f)
		for _, e := range n.ready(f, frontier) {
			if e.event != "stage-started" || n.isPaused(f, e) {
				continue
			}
			for _, b := range n.batchesAt(e) {
				if n.passed(r, b[0]) && !n.passed(r, b[1]) && n.isStuck(r, b) {
					return true
				}
			}
		}
	}
	return false
}

// isStuck: between the ends of a batch there is a stage that the revision does not begin
// before somebody else has gone through another.
func (n *naive) isStuck(r *revision, b [2]entry) bool {
	return slices.ContainsFunc(append(n.flood(r, b[0]), b[0]), func(e entry) bool {
		return e.event == "stage-started" && slices.Contains(n.flood(r, e), b[1]) && !n.passed(r, e) && n.isStopped(r, e, true)
	})
}

// flies: a host has begun. One that failed before a retry begins anew with what is done
// there, tried or recorded after it.
func (n *naive) flies(r *revision, target string) bool {
	if !r.reopened[target] {
		return n.passed(r, entry{target, "host-started"})
	}
	if r.within(target) {
		return true
	}
	for e, tries := range r.tries {
		if e.target == target && len(tries) > 0 {
			return true
		}
	}
	return false
}

// flightIsFull: as many hosts of a group have begun and not ended as may, with those that
// were chosen to begin.
func (n *naive) flightIsFull(r *revision, e entry, chosen []entry) bool {
	if !strings.HasPrefix(e.target, "host/") || n.flies(r, e.target) {
		return false
	}
	for _, s := range n.definition.Stages {
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			prefix := "host/" + n.name + "/" + g.Name + "/"
			if !strings.HasPrefix(e.target, prefix) || g.MaxInFlight == nil {
				continue
			}
			flying := 0
			for _, h := range n.members[g.Name] {
				begins := slices.ContainsFunc(chosen, func(c entry) bool { return c.target == prefix+h })
				ended := r.failed[entry{prefix + h, "host-failed"}] > 0 || r.completed[entry{prefix + h, "host-finished-successfully"}] > 0
				if !ended && (n.flies(r, prefix+h) || begins) {
					flying++
				}
			}
			most := max(1, g.MaxInFlight.Count, len(n.members[g.Name])*int(g.MaxInFlight.Percent)/100)
			return flying >= most
		}
	}
	return false
}

// sortHosts brings entries of hosts in the order of their groups, in which they have the
// room that there is.
func (n *naive) sortHosts(entries []entry) {
	position := func(e entry) int {
		for name, hosts := range n.members {
			if host, in := strings.CutPrefix(e.target, "host/"+n.name+"/"+name+"/"); in {
				return slices.Index(hosts, host)
			}
		}
		return -1
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return position(a) - position(b) })
}
