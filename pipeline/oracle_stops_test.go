package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

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

// noteOutcome: a later revision follows after a failure when somebody has resumed the stage, or when a fix or the one
// that failed has gone through. Of a revision that is over when a later one finishes nothing counts any more.
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

// isStopped: an earlier revision failed, and the revision is no fix. forGood leaves out those that are being tried again.
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

// keepsIn: who begins the batches of an entry comes to a stage before it has left them, or to an entry of which that is so.
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

// flies: a host has begun. One that failed before a retry begins anew with what is done there, tried or recorded after it.
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

// flightIsFull: as many hosts of a group have begun and not ended as may, with those that were chosen to begin.
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

// sortHosts brings entries of hosts in the order of their groups, in which they have the room that there is.
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

// consequences are what follows from the failures of a revision.
type consequences struct {
	failures []entry
	broken   map[string]bool     // targets in which nothing is done any more
	belongs  map[string][]string // target → those it is in
}

func (c *consequences) fail(target, event string) {
	c.failures = append(c.failures, entry{target, event})
	c.broken[target] = true
}

func (c *consequences) doable(e entry) bool {
	if c.broken[e.target] {
		return false
	}
	return !slices.ContainsFunc(c.belongs[e.target], func(t string) bool { return c.broken[t] })
}

func (r *revision) hasFailed(target string) bool {
	for f := range r.failed {
		if f.target == target {
			return true
		}
	}
	return false
}

// failures are the failures that are to be recorded because of others, and
// what may be done in spite of them: what failed is replaced by its failure.
func (n *naive) failures(r *revision) (doable func(entry) bool, failures []entry) {
	c := &consequences{broken: map[string]bool{}, belongs: map[string][]string{}}
	if r.only != "" && len(n.stagesOf(r)) == 0 && r.completed[entry{"stage/" + n.name + "/" + r.only, "stage-finished-successfully"}] == 0 {
		return func(entry) bool { return false }, []entry{{"pipeline/" + n.name, "pipeline-failed"}}
	}
	if n.comesBackLate(r) {
		return func(entry) bool { return false }, []entry{{"pipeline/" + n.name, "pipeline-failed"}}
	}
	for _, s := range n.definition.Stages {
		st := "stage/" + n.name + "/" + s.Name
		if r.failed[entry{st, "stage-failed"}] > 0 {
			return func(entry) bool { return false }, []entry{{"pipeline/" + n.name, "pipeline-failed"}}
		}
		active := n.passed(r, entry{st, "stage-started"}) && !n.passed(r, entry{st, "stage-finished-successfully"})
		if !active {
			continue
		}
		if r.hasFailed(st) || n.isLate(r, s) {
			c.fail(st, "stage-failed")
		}
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			gt := "host-group/" + n.name + "/" + g.Name
			c.belongs[gt] = []string{st}
			if r.hasFailed(gt) && !c.broken[st] && !n.passed(r, entry{gt, "host-group-finished-successfully"}) {
				c.fail(st, "stage-failed")
			}
		}
		for _, g := range s.Deploy.HostGroups {
			n.failuresInGroup(r, c, st, g)
		}
	}
	if (n.overtaken(r) || n.blocksFix(r)) && !n.works(r) {
		return func(entry) bool { return false }, []entry{{"pipeline/" + n.name, "pipeline-skipped"}}
	}
	return c.doable, c.failures
}

// comesBackLate: a revision is in the midst of a stage that changes something, and another
// began that stage, or one of its host groups, after this one did something there.
func (n *naive) comesBackLate(r *revision) bool {
	for _, s := range n.stagesOf(r) {
		st := "stage/" + n.name + "/" + s.Name
		started, finished := entry{st, "stage-started"}, entry{st, "stage-finished-successfully"}
		if s.Build != nil || s.Approval != nil || !n.passed(r, started) || n.passed(r, finished) {
			continue
		}
		inStage := []string{st}
		for g, in := range n.targetsOf(s) {
			inStage = append(inStage, in...)
			if n.othersBegan(r, entry{g, "host-group-started"}, in) {
				return true
			}
		}
		if n.othersBegan(r, started, inStage) {
			return true
		}
	}
	return false
}

