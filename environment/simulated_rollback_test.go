package environment

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// leavesTo reports whether a host is left to another environment when this one goes back.
func (s *simulation) leavesTo(name string, revision int) bool {
	i := slices.IndexFunc(s.hosts, func(m *machine) bool { return m.name == name })
	h := s.naive.hosts[name]
	return s.others > 0 && i%s.others == 0 && (h == nil || h.tasks[s.naive.tasks[revision-1]] == nil)
}

func (s *simulation) back(revision int, hosts []string) ([]string, error) {
	rest := slices.DeleteFunc(slices.Clone(hosts), func(name string) bool { return s.leavesTo(name, revision) })
	if len(rest) == 0 && len(hosts) > 0 {
		return nil, errors.New("all hosts are another environment's")
	}
	return rest, nil
}

// stayBack are the hosts that the environment keeps when it goes back, and those that it
// leaves to others; none where it has to be asked for them.
func (n *naive) stayBack(s *simulation, revision int) (keeps, leaves []string) {
	if f := n.force; !n.known || n.revisions[f.revision-1].InstanceGroup.Query != n.revisions[revision-1].InstanceGroup.Query {
		return nil, nil
	}
	for _, name := range n.names {
		switch {
		case !n.hosts[name].wanted:
		case s.leavesTo(name, revision):
			leaves = append(leaves, name)
		default:
			keeps = append(keeps, name)
		}
	}
	return keeps, leaves
}

// backTo is the revision to which it goes back by itself; 0 where it would be left with none of
// its hosts, or with fewer than may leave at once.
func (n *naive) backTo(s *simulation, revision int) int {
	if revision == 0 {
		return 0
	}
	keeps, leaves := n.stayBack(s, revision)
	all := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return slices.Contains(keeps, name) })
	if _, ok := n.lets(all, false); len(leaves) > 0 && (len(keeps) == 0 || !ok) {
		s.tally["not rolled back onto the hosts of others"]++
		return 0
	}
	if n.without = leaves; len(leaves) > 0 {
		s.tally["rolled back without the hosts of others"]++
	}
	return revision
}

// leavesOthers wants an automatic rollback to begin without the hosts of others.
func (n *naive) leavesOthers(s *simulation, p record.Payload) {
	if !p.Automatic {
		return
	}
	if (p.Hosts != nil) != (len(n.without) > 0) {
		s.fail("it goes back with the hosts %v, and is to leave %s", p.Hosts, n.without)
	}
	for _, name := range n.without {
		if slices.Contains(*p.Hosts, name) {
			s.fail("it goes back with %s, which is another environment's", name)
		}
	}
	n.without = nil
}

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

// noteBroken wants a bake to fail when it does, and the revision before to be deployed again where that is wanted.
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

// failedCheck is that the new task of a host could not be started.
type failedCheck struct {
	by       string // deployment
	failures int    // in a row
	rests    time.Time
}

func (n *naive) checkedFirst(h *naiveHost, do todo) todo {
	if do.kind == tasks.Terminate && do.class == hosts.Replace && h.check.by == n.force.id {
		return todo{tasks.Check, n.force.task, hosts.Free, h.check.rests}
	}
	return do
}

func (n *naive) checks(h *naiveHost, do todo, can Can) todo {
	if do.kind == tasks.Terminate && do.class == hosts.Replace && can.Checked != nil && !can.Checked(h.name) {
		do.kind, do.revision = tasks.Check, n.force.task
	}
	return do
}

// noteCheck notes how a check has ended, and reports whether that is all that an event tells.
func (n *naive) noteCheck(s *simulation, e deploylog.Event, h *naiveHost) bool {
	switch e.Name {
	case record.TaskCheckFailed:
		if h.check.by != e.Deployment {
			h.check = failedCheck{by: e.Deployment}
		}
		h.check.failures++
		h.check.rests = e.CreatedAt.Add(min(time.Minute, time.Second<<min(h.check.failures-1, 10)))
	case record.TaskChecked, record.TaskTerminating, record.TaskStarted:
		h.check = failedCheck{}
	}
	return e.Name == record.TaskCheckFailed || e.Name == record.TaskChecked
}

// staysUp wants no healthy task to be stopped for one that cannot be started there.
func (n *naive) staysUp(s *simulation, step tasks.Step) {
	if do := n.next(n.host(step.Host)); step.Kind == tasks.Terminate && do.class == hosts.Replace && s.unfit(place{step.Host, n.force.task}) {
		s.fail("the healthy task %d on %s is stopped for %d, which cannot be started", step.Revision, step.Host, n.force.task)
	}
}

// unfit reports whether a task cannot be started on a host.
func (s *simulation) unfit(p place) bool { return p.revision > 0 && s.behaves(p) == unable }

