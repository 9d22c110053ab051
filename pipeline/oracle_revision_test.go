package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

type revision struct {
	fix, forgotten bool
	id, name       string
	order          int
	adopted        map[string]bool // units
	attempt        int
	since          time.Time                  // of the attempt
	started        map[string]time.Time       // stages
	only           string                     // the stage that it rolls back; "" of one that goes through the pipeline
	age            int                        // order of the revision that it deploys
	redoes         *revision                  // what it does again; nil is nothing
	hosts          []string                   // targets that it repairs; nil is all
	did            map[string]map[string]bool // stage → steps that were done on all hosts there when it was finished
	over, finished bool
	completed      map[entry]int64
	failed         map[entry]int64 // of the present attempt
	tries          map[entry][]time.Time
	works          map[entry]bool // what is being done
	carries        *carried
	approvals      []given
	reopened       map[string]bool // hosts that failed before the attempt, of which nothing is recorded in it
}

func (r *revision) note(at entry, e deploylog.Event) {
	if e.Attempt == r.attempt {
		delete(r.reopened, at.target)
	}
	switch {
	case e.Name == "pipeline-retried":
		for f := range r.failed {
			if r.reopened == nil {
				r.reopened = map[string]bool{}
			}
			r.reopened[f.target] = true
		}
		r.since = e.CreatedAt
		r.over, r.attempt, r.failed, r.tries = false, e.Attempt, map[entry]int64{}, map[entry][]time.Time{}
	case e.Name == "pipeline-failed" || e.Name == "pipeline-cancelled" || e.Name == "pipeline-skipped" || e.Name == "pipeline-superseded" || e.Name == "pipeline-finished-successfully":
		r.over, r.finished = true, e.Name == "pipeline-finished-successfully"
	case strings.HasSuffix(e.Name, "-failed"):
		if e.Attempt == r.attempt {
			r.failed[at] = e.Seq
		}
	case r.completed[at] == 0:
		r.completed[at] = e.Seq
	}
}

// done: an entry is complete, or is the start of something that failed, of which the algorithm of the seed says
// nothing. A revision that comes into a stage because the host group that it is in is moved there leaves no start of
// the stage; when the group has gone again, only the stage's failure shows that the revision came there. Nothing fails
// that was not begun, so it is in the stage, as after any other failure, until its deployment ends.
func (r *revision) done(e entry) bool {
	return r.completed[e] > 0 || e.event == deploylog.Target(e.target).Started() && r.hasFailed(e.target)
}

// given is one of several approvals, with what its revision carried then.
type given struct {
	target, by, carried string
	attempt             int
}

// carried is what a revision carries, as the log has it: the manifests that it came with,
// those that later definitions brought, and its artifacts.
type carried struct {
	own     map[string]string // path → hash; nil of one that a former version released
	units   map[string]string // → manifest
	brought map[string]string // manifest → all that came with it
	refs    map[string]string // of artifacts
}

func (c *carried) text() string { return fmt.Sprint(c.own == nil, c.own, c.units, c.brought, c.refs) }

func unitsOf(d *definition.Definition) map[string]string {
	units := map[string]string{}
	for _, s := range d.Stages {
		switch {
		case s.Build != nil && s.Build.Group != "":
			units["packages "+s.Name] = s.Build.Group
		case s.Build != nil && s.Build.Manifest != "":
			units[s.Name] = s.Build.Manifest
		case s.Run != nil:
			units[s.Name] = s.Run.Manifest
		case s.Deploy != nil:
			for _, step := range s.Deploy.Steps {
				units[s.Name+" "+step.Event] = step.Manifest
			}
		}
	}
	return units
}

