package environment

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// note takes note of an event, and wants it to be one that may happen now.
func (n *naive) note(s *simulation, e deploylog.Event) {
	s.tally[e.Name]++
	p := record.Read(e.Data)
	if back := n.goesBack; back != 0 && e.Name != record.EnvironmentFailed || e.Name == record.EnvironmentStarted && p.Automatic {
		if n.goesBack = 0; back == 0 || e.Name != record.EnvironmentStarted || !p.Automatic || number(e) != back {
			s.fail("%s of revision %d, and by itself it goes back to %d", e.Name, number(e), back)
		}
	}
	if len(n.spares) > 0 && e.Name != record.HostsHeld {
		s.fail("%s of %s, and %s were to be kept", e.Name, e.Target, n.spares)
	}
	if _, revision, host, ok := record.TaskOf(e.Target); ok {
		n.noteTask(s, e, place{host, revision})
		return
	}
	switch e.Name {
	case record.EnvironmentCreated, record.EnvironmentUpdated:
		n.define(e, p.Definition)
	case record.EnvironmentStarted:
		n.start(s, e, p)
	case record.EnvironmentDeleted:
		n.deleted(s, p)
	case record.HostsCordoned, record.HostsUncordoned:
		n.noteCordons(e, p)
	case record.StepVerifying, record.StepVerified, record.StepVerifyFailed:
		n.noteTest(s, e, p)
	default:
		n.noteOwn(s, e, p)
	}
}

func (n *naive) define(e deploylog.Event, d *definition.Definition) {
	n.revisions = append(n.revisions, d)
	if e.Name == record.EnvironmentCreated {
		n.first = len(n.revisions)
		clear(n.cordons)
	}
	for i := n.first - 1; i < len(n.revisions); i++ {
		if same(n.revisions[i].Task, d.Task) {
			n.tasks = append(n.tasks, i+1)
			return
		}
	}
}

func (n *naive) configured(p record.Payload, revision int) definition.Configuration {
	c := p.Change.Apply(n.revisions[revision-1].Deployment)
	if p.Kind == record.ByRollback || len(p.Only) > 0 {
		c.Steps = nil
	}
	return c
}

func (n *naive) start(s *simulation, e deploylog.Event, p record.Payload) {
	was := n.force
	if was != nil && !was.reached && !was.passed {
		s.fail("%s has not ended, and %s is started", was.id, e.Deployment)
	}
	f := &inForce{
		id: e.Deployment, kind: p.Kind, revision: number(e), progress: e.CreatedAt, moved: true, late: map[place]bool{}, counted: map[string]bool{}, automatic: p.Automatic, tolerates: p.Tolerates,
		seq: e.Seq, only: p.Only, taken: map[string]bool{},
		configuration: n.configured(p, number(e)),
	}
	f.task, f.clean = n.tasks[f.revision-1], p.Clean
	n.bearsWith(s, p)
	if n.force = f; p.Kind == record.ByDelete {
		f.revision, f.task = 0, 0 // of which no host is to have a task
	}
	n.noteReverts(s, was, p)
	n.known = n.known && was != nil && was.revision > 0 && f.revision > 0 && n.revisions[was.revision-1].InstanceGroup == n.revisions[f.revision-1].InstanceGroup
	n.kept = false
	n.leavesOthers(s, p)
	if p.Hosts != nil {
		n.startsWith(s, was, *p.Hosts)
	}
	if p.Clean || p.Adopt {
		n.find(s, was)
	}
	for _, h := range n.hosts {
		h.begun = false
		h.isAbsent(false)
		h.spared = slices.Contains(n.spares, h.name)
		h.wanted = h.wanted && p.Kind != record.ByDelete && p.Hosts == nil
	}
	if p.Hosts != nil {
		for _, name := range *p.Hosts {
			n.host(name).wanted, n.host(name).lost = true, false
		}
	}
	n.known = n.known || p.Hosts != nil || p.Kind == record.ByDelete
}

// noteReverts takes note of which revisions are not to be gone back to, and which are again. A
// rollback reverts the later ones whose tasks may be on hosts.
func (n *naive) noteReverts(s *simulation, was *inForce, p record.Payload) {
	if was != nil && was.revision > 0 {
		n.past[was.revision] = true
	}
	for revision := n.force.revision + 1; p.Kind == record.ByRollback && revision <= len(n.revisions); revision++ {
		if reverts := slices.Contains(p.Reverts, revision); reverts != n.past[revision] {
			s.fail("the rollback to revision %d reverts %d: %t", n.force.revision, revision, reverts)
		}
	}
	for _, reverted := range p.Reverts {
		n.bad[reverted] = true
	}
	delete(n.bad, n.force.revision)
	delete(n.past, n.force.revision)
}