// mended is what is to be done on a host that has to wait, for its step or because too many have failed: its only task
// is started again where it is down, and confirmed then. ok is false where nothing is to be done with it.
func (n *naive) mended(h *naiveHost, do todo) (mends todo, ok bool) {
	waits := n.bounded(h, do) && n.mayBegin() <= 0 || n.enters(h, do) && do.class != hosts.Free && n.halted()
	if !waits || len(h.tasks) != 1 {
		return do, false
	}
	for revision, t := range h.tasks {
		switch t.status {
		case report.TaskLaunched:
			return todo{tasks.Confirm, revision, hosts.Free, t.since.Add(time.Duration(n.force.configuration.MinHealthyTime))}, true
		case report.TaskDied, report.TaskFailed, report.TaskStarting:
			return todo{tasks.Start, revision, hosts.Free, t.rests}, true
		default:
			return do, false
		}
	}
	return do, false
}

// mends reports whether a step is what is to be done on a host that has to wait.
func (n *naive) mends(step tasks.Step) bool {
	h := n.host(step.Host)
	do, ok := n.mended(h, n.next(h))
	return ok && do.kind == step.Kind && do.revision == step.Revision
}

func (n *naive) restsUntilStep(h *naiveHost) bool {
	do := n.next(h)
	_, mends := n.mended(h, do)
	return n.bounded(h, do) && !mends
}

func (n *naive) noteMended(s *simulation, step tasks.Step) {
	switch h := n.host(step.Host); {
	case step.Kind == tasks.Confirm:
		s.tally["a repair that is confirmed"]++
	case step.Revision == n.force.task:
		s.tally["restarted before its step"]++
	case n.bounded(h, n.next(h)):
		s.tally["repaired while a step waits"]++
	default:
		s.tally["repaired while too many have failed"]++
	}
}

// confirms wants a task of an earlier revision to have been healthy for a while.
func (n *naive) confirms(s *simulation, e deploylog.Event, at place, t *naiveTask) {
	f := n.force
	if e.Name == record.TaskFinished && t.status == report.TaskStarting && e.Deployment == f.id && at.revision != f.task && f.configuration.MinHealthyTime > 0 {
		s.fail("%s is taken for healthy at once", e.Target)
	}
}

// work is a step that was begun. It may be nobody's any more, and still go on.
type work struct {
	at      place
	step    tasks.Step
	replace bool // no other revision may be there
	of      *controller
	begins  time.Time // when older work on the task is over
	ends    time.Time
	lost    bool // its process died with the controller
	seen    tasks.ProbeResult
	err     error
}

func (s *simulation) lasts(w *work) time.Duration {
	switch {
	case w.step.Kind == tasks.Confirm || w.step.Kind == tasks.Check:
		return s.between(0, 2*time.Second)
	case w.step.Kind == tasks.Verify:
		return s.between(0, time.Minute)
	case !s.calm && s.chance(0.01):
		return s.between(time.Minute, 20*time.Minute) // the engine hangs
	case w.step.Kind == tasks.Start && s.behaves(w.at) == slow:
		return s.between(30*time.Second, 4*time.Minute)
	}
	return s.between(0, 15*time.Second)
}

var errAway = errors.New("the host does not answer")

func (s *simulation) starts(w *work) {
	m := s.machine(w.at.host)
	switch {
	case w.lost:
	case !m.up:
		w.err = errAway
	case w.step.Kind == tasks.Start:
		s.alone(w, m)
		if now := m.tasks[w.at.revision]; now != "" && now != sound {
			m.tasks[w.at.revision] = half
		}
	}
	s.at(w.ends, func() { s.ends(w, m) })
}

// alone wants no other revision to be on a host where one is started by Replace.
func (s *simulation) alone(w *work, m *machine) {
	for revision := range m.tasks {
		if w.replace && revision != w.at.revision {
			s.fail("revision %d is started on %s while revision %d really is there", w.at.revision, m.name, revision)
		}
	}
	for _, other := range s.works {
		if w.replace && !other.lost && other.step.Kind == tasks.Start && other.at.host == m.name && other.at.revision != w.at.revision {
			s.fail("revision %d is started on %s while revision %d is being started there", w.at.revision, m.name, other.at.revision)
		}
	}
}

func (s *simulation) over(w *work) {
	s.works = slices.DeleteFunc(s.works, func(other *work) bool { return other == w })
}

func (s *simulation) ends(w *work, m *machine) {
	s.over(w)
	if !w.lost {
		s.takesEffect(w, m)
	}
	if c := s.control; c != nil && w.of == c {
		delete(c.working, w.at.host)
		c.ended, c.news = append(c.ended, w), true
		c.resume(w.at.host)
	}
}