func (c *carried) brings(d *definition.Definition, files map[string]string, adopts bool) {
	switch {
	case adopts:
		*c = carried{own: files, refs: c.refs}
		if files != nil {
			c.units = unitsOf(d)
		}
	case c.own != nil:
		c.brought = maps.Clone(c.brought)
		for unit, manifest := range unitsOf(d) {
			if c.units[unit] == "" {
				c.units[unit] = manifest
			}
			if files[manifest] != "" && c.own[manifest] == "" && c.brought[manifest] == "" {
				if c.brought == nil {
					c.brought = map[string]string{}
				}
				c.brought[manifest] = fmt.Sprint(files)
			}
		}
	}
}

func (n *naive) noteCarried(e deploylog.Event) {
	var data struct {
		Carries   map[string]string
		Ref       string
		Artifacts map[string]string
	}
	_ = json.Unmarshal(e.Data, &data)
	r := n.revision(e.Deployment)
	if r.carries == nil {
		r.carries = &carried{refs: map[string]string{}, own: data.Carries}
		if data.Carries != nil {
			r.carries.units = unitsOf(n.definition)
		}
	}
	if kind, ok := strings.CutPrefix(e.Name, "build-stage-received-"); ok && strings.HasSuffix(kind, "-artifact") {
		r.carries.refs[kind] = data.Ref
	}
	if e.Name == "stage-group-built" {
		maps.Copy(r.carries.refs, data.Artifacts)
	}
}

func (n *naive) noteApproval(e deploylog.Event) {
	var data struct {
		By       string
		Approval struct {
			Deployment string
			Attempt    int
		}
	}
	_ = json.Unmarshal(e.Data, &data)
	r := n.revision(data.Approval.Deployment)
	r.approvals = append(r.approvals, given{string(e.Target), data.By, r.carries.text(), data.Approval.Attempt})
}

// approvers are those whose approvals of a stage count: they were given in this attempt, and
// the revision carries what it did then.
func (n *naive) approvers(r *revision, target string) (by []string) {
	for _, g := range r.approvals {
		if g.target == target && g.attempt == r.attempt && g.carried == r.carries.text() && !slices.Contains(by, g.by) {
			by = append(by, g.by)
		}
	}
	return by
}

// isApproved: as many have approved as it takes now, though it took more when they did.
func (n *naive) isApproved(r *revision, e entry) bool {
	by := n.approvers(r, e.target)
	for _, s := range n.definition.Stages {
		if e.target == "stage/"+n.name+"/"+s.Name && s.Approval != nil && len(by) > 0 {
			return len(by) >= s.Approval.Approvals
		}
	}
	return false
}

// superseded: the newest revision wins, so one that waits is passed over when a newer one waits for the same stage, has
// been there, or has finished: an older revision never overtakes. One that is in a stage is left alone.
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

// awaitsFix: there is a stage in which a revision before this one failed, so that those that are no fix do not get in.
func (n *naive) awaitsFix(r *revision) bool {
	return slices.ContainsFunc(n.definition.Stages, func(s definition.Stage) bool {
		stopped := n.outcomes("stage/" + n.name + "/" + s.Name).stopped
		stops := (s.StopOnFailure == nil || *s.StopOnFailure) && s.Build == nil && s.Approval == nil
		return stops && stopped > 0 && stopped < r.order
	})
}

func (n *naive) ready(r *revision, frontier []entry) (ready []entry) {
	for _, e := range frontier {
		if !slices.ContainsFunc(frontier, func(f entry) bool { return slices.Contains(n.flood(r, f), e) }) && strings.HasPrefix(e.target, "stage/") {
			ready = append(ready, e)
		}
	}
	return ready
}

// checkMixed holds that a deployment that finishes a stage has left its own on every host
// there on which it did something: nothing that came between is mixed with it.
func (w *world) checkMixed(end deploylog.Event) string {
	if end.Name != "stage-finished-successfully" {
		return ""
	}
	last, did := map[deploylog.Target]string{}, map[deploylog.Target]bool{}
	for _, e := range w.log {
		if e.Target.Kind() == "host" && slices.Contains(someEvents, e.Name) {
			last[e.Target], did[e.Target] = e.Deployment, did[e.Target] || e.Deployment == end.Deployment
		}
	}
	for _, s := range w.oracle.definition.Stages {
		if s.Deploy == nil || end.Target != deploylog.Target("stage/p/"+s.Name) {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				if t := deploylog.Target("host/p/" + g.Name + "/" + h); did[t] && last[t] != end.Deployment {
					return fmt.Sprintf("%s finishes the stage with %s of %s", end.Deployment, t, last[t])
				}
			}
		}
	}
	return ""
}