// noteUndeployed takes note that a deployment has ended: those that gave way are over.
func (n *naive) noteUndeployed() {
	for revision := range n.past {
		n.past[revision] = false
	}
}

// find has the environment have again what was left of it. Nobody knows how it is.
func (n *naive) find(s *simulation, was *inForce) {
	n.good = n.wasGood // all that was exists again
	if was != nil || len(n.left) == 0 {
		s.fail("what was left is to be terminated, and there is none, or the environment exists")
	}
	for at := range n.left {
		n.host(at.host).tasks[at.revision] = &naiveTask{of: at.revision, status: report.TaskLost}
	}
	clear(n.left)
}

func (n *naive) noteOrphan(e deploylog.Event, at place) {
	if e.Name == record.TaskTerminated {
		delete(n.left, at)
	}
}

func (n *naive) deleted(s *simulation, p record.Payload) {
	if f := n.force; f != nil && f.kind == record.ByDelete && n.known && n.due(s.now, true) == "the end" {
		for _, h := range n.there(func(*naiveHost) bool { return true }) {
			if m := s.machine(h.name); len(m.tasks) > 0 {
				s.fail("it is deleted, and %s has %v", m.name, m.tasks)
			}
		}
	}
	for name, h := range n.hosts {
		for revision := range h.tasks {
			n.left[place{name, revision}] = true
		}
	}
	if n.force != nil && n.force.clean && len(n.left) == 0 {
		s.tally["cleaned"]++
	}
	if f := n.force; f != nil {
		n.past[cmp.Or(f.revision, len(n.revisions))] = false
	}
	n.noteUndeployed()
	n.force, n.hosts, n.names, n.known, n.active = nil, map[string]*naiveHost{}, nil, false, 0
	n.wasGood, n.good = n.good, nil
	n.zonedBy = ""
}

func (n *naive) noteOwn(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	if f == nil || e.Deployment != f.id {
		s.fail("%s of %s, which is not in force", e.Name, e.Deployment)
	}
	switch e.Name {
	case record.EnvironmentFinished:
		if f.reached || n.due(s.now, true) != "the end" {
			s.fail("%s finishes, and has not come to its end", f.id)
		}
		n.leftBehind(s, p)
		n.allRestarted(s)
		n.beginBake(e)
		f.reached, f.stuck, n.active = true, false, f.revision
		n.noteUndeployed()
		n.good = append(n.good, f.revision)
		f.configuration = n.revisions[f.revision-1].Deployment // what was for the deployment only has ended with it
	case record.EnvironmentFailed:
		f.passed = true
	case record.EnvironmentStuck:
		n.noteStuck(s)
	case record.BakeFailed:
		n.noteBroken(s)
	case record.EnvironmentPaused:
		f.paused = true
	case record.EnvironmentResumed:
		f.paused, f.progress, f.resumed = false, e.CreatedAt, e.CreatedAt
	case record.StepReached, record.EnvironmentPromoted:
		n.noteStep(s, e, p)
	case record.TasksTaken:
		n.noteTakenOver(p)
	case record.EnvironmentWatched:
		n.noteGap(s, e, p)
	case record.HostsZoned:
		n.noteZones(s, p)
	case record.HostsHeld, record.HostsChanged:
		n.noteHosts(s, e, p)
	default:
		s.fail("there is no event %s", e.Name)
	}
}

// noteStuck wants a deployment to be stuck when it is, and but once until there is progress.
func (n *naive) noteStuck(s *simulation) {
	f := n.force
	if (n.due(s.now, true) != "being stuck" && n.due(s.now, false) != "being stuck") || !f.moved {
		s.fail("%s is stuck too early, or again", f.id)
	}
	if at := n.stuckAt(); !n.halted() && !n.untested() && !at.IsZero() && s.awaited(f.progress, s.now) < time.Duration(f.configuration.ProgressDeadline) {
		s.fail("%s is stuck, and somebody was there for %s since its last progress", f.id, s.awaited(f.progress, s.now))
	}
	f.stuck, f.moved = true, false
	if f.configuration.AutoRollback && f.kind == record.ByDeploy && (f.tried || len(n.failed()) > 0 || n.untested()) {
		n.goesBack = n.backTo(s, n.lastGood(nil))
	}
}

