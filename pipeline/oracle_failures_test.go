package pipeline

import (
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/pipeline/definition"
)

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

// othersBegan: another revision began an entry after one did something at some targets.
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

// failuresInGroup adds the failure of a group, or those of its hosts.
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

// stageOf is the name of the stage in which an entry is.
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