// stagesOf are the stages that a revision goes through: all, or the one that it rolls back.
func (n *naive) stagesOf(r *revision) []definition.Stage {
	if r.only == "" {
		return n.definition.Stages
	}
	for _, s := range n.definition.Stages {
		if s.Name == r.only {
			s.After = nil
			return []definition.Stage{s}
		}
	}
	return nil
}

// hostsOf are the members of a group that a revision is to be done on: a repair those that it is of.
func (n *naive) hostsOf(r *revision, group string) (hosts []string, known bool) {
	members, known := n.members[group]
	if len(r.hosts) == 0 {
		return members, known
	}
	for _, h := range members {
		if slices.Contains(r.hosts, "host/"+n.name+"/"+group+"/"+h) {
			hosts = append(hosts, h)
		}
	}
	return hosts, known
}

// touches: a revision is done in a host group, unless it repairs hosts of others.
func (r *revision) touches(group string) bool {
	return len(r.hosts) == 0 || slices.ContainsFunc(r.hosts, func(host string) bool {
		return strings.HasPrefix(host, strings.Replace(group, "host-group/", "host/", 1)+"/")
	})
}

// noteDone: when a stage is finished, the steps that all hosts did which finished in it.
func (n *naive) noteDone(r *revision, at entry) {
	if at.event != "stage-finished-successfully" || len(r.hosts) > 0 {
		return
	}
	for _, s := range n.definition.Stages {
		if s.Deploy == nil || at.target != "stage/"+n.name+"/"+s.Name {
			continue
		}
		did := map[string]bool{}
		for _, event := range eventsOf(s.Deploy) {
			did[event] = true
			for _, g := range s.Deploy.HostGroups {
				for _, h := range n.members[g.Name] {
					t := "host/" + n.name + "/" + g.Name + "/" + h
					if r.completed[entry{t, "host-finished-successfully"}] > 0 && r.completed[entry{t, event}] == 0 {
						did[event] = false
					}
				}
			}
		}
		of := r
		if r.redoes != nil {
			of = r.redoes
		}
		if of.did == nil {
			of.did = map[string]map[string]bool{}
		}
		of.did[s.Name] = did
	}
}

// redoing: what does a stage again is in every batch that the stage belongs to, from its
// registration on to the end of the stage.
func (n *naive) redoing() map[entry]int {
	active := map[entry]int{}
	for _, r := range n.revisions {
		if r.redoes == nil || r.over || n.stagesOf(r) == nil {
			continue
		}
		started, finished := entry{"stage/" + n.name + "/" + r.only, "stage-started"}, entry{"stage/" + n.name + "/" + r.only, "stage-finished-successfully"}
		if !n.passed(r, started) || n.passed(r, finished) {
			continue
		}
		for _, b := range n.definition.Batches {
			if follows(n.definition, n.indexOf(b.From), n.indexOf(r.only)) && follows(n.definition, n.indexOf(r.only), n.indexOf(b.To)) && b.From != r.only {
				active[entry{"stage/" + n.name + "/" + b.From, "stage-started"}]++
			}
		}
	}
	return active
}

func (n *naive) indexOf(stage string) int {
	return slices.IndexFunc(n.definition.Stages, func(s definition.Stage) bool { return s.Name == stage })
}

func (n *naive) waits(r *revision, e entry) bool {
	return n.holds(e) || n.isPaused(r, e) || r.only == "" && n.keptOut(r, e) || n.rests(r, e) || n.awaitsWork(r, e)
}

