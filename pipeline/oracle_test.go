package pipeline

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// This is the algorithm of the seed "Deployment Log", written down as it reads: entries, next, after, seen, frontier
// and batches, all found anew at each step from the completed entries. It shares nothing with the machine but
// Definition and names, and is what the machine is measured against.

type entry struct{ target, event string }

// naive is a pipeline as the seed sees it.
type naive struct {
	name       string
	definition *definition.Definition
	members    map[string][]string
	now        time.Time
	held       map[string]bool     // groups of which somebody must confirm what they lose
	paused     map[string][]string // targets of the pipeline and its stages → deployments of the events
	stages     map[string]*outcomes
	introduced map[string]int // unit → revisions registered before it
	revisions  []*revision
	next       map[*revision]map[entry][]entry // of the present definition
	after      map[*revision]map[entry][]entry
}

func newNaive(name string) *naive {
	n := &naive{name: name, members: map[string][]string{}, held: map[string]bool{}, paused: map[string][]string{}, stages: map[string]*outcomes{}}
	n.forget()
	return n
}

func (n *naive) apply(e deploylog.Event) {
	var data struct {
		Definition *definition.Definition
		Rollback   *struct{ Stage, Original string }
		Redo       *struct {
			Stage, Of string
			Hosts     []string
		}
		Hosts   []string
		Adopt   []string
		Carries map[string]string
	}
	_ = json.Unmarshal(e.Data, &data)
	switch e.Name {
	case "pipeline-defined":
		n.define(data.Definition, data.Adopt)
		for _, r := range n.revisions {
			r.carries.brings(data.Definition, data.Carries, slices.Contains(data.Adopt, r.name))
		}
		return
	case "host-group-members-changed":
		for _, g := range n.definition.Groups() {
			if string(e.Target) == "host-group/"+n.name+"/"+g.Name {
				n.members[g.Name], n.held[g.Name] = data.Hosts, false
			}
		}
		n.forget()
		return
	case "host-group-members-held":
		n.held[strings.TrimPrefix(string(e.Target), "host-group/"+n.name+"/")] = true
		return
	case "stage-approval-given":
		n.noteApproval(e)
		return
	case "pipeline-steps-begun", "pipeline-steps-ended":
		n.applyWork(e)
		return
	case "pipeline-paused", "pipeline-resumed", "stage-paused", "stage-resumed":
		switch {
		case strings.HasSuffix(e.Name, "-paused"):
			n.paused[string(e.Target)] = append(n.paused[string(e.Target)], e.Deployment)
		case len(n.paused[string(e.Target)]) > 0:
			n.paused[string(e.Target)] = n.paused[string(e.Target)][1:]
		default:
			n.outcomes(string(e.Target)).stopped = 0
		}
		return
	case "pipeline-started":
		n.revisions = append(n.revisions, &revision{
			since: e.CreatedAt, started: map[string]time.Time{},
			id: e.Deployment, name: e.Revision, order: len(n.revisions) + 1, attempt: 1, adopted: map[string]bool{},
			completed: map[entry]int64{}, failed: map[entry]int64{}, tries: map[entry][]time.Time{}, works: map[entry]bool{},
		})
	}
	r := n.revision(e.Deployment)
	if e.Name == "pipeline-started" {
		r.age = r.order
		if data.Rollback != nil {
			of := n.revision(data.Rollback.Original)
			r.only, r.age, r.adopted = data.Rollback.Stage, of.order, maps.Clone(of.adopted)
		}
		if data.Redo != nil {
			of := n.revision(data.Redo.Of)
			r.only, r.age, r.adopted = data.Redo.Stage, of.age, maps.Clone(of.adopted)
			r.redoes, r.hosts, r.did = of, data.Redo.Hosts, of.did
		}
	}
	n.noteCarried(e)
	at := entry{string(e.Target), e.Name}
	delete(r.works, entry{at.target, strings.TrimSuffix(at.event, "-failed")})
	if e.Name == "stage-started" {
		r.started[at.target] = e.CreatedAt
	}
	n.noteOutcome(r, e)
	r.note(at, e)
	n.noteDone(r, at)
}