// targetsOf are the host groups of a stage, each with itself and its hosts.
func (n *naive) targetsOf(s definition.Stage) map[string][]string {
	in := map[string][]string{}
	if s.Deploy != nil {
		for _, g := range s.Deploy.HostGroups {
			t := "host-group/" + n.name + "/" + g.Name
			in[t] = []string{t}
			for _, h := range n.members[g.Name] {
				in[t] = append(in[t], "host/"+n.name+"/"+g.Name+"/"+h)
			}
		}
	}
	return in
}

func (n *naive) othersBegan(r *revision, e entry, in []string) bool {
	first := int64(0)
	for _, done := range []map[entry]int64{r.completed, r.failed} {
		for d, seq := range done {
			if slices.Contains(in, d.target) && !received(d) && (first == 0 || seq < first) {
				first = seq
			}
		}
	}
	return first > 0 && slices.ContainsFunc(n.revisions, func(o *revision) bool { return o != r && o.completed[e] > first })
}

func (n *naive) failuresInGroup(r *revision, c *consequences, st string, g definition.HostGroup) {
	gt := "host-group/" + n.name + "/" + g.Name
	failedHosts := 0
	for _, h := range n.members[g.Name] {
		ht := "host/" + n.name + "/" + g.Name + "/" + h
		c.belongs[ht] = []string{gt, st}
		at, finished := r.failed[entry{ht, "host-failed"}], r.completed[entry{ht, "host-finished-successfully"}]
		if at > 0 && (finished == 0 || finished > at) {
			failedHosts++
		}
	}
	if c.broken[st] || n.passed(r, entry{gt, "host-group-finished-successfully"}) {
		return
	}
	if failedHosts > g.MaxFailed.Of(len(n.members[g.Name])) {
		c.fail(gt, "host-group-failed")
		return
	}
	if n.untrusted(g) {
		return
	}
	for _, h := range n.members[g.Name] {
		ht := "host/" + n.name + "/" + g.Name + "/" + h
		over := r.failed[entry{ht, "host-failed"}] > 0 || r.completed[entry{ht, "host-finished-successfully"}] > 0
		if r.hasFailed(ht) && !over {
			c.fail(ht, "host-failed")
		}
	}
}

// isPaused: what has begun ends although somebody paused it, and nothing else happens.
func (n *naive) isPaused(r *revision, e entry) bool {
	if strings.HasSuffix(e.event, "-finished-successfully") || e.event == "stage-approved" {
		return false
	}
	return len(n.paused["pipeline/"+n.name]) > 0 || n.isHeld(r, n.paused["stage/"+n.name+"/"+n.stageOf(e)])
}

// isHeld: a stage that is paused is so for all but rollbacks, and what does something of a
// rollback again by which it is paused.
func (n *naive) isHeld(r *revision, by []string) bool {
	return (r.only == "" || r.redoes != nil) && slices.ContainsFunc(by, func(id string) bool {
		return !slices.ContainsFunc(n.revisions, func(o *revision) bool {
			return o.id == id && o.only != "" && o.redoes == nil && r.redoes != nil && o.age == r.age
		})
	})
}

func (n *naive) stageOf(e entry) string {
	for _, s := range n.definition.Stages {
		if e.target == "stage/"+n.name+"/"+s.Name {
			return s.Name
		}
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			if e.target == "host-group/"+n.name+"/"+g.Name || strings.HasPrefix(e.target, "host/"+n.name+"/"+g.Name+"/") {
				return s.Name
			}
		}
	}
	return ""
}

// isLate: an artifact, or an approval, has not come in the time from the start of its stage, or of the
// attempt if that is later.
func (n *naive) isLate(r *revision, s definition.Stage) bool {
	patience := time.Duration(0)
	if s.Build != nil && s.Build.Manifest == "" && s.Build.Group == "" {
		patience = time.Duration(s.Build.Timeout)
	}
	if s.Approval != nil {
		patience = time.Duration(s.Approval.Expires)
	}
	if patience == 0 {
		return false
	}
	since := r.since
	if started := r.started["stage/"+n.name+"/"+s.Name]; started.After(since) {
		since = started
	}
	for _, e := range n.inside(r, s) {
		if !r.done(e) && !n.isApproved(r, e) && !n.now.Before(since.Add(patience)) {
			return true
		}
	}
	return false
}