func (s *simulation) takesEffect(w *work, m *machine) {
	if w.err == nil && !m.up {
		w.err = errAway
	}
	if w.err != nil {
		return
	}
	fails := 0
	if !s.calm && s.chance(s.nature.failures) {
		fails = 1 + s.IntN(3)
		w.err = errors.New("the engine failed")
	}
	revision := w.at.revision
	_, exists := m.tasks[revision]
	switch {
	case w.step.Kind == tasks.Check && s.unfit(w.at):
		w.err = errors.New("the host has no attribute rack")
	case w.step.Kind == tasks.Check && w.of != nil:
		w.of.checked[w.at.host] = w.step.Deployment
	case w.step.Kind == tasks.Confirm:
		w.seen, w.err = s.observe(w.at), nil
	case fails == 1: // without any effect
	case w.step.Kind == tasks.Terminate && fails == 2 && exists:
		m.tasks[revision] = half
	case w.step.Kind == tasks.Terminate:
		delete(m.tasks, revision)
	case fails == 2:
		if m.tasks[revision] != sound {
			m.tasks[revision] = half
		}
	default:
		s.made(w, m)
	}
}

func (s *simulation) made(w *work, m *machine) {
	revision := w.at.revision
	switch s.behaves(w.at) {
	case bad, unable:
		m.tasks[revision] = half
		if s.chance(0.5) {
			w.err = errors.New("bad image")
		}
	case sickening:
		if m.tasks[revision] = sound; !s.calm {
			s.after(s.between(5*time.Second, 3*time.Minute), func() {
				if !s.calm && m.tasks[revision] == sound {
					m.tasks[revision] = sick
					s.hint(m)
				}
			})
		}
	default:
		m.tasks[revision] = sound
	}
	w.seen = s.observe(w.at)
}

func (s *simulation) observe(at place) tasks.ProbeResult {
	m := s.machine(at.host)
	switch now := m.tasks[at.revision]; {
	case !m.up:
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: errAway.Error()}
	case now == sound:
		return tasks.ProbeResult{Health: tasks.Healthy}
	case now == drifted:
		return tasks.ProbeResult{Health: tasks.Drifted, Detail: "~ content"}
	case now == "":
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it is missing"}
	default:
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: string("it is " + now)}
	}
}

// noteProgress counts the first task that the deployment begins, and the first end
// of each: of those of its revision that they are healthy, of all that they are gone.
func (n *naive) noteProgress(e deploylog.Event, h *naiveHost, own bool) {
	f := n.force
	progress := func() {
		f.progress, f.moved = e.CreatedAt, true
		f.stuck = f.stuck && (f.reached || n.halted())
	}
	if e.Name == record.TaskStarted && own {
		h.begun, h.tasks[f.task].of = true, f.revision
		if !f.tried {
			f.tried = true
			progress()
		}
	}
	key := e.Name + string(e.Target)
	if again := f.counted[key]; !again && (e.Name == record.TaskFinished && own || e.Name == record.TaskTerminated) {
		f.counted[key] = true
		progress()
	}
}

func (t *naiveTask) note(e deploylog.Event) {
	was := t.status
	t.since = e.CreatedAt
	fails := func(as report.TaskStatus) {
		t.status, t.blamed = as, e.Deployment
		t.failures++
		t.rests = e.CreatedAt.Add(min(time.Minute, time.Second<<min(t.failures-1, 10)))
	}
	switch e.Name {
	case record.TaskStarted:
		t.made = e.Seq
		if t.firstBy != e.Deployment {
			t.firstBy, t.first = e.Deployment, e.CreatedAt
		}
		if was == report.TaskTerminating {
			t.failures = 0
		}
		t.status, t.rests = report.TaskStarting, time.Time{}
	case record.TaskTerminating:
		if was != report.TaskTerminating {
			t.failures = 0
		}
		t.status, t.rests, t.vain = report.TaskTerminating, time.Time{}, false
	case record.TaskLaunched:
		t.status = report.TaskLaunched
	case record.TaskFinished, record.TaskRecovered:
		t.status, t.blamed, t.healthy = report.TaskHealthy, "", e.CreatedAt
	case record.TaskLost:
		t.status = report.TaskLost
	case record.TaskDrifted:
		if e.CreatedAt.Sub(t.drifted) < 10*time.Minute {
			fails(report.TaskDrifted)
		} else {
			t.failures = 0
		}
		t.status, t.drifted, t.blamed = report.TaskDrifted, e.CreatedAt, ""
	case record.TaskDied:
		if e.CreatedAt.Sub(t.healthy) >= 10*time.Minute {
			t.failures = 0
		}
		fails(report.TaskDied)
	case record.TaskFailed:
		fails(report.TaskFailed)
	case record.TaskTerminationFailed:
		fails(report.TaskTerminating)
		t.vain = true
	}
}