func (n *naive) revision(id string) *revision {
	return n.revisions[slices.IndexFunc(n.revisions, func(r *revision) bool { return r.id == id })]
}

func (n *naive) forget() {
	n.next, n.after = map[*revision]map[entry][]entry{}, map[*revision]map[entry][]entry{}
}

func (n *naive) define(d *definition.Definition, adopt []string) {
	introduced, members := map[string]int{}, map[string][]string{}
	for _, s := range d.Stages {
		units := []string{}
		if s.Build != nil {
			units = s.Build.Artifacts
		}
		if s.Deploy != nil {
			for _, step := range s.Deploy.Steps {
				units = append(units, step.Event)
			}
			for _, g := range s.Deploy.HostGroups {
				if hosts, ok := n.members[g.Name]; ok {
					members[g.Name] = hosts
				}
			}
		}
		for _, u := range units {
			unit := s.Name + ":" + s.Kind() + ":" + u
			introduced[unit] = len(n.revisions)
			if was, ok := n.introduced[unit]; ok {
				introduced[unit] = was
			} else if n.definition == nil {
				introduced[unit] = -1 // it always was
			}
		}
	}
	for name := range n.held {
		if _, stays := members[name]; !stays {
			delete(n.held, name)
		}
	}
	n.definition, n.introduced, n.members = d, introduced, members
	for _, r := range n.revisions {
		maps.DeleteFunc(r.adopted, func(unit string, _ bool) bool { _, stays := introduced[unit]; return !stays })
		for unit := range introduced {
			r.adopted[unit] = r.adopted[unit] || !r.finished && slices.Contains(adopt, r.name)
		}
	}
	n.forget()
}

func (n *naive) graph(r *revision) map[entry][]entry {
	if n.next[r] != nil {
		return n.next[r]
	}
	next := map[entry][]entry{}
	to := func(a, b entry) { next[a] = append(next[a], b) }
	start, finish := entry{"pipeline/" + n.name, "pipeline-started"}, entry{"pipeline/" + n.name, "pipeline-finished-successfully"}
	next[finish] = nil
	last := map[string]bool{}
	stages := n.stagesOf(r)
	if len(stages) == 0 {
		to(start, finish)
	}
	for _, s := range stages {
		last[s.Name] = true
		for _, b := range s.After {
			last[b] = false
		}
	}
	for _, s := range stages {
		t := "stage/" + n.name + "/" + s.Name
		started, finished := entry{t, "stage-started"}, entry{t, "stage-finished-successfully"}
		if len(s.After) == 0 {
			to(start, started)
		}
		for _, b := range s.After {
			to(entry{"stage/" + n.name + "/" + b, "stage-finished-successfully"}, started)
		}
		if last[s.Name] {
			to(finished, finish)
		}
		if s.Deploy != nil {
			n.groups(r, s.Deploy, started, finished, to)
			continue
		}
		inside := n.inside(r, s)
		for _, e := range inside {
			to(started, e)
			to(e, finished)
		}
		if len(inside) == 0 {
			to(started, finished)
		}
	}
	n.next[r] = next
	n.after[r] = map[entry][]entry{}
	return next
}

// inside is what a stage without host groups has between its start and its end.
func (n *naive) inside(r *revision, s definition.Stage) (inside []entry) {
	t := "stage/" + n.name + "/" + s.Name
	switch {
	case s.Approval != nil:
		inside = append(inside, entry{t, "stage-approved"})
	case s.Build != nil && s.Build.Group != "":
		inside = append(inside, entry{t, "stage-group-built"})
	case s.Run != nil || s.Build != nil && s.Build.Manifest != "":
		inside = append(inside, entry{t, "stage-manifest-applied"})
	case s.Build != nil:
		for _, kind := range s.Build.Artifacts {
			if unit := s.Name + ":build:" + kind; r.age > n.introduced[unit] || r.adopted[unit] {
				inside = append(inside, entry{t, "build-stage-received-" + kind + "-artifact"})
			}
		}
	}
	return inside
}