// noteGap takes note that nobody was there for a while. What is told of was not watched.
func (n *naive) noteGap(s *simulation, e deploylog.Event, p record.Payload) {
	f := n.force
	if p.Since != n.unseen || f.reached || f.paused {
		s.fail("nobody was there since %s, and it says %s", n.unseen, p.Since)
	}
	if at := n.stuckAt(); !at.IsZero() && !at.After(e.CreatedAt) {
		s.tally["late, but for nobody being there"]++
	}
	gap := naiveSpan{p.Since, e.CreatedAt}
	if k := len(f.gaps); k > 0 {
		gap.from = latest(gap.from, f.gaps[k-1].to)
	}
	f.gaps, n.unseen = append(f.gaps, gap), time.Time{}
}

// allRestarted wants a restart to have started all tasks anew, and tells of it.
func (n *naive) allRestarted(s *simulation) {
	f := n.force
	if f.kind != record.ByRestart {
		return
	}
	s.tally["restarted"]++
	for _, h := range n.there(func(h *naiveHost) bool { return h.wanted && !n.unsettled(h) && !n.cordoned(h) }) {
		if t := h.tasks[f.task]; t == nil || t.made < f.seq && (f.only == nil || slices.Contains(f.only, h.name)) {
			s.fail("%s finishes, and the task on %s was not started anew", f.id, h.name)
		}
	}
}

// noteCordons takes note of hosts that are left alone, or not any more: then all that has to be in time has its time anew.
func (n *naive) noteCordons(e deploylog.Event, p record.Payload) {
	for _, name := range *p.Hosts {
		if e.Name == record.HostsCordoned {
			n.cordons[name] = p.Drain
			continue
		}
		delete(n.cordons, name)
		if n.force != nil {
			n.force.progress = e.CreatedAt
		}
		if h := n.hosts[name]; h != nil {
			h.freed = e.CreatedAt
		}
	}
}

// startsWith wants a deployment to take no hosts away by mistake.
func (n *naive) startsWith(s *simulation, was *inForce, hosts []string) {
	back := n.force.kind == record.ByRollback && was != nil && was.revision > 0 && len(hosts) > 0 &&
		n.revisions[was.revision-1].InstanceGroup.Query != n.revisions[n.force.revision-1].InstanceGroup.Query
	leaving := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return slices.Contains(hosts, name) })
	switch lost, ok := n.lets(leaving, back); {
	case ok || n.force.kind == record.ByDelete:
	case back: // the rest goes on
		n.spares = lost
	default:
		s.fail("%s leave at once, and nobody has confirmed it", lost)
	}
}

func (n *naive) noteHosts(s *simulation, e deploylog.Event, p record.Payload) {
	defer n.waits(e.CreatedAt)
	if e.Name == record.HostsHeld {
		if len(n.spares) > 0 && !slices.Equal(n.spares, p.Kept) {
			s.fail("it keeps %s, not %s", p.Kept, n.spares)
		}
		n.spares = nil
		n.more = p.More // of which the next event tells
		s.tally["kept, and not in the inventory"] += len(p.Lost)
		s.tally["kept by a rollback"] += len(p.Kept)
		for _, h := range n.hosts {
			h.isAbsent(slices.Contains(p.Lost, h.name) || n.more && h.absent)
			if slices.Contains(p.Kept, h.name) {
				h.wanted, h.spared = false, true
			}
		}
		if n.kept = true; s.calm || s.chance(0.7) { // else the next deployment, or the hosts that are back, end it
			s.after(s.between(0, time.Minute), s.confirm)
		}
		return
	}
	n.kept = false
	for _, h := range n.hosts {
		h.isAbsent(false)
		h.spared = false
	}
	back := n.force.kind == record.ByRollback && !n.known && len(s.selected(s.told.Query())) > 0
	n.believes(s, p.By, append(slices.Clone(p.Left), p.Lost...), back)
	n.moved(e, p)
}

// waits wants no deadline to pass while nothing can be done before somebody confirms it.
func (n *naive) waits(now time.Time) {
	f := n.force
	waits := n.kept && (!n.known || slices.ContainsFunc(n.names, func(name string) bool { return n.hosts[name].absent }))
	switch {
	case waits && !f.waits:
		f.waitsFrom = now
	case !waits && f.waits && f.progress.Before(f.waitsFrom):
		f.progress = f.progress.Add(now.Sub(f.waitsFrom))
	case !waits && f.waits:
		f.progress = now
	}
	f.waits = waits
}