func (n *naive) applyWork(e deploylog.Event) {
	var data struct {
		Steps []struct {
			Deployment, Target, Event, Outcome string
			Try                                int
		}
	}
	_ = json.Unmarshal(e.Data, &data)
	for _, s := range data.Steps {
		r, at := n.revisions[slices.IndexFunc(n.revisions, func(r *revision) bool { return r.id == s.Deployment })], entry{s.Target, s.Event}
		r.works[at] = s.Outcome == "" || s.Outcome == "lost"
		if s.Outcome != "" && s.Try > 0 {
			r.tries[at] = append(r.tries[at], e.CreatedAt)
		}
	}
}

// rests: after the first failed try a second has to pass, after the second two, and so on, never more than a minute. A
// failure that is yet to come, by the clock, is of a clock that was set back.
func (n *naive) rests(r *revision, e entry) bool {
	tries := r.tries[e]
	if len(tries) == 0 {
		return false
	}
	pause := time.Second
	for range min(len(tries)-1, 10) {
		pause = min(2*pause, time.Minute)
	}
	since := n.now.Sub(tries[len(tries)-1])
	return since >= 0 && since < pause
}

// awaitsWork: nobody enters a batch in which something of another revision is still being done, nothing ends in which
// something of its own revision is, and at one target one thing is done at a time.
func (n *naive) awaitsWork(r *revision, e entry) bool {
	if e.event == "pipeline-finished-successfully" && r.within("") {
		return true
	}
	if begins := n.batchesAt(e); len(begins) > 0 {
		return slices.ContainsFunc(n.revisions, func(o *revision) bool {
			return o != r && slices.ContainsFunc(begins, func(b [2]entry) bool { return n.worksIn(o, b) })
		})
	}
	kind, name, _ := strings.Cut(e.target, "/")
	switch {
	case e.event == "stage-finished-successfully":
		return slices.ContainsFunc(n.definition.Stages, func(s definition.Stage) bool {
			return n.name+"/"+s.Name == name && n.worksInStage(r, s)
		})
	case e.event == "host-group-finished-successfully":
		return r.within("host/" + name + "/")
	case kind == "host", e.event == "stage-manifest-applied", e.event == "stage-group-built":
		for _, o := range n.revisions {
			for w, going := range o.works {
				if going && w.target == e.target && (o != r || w.event != e.event) {
					return true
				}
			}
		}
	}
	return false
}

func (r *revision) within(prefix string) bool {
	for w, going := range r.works {
		if going && strings.HasPrefix(w.target, prefix) {
			return true
		}
	}
	return false
}

func (n *naive) worksInStage(r *revision, s definition.Stage) bool {
	for w, going := range r.works {
		if going && n.isIn(w, s) {
			return true
		}
	}
	return false
}

func (n *naive) isIn(w entry, s definition.Stage) bool {
	if w.target == "stage/"+n.name+"/"+s.Name {
		return true
	}
	return s.Deploy != nil && slices.ContainsFunc(s.Deploy.HostGroups, func(g definition.HostGroup) bool {
		return strings.HasPrefix(w.target, "host/"+n.name+"/"+g.Name+"/")
	})
}

// worksIn: something of a revision is being done in a stage of a batch, or in none that the definition knows.
func (n *naive) worksIn(r *revision, batch [2]entry) bool {
	for w, going := range r.works {
		if !going {
			continue
		}
		i := slices.IndexFunc(n.definition.Stages, func(s definition.Stage) bool { return n.isIn(w, s) })
		if i < 0 {
			return true
		}
		name := n.name + "/" + n.definition.Stages[i].Name
		start, finish := entry{"stage/" + name, "stage-started"}, entry{"stage/" + name, "stage-finished-successfully"}
		begun := start == batch[0] || slices.Contains(n.flood(r, batch[0]), start)
		if begun && (finish == batch[1] || slices.Contains(n.flood(r, finish), batch[1])) {
			return true
		}
	}
	return false
}