// groups leads from the start of a stage through its host groups to its end.
func (n *naive) groups(r *revision, d *definition.Deploy, started, finished entry, to func(a, b entry)) {
	any := false
	for _, g := range d.HostGroups {
		if !r.touches("host-group/" + n.name + "/" + g.Name) {
			continue
		}
		any = true
		gt := "host-group/" + n.name + "/" + g.Name
		begin, end := entry{gt, "host-group-started"}, entry{gt, "host-group-finished-successfully"}
		to(started, begin)
		to(end, finished)
		hosts, known := n.hostsOf(r, g.Name)
		if !known {
			to(begin, entry{gt, "members-told"}) // which nobody has yet
			to(entry{gt, "members-told"}, end)
		} else if len(hosts) == 0 {
			to(begin, end)
		}
		for _, h := range hosts {
			at := entry{"host/" + n.name + "/" + g.Name + "/" + h, "host-started"}
			to(begin, at)
			for _, event := range append(eventsOf(d), "host-finished-successfully") {
				to(at, entry{at.target, event})
				at.event = event
			}
			to(at, end)
		}
	}
	if !any {
		to(started, finished)
	}
}

func eventsOf(d *definition.Deploy) (events []string) {
	for _, s := range d.Steps {
		events = append(events, s.Event)
	}
	return events
}

// flood is after: all entries that come after one.
func (n *naive) flood(r *revision, e entry) []entry {
	next := n.graph(r)
	if found, ok := n.after[r][e]; ok {
		return found
	}
	seen := map[entry]bool{}
	var found []entry
	for queue := next[e]; len(queue) > 0; queue = queue[1:] {
		if a := queue[0]; !seen[a] {
			seen[a] = true
			found = append(found, a)
			queue = append(slices.Clip(queue), next[a]...)
		}
	}
	n.after[r][e] = found
	return found
}

func received(e entry) bool { return strings.HasPrefix(e.event, "build-stage-received-") }

// isNew: all steps after it are incomplete. Artifacts are no steps: they are received when they come.
func (n *naive) isNew(r *revision, e entry) bool {
	return !slices.ContainsFunc(n.flood(r, e), func(a entry) bool { return r.done(a) && !received(a) })
}

func (n *naive) passed(r *revision, e entry) bool { return r.done(e) || !n.isNew(r, e) }

// leftOut: an incomplete step was introduced after the revision was registered, and the revision has gone by it somewhere.
func (n *naive) leftOut(r *revision, e entry) bool {
	if !strings.HasPrefix(e.target, "host/") {
		return false
	}
	late := false
	gone := false
	for _, s := range n.definition.Stages {
		if s.Deploy == nil {
			continue
		}
		after, isStep := n.introduced[s.Name+":deploy:"+e.event]
		if !isStep || after < 0 || r.adopted[s.Name+":deploy:"+e.event] {
			continue
		}
		events := append(eventsOf(s.Deploy), "host-finished-successfully")
		later := events[slices.Index(events, e.event)+1:]
		for _, g := range s.Deploy.HostGroups {
			prefix := "host/" + n.name + "/" + g.Name + "/"
			if strings.HasPrefix(e.target, prefix) && r.age <= after {
				late = true
			}
			for done, seq := range r.completed {
				if !strings.HasPrefix(done.target, prefix) || !slices.Contains(later, done.event) {
					continue
				}
				if own := r.completed[entry{done.target, e.event}]; own == 0 || own > seq {
					gone = true
				}
			}
		}
	}
	if r.redoes != nil {
		stage := n.stageOf(e)
		return late && (gone || !r.did[stage][e.event])
	}
	return late && (gone || r.only != "")
}