func (h *naiveHost) isAbsent(absent bool) {
	for _, t := range h.tasks {
		if h.absent != absent {
			t.blamed, t.firstBy = "", ""
		}
	}
	h.absent = absent
}

// believes wants no more than half of the hosts to leave at once, and not the last one,
// unless a person has said so. Of those that a rollback leaves behind only healthy ones count.
func (n *naive) believes(s *simulation, by string, leaving []string, back bool) {
	if lost, ok := n.lets(leaving, back); !ok && by == "" && n.force.kind != record.ByDelete {
		s.fail("%s leave at once, and nobody has confirmed it", lost)
	}
}

func (n *naive) lets(leaving []string, back bool) (lost []string, ok bool) {
	all := 0
	for _, name := range n.names {
		if h := n.hosts[name]; h.wanted || h.spared {
			if all++; slices.Contains(leaving, h.name) && (!back || h.ups() > 0) {
				lost = append(lost, h.name)
			}
		}
	}
	return lost, 2*len(lost) <= all || len(lost) == 1 && all > 1
}

func (s *simulation) confirm() {
	s.command(ConfirmHosts{Hosts: s.selected(s.told.Query()), Known: func(host string) bool { return s.machine(host).in }, By: "alice@host"})
}

func (n *naive) moved(e deploylog.Event, p record.Payload) {
	defer func(none bool) {
		if none && n.wanted() > 0 {
			n.force.progress = e.CreatedAt
		}
	}(n.wanted() == 0)
	for _, name := range p.Joined {
		n.host(name).wanted, n.host(name).lost = true, false
	}
	for _, name := range p.Left {
		n.host(name).wanted, n.host(name).lost = false, false
	}
	for _, name := range p.Lost {
		h := n.host(name)
		h.wanted, h.lost = false, true
		for _, t := range h.tasks {
			if t.status != report.TaskTerminating {
				t.status, t.since = report.TaskLost, e.CreatedAt
			}
		}
	}
	n.known = n.known || !p.More
}

func (n *naive) noteTask(s *simulation, e deploylog.Event, at place) {
	f := n.force
	begins := e.Name == record.TaskStarted || e.Name == record.TaskTerminating
	switch {
	case begins && (f == nil || f.paused || f.passed || e.Deployment != f.id):
		s.fail("%s of %s: nothing may begin", e.Name, e.Target)
	case f == nil:
		n.noteOrphan(e, at)
		return
	}
	if begins {
		n.sparesCordoned(s, at.host, map[bool]tasks.Kind{true: tasks.Terminate, false: tasks.Start}[e.Name == record.TaskTerminating])
	}
	h := n.host(at.host)
	if n.noteCheck(s, e, h) {
		return
	}
	t := h.tasks[at.revision]
	if t == nil && e.Name == record.TaskStarted {
		t = &naiveTask{of: at.revision}
		h.tasks[at.revision] = t
	}
	switch {
	case t == nil:
		return
	case e.Name == record.TaskDeadlinePassed:
		n.noteLate(s, h, at)
		return
	case e.Name == record.TaskAdopted:
		n.noteAdopted(s, e, t, at)
		return
	}
	n.confirms(s, e, at, t)
	n.noteTaken(e, h, t)
	if t.note(e); h.lost && t.up() {
		t.status = report.TaskLost
	}
	n.noteBaked(s, e, h, at.revision)
	if e.Name == record.TaskTerminated {
		delete(h.tasks, at.revision)
	}
	if e.Deployment == f.id {
		n.noteProgress(e, h, at.revision == f.task)
	}
}

// noteAdopted wants a task to be adopted only where it is healthy and what the revision in force wants.
func (n *naive) noteAdopted(s *simulation, e deploylog.Event, t *naiveTask, at place) {
	f := n.force
	if e.Deployment != f.id || at.revision != f.task || !n.adopts(n.host(at.host)) || record.Read(e.Data).From != t.of {
		s.fail("%s is adopted by revision %d, which has it already or does not want it", e.Target, f.revision)
	}
	t.of = f.revision
}

func (n *naive) noteLate(s *simulation, h *naiveHost, at place) {
	if due := n.lateAt(h); due.IsZero() || due.After(s.now) || at.revision != n.force.task {
		s.fail("the task on %s is late too early, or again: it was first started at %s", at.host, h.tasks[at.revision].first)
	}
	n.force.late[at] = true
}

func number(e deploylog.Event) int { n, _ := strconv.Atoi(e.Revision); return n }