// frontier is the incomplete steps before which all is complete, and the
// batches that were begun and not ended on the way there.
func (n *naive) frontier(r *revision) (frontier []entry, batches map[entry]int) {
	next := n.graph(r)
	start := entry{"pipeline/" + n.name, "pipeline-started"}
	seen := map[entry]bool{start: true}
	var opened [][2]entry
	closed := map[entry]bool{}
	for queue := []entry{start}; len(queue) > 0; queue = queue[1:] {
		e := queue[0]
		givenUp := r.failed[entry{e.target, "host-failed"}] > 0
		if e != start && !n.passed(r, e) && !n.leftOut(r, e) && !givenUp {
			frontier = append(frontier, e)
			continue
		}
		opened = append(opened, n.batchesAt(e)...)
		closed[e] = true
		for _, a := range next[e] {
			if !seen[a] {
				seen[a] = true
				queue = append(queue, a)
			}
		}
	}
	batches = map[entry]int{}
	for _, b := range opened {
		if _, reaches := next[b[1]]; reaches && !closed[b[1]] {
			batches[b[0]]++
		}
	}
	return frontier, batches
}

func (n *naive) batchesAt(e entry) (batches [][2]entry) {
	stage := func(name, event string) entry { return entry{"stage/" + n.name + "/" + name, event} }
	for _, s := range n.definition.Stages {
		if e == stage(s.Name, "stage-started") {
			batches = append(batches, [2]entry{e, stage(s.Name, "stage-finished-successfully")})
		}
	}
	for _, b := range n.definition.Batches {
		if e == stage(b.From, "stage-started") {
			batches = append(batches, [2]entry{e, stage(b.To, "stage-finished-successfully")})
		}
	}
	return batches
}

// holds: in a group that may have lost its hosts by mistake nothing but its beginning happens.
func (n *naive) holds(e entry) bool {
	for _, s := range n.definition.Stages {
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			inside := strings.HasPrefix(e.target, "host/"+n.name+"/"+g.Name+"/") || e == entry{"host-group/" + n.name + "/" + g.Name, "host-group-finished-successfully"}
			if inside && n.untrusted(g) {
				return true
			}
		}
	}
	return false
}

func (n *naive) untrusted(g definition.HostGroup) bool {
	hosts, known := n.members[g.Name]
	return n.held[g.Name] || known && len(hosts) == 0 && !g.AllowEmpty
}

// decide is one round of the scheduling loop: what of every revision, oldest
// first, is new, ready and unlocked, with the id of its deployment.
func (n *naive) decide() map[string][]entry {
	chosen := map[string][]entry{}
	if n.definition == nil {
		return chosen
	}
	active := n.redoing()
	frontiers := map[*revision][]entry{}
	for _, r := range n.revisions {
		if r.over {
			continue
		}
		frontier, batches := n.frontier(r)
		frontiers[r] = frontier
		for begin := range batches {
			active[begin]++
		}
	}
	for _, r := range n.revisions {
		if r.over {
			continue
		}
		if n.superseded(r, frontiers) {
			chosen[r.id] = []entry{{"pipeline/" + n.name, "pipeline-superseded"}}
			continue
		}
		doable, failures := n.failures(r)
		n.sortHosts(frontiers[r])
		for _, e := range frontiers[r] {
			ready := !slices.ContainsFunc(frontiers[r], func(f entry) bool { return slices.Contains(n.flood(r, f), e) })
			outside := received(e) || e.event == "stage-approved" && !n.isApproved(r, e) || e.event == "members-told"
			if !ready || outside || n.waits(r, e) || !doable(e) || active[e] > 0 || n.flightIsFull(r, e, chosen[r.id]) {
				continue
			}
			chosen[r.id] = append(chosen[r.id], e)
			if len(n.batchesAt(e)) > 0 {
				active[e]++
			}
		}
		chosen[r.id] = append(chosen[r.id], failures...)
	}
	return chosen
}
