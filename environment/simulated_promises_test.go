package environment

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// wasInTime wants deadlines to have been told of if a controller was there.
func (n *naive) wasInTime(s *simulation, since time.Time) {
	if n.force == nil || !s.now.After(since) {
		return
	}
	if at := n.stuckAt(); !at.IsZero() && s.now.After(at) {
		s.fail("%s is not stuck, and its deadline was %s ago", n.force.id, s.now.Sub(at))
	}
	for _, h := range n.there(func(*naiveHost) bool { return true }) {
		if at := n.lateAt(h); !at.IsZero() && s.now.After(at) {
			s.fail("the task on %s is not late, and its deadline was %s ago", h.name, s.now.Sub(at))
		}
	}
}

// decides wants a decision to be just what may be done by the rules.
func (n *naive) decides(s *simulation, can Can, steps []tasks.Step) {
	if n.force == nil {
		if len(steps) > 0 {
			s.fail("nothing is deployed, and it decides %s", texts(steps))
		}
		return
	}
	due := n.due(s.now, can.Disrupt)
	if len(steps) > 0 && steps[0].Kind == tasks.Record {
		if due == "" || len(steps) > 1 {
			s.fail("nothing is to be recorded, and it decides %s", texts(steps))
		}
		return
	}
	if due != "" {
		s.fail("%s is to be recorded, and it decides %s", due, texts(steps))
	}
	steps = n.untestedOf(s, can, steps)
	room, may, left := n.rooms(can), n.may(s.now, can), n.mayBegin()
	for _, step := range steps {
		if h := n.host(step.Host); n.bounded(h, n.next(h)) && !n.mends(step) {
			if left--; left < 0 && n.mayBegin() >= 0 {
				s.fail("it decides on %s, which are more hosts than the step of %d has", texts(steps), n.mostBegun())
			}
		}
		if !may.take(step, &room) {
			s.fail("it decides to %s %d on %s, which may not be; what may is %v", step.Kind, step.Revision, step.Host, may)
		}
	}
	for class := range hosts.Classes {
		maps.DeleteFunc(may[class], func(host string, _ todo) bool { return left <= 0 && n.restsUntilStep(n.host(host)) })
		if room[class] > 0 && len(may[class]) > 0 {
			s.fail("it does not decide on what may be done of class %d: %v, but on %s", class, may[class], texts(steps))
		}
	}
}

// untestedOf are the steps that verify nothing. It wants one of the others where it may be.
func (n *naive) untestedOf(s *simulation, can Can, steps []tasks.Step) []tasks.Step {
	rest := slices.DeleteFunc(slices.Clone(steps), func(step tasks.Step) bool { return step.Kind == tasks.Verify })
	if may, tests := n.mayTest(s.now, can), len(steps)-len(rest); tests > 1 || may != (tests == 1) {
		s.fail("it verifies %d times, and may: %t", tests, may)
	}
	return rest
}

// choices are what may be done next, by class and host.
type choices [hosts.Classes]map[string]todo

func (n *naive) may(now time.Time, can Can) (may choices) {
	for i := range may {
		may[i] = map[string]todo{}
	}
	for _, h := range n.there(func(h *naiveHost) bool { return n.known && can.Work(h.name) }) {
		do := n.checks(h, n.next(h), can)
		if mends, ok := n.mended(h, n.next(h)); ok {
			if !mends.from.After(now) && (!n.force.paused || mends.kind == tasks.Confirm) {
				may[mends.class][h.name] = mends
			}
			continue
		}
		if do.kind != "" && !do.from.After(now) && !n.keepsBack(h, n.next(h)) && (n.mayBegin() > 0 || !n.bounded(h, n.next(h))) && (!n.force.paused || do.kind == tasks.Confirm) {
			may[do.class][h.name] = do
		}
	}
	return may
}

func (may choices) take(step tasks.Step, room *[hosts.Classes]int) (found bool) {
	for class := range hosts.Classes {
		if do, ok := may[class][step.Host]; ok && do.kind == step.Kind && do.revision == step.Revision && room[class] > 0 {
			found = true
			if room[class]--; class == hosts.Evict {
				room[hosts.Replace]--
			}
			if class == hosts.Evict || class == hosts.Replace {
				room[hosts.Drain]--
			}
			delete(may[class], step.Host)
		}
	}
	return found
}

func (n *naive) rooms(can Can) (room [hosts.Classes]int) {
	const all = 1 << 30
	room[hosts.Free] = all
	if can.Disrupt && !n.force.paused {
		room[hosts.Evict] = n.serve() - n.minimum()
	}
	if n.halted() || n.force.paused {
		return room
	}
	room[hosts.First] = all
	if can.Disrupt {
		room[hosts.Replace] = n.serve() - n.minimum()
		room[hosts.Drain] = n.up() - n.minimum()
	}
	room[hosts.Surge] = n.mostDoubled() - n.doubled()
	return room
}

func (n *naive) begins(s *simulation, step tasks.Step) {
	h := n.host(step.Host)
	for _, w := range s.works {
		if w.of == s.control && w.at.host == h.name {
			s.fail("there is work on %s already", h.name)
		}
	}
	n.sparesCordoned(s, step.Host, step.Kind)
	if n.mends(step) {
		n.noteMended(s, step)
	} else if n.bounded(h, n.next(h)) && n.mayBegin() <= 0 {
		s.fail("%s on %s begins, and %d hosts are begun of %d", step.Kind, h.name, len(n.begun()), n.mostBegun())
	}
	n.staysUp(s, step)
	n.keepsMinimum(s, step)
	n.keepsUnchanged(s, step)
	if step.Kind == tasks.Terminate {
		n.sparesBelievedDead(s, step)
	}
	if step.Kind == tasks.Start {
		n.keepsToMethod(s, step)
	}
}

func (n *naive) keepsUnchanged(s *simulation, step tasks.Step) {
	f, h := n.force, n.host(step.Host)
	t := h.tasks[step.Revision]
	if f.kind == record.ByDelete || n.cordons[h.name] || n.outdated(h, t) || !h.wanted || !t.up() || !same(n.revisions[step.Revision-1].Task, n.revisions[f.revision-1].Task) {
		return
	}
	if step.Kind == tasks.Terminate || t.status != report.TaskDrifted {
		s.fail("%s %d on %s takes a healthy task, and revision %d has the same", step.Kind, step.Revision, h.name, f.revision)
	}
}

// keepsMinimum wants enough hosts to be healthy without the only healthy task of one.
func (n *naive) keepsMinimum(s *simulation, step tasks.Step) {
	f, h := n.force, n.host(step.Host)
	if t := h.tasks[step.Revision]; step.Kind == tasks.Confirm || step.Kind == tasks.Check || !t.up() || h.ups() != 1 || f.kind == record.ByDelete {
		return
	}
	if left := n.up() - 1; left < n.minimum() {
		s.fail("%s %d on %s leaves %d healthy, and the minimum is %d", step.Kind, step.Revision, h.name, left, n.minimum())
	}
	if left := n.serve() - 1; h.wanted && left < n.minimum() {
		s.fail("%s %d on %s leaves %d of those wanted, and the minimum is %d", step.Kind, step.Revision, h.name, left, n.minimum())
	}
	if left := s.reallyUp(h.name); !s.nature.deaths && left < n.minimum() {
		s.fail("%s %d on %s really leaves %d healthy, and the minimum is %d", step.Kind, step.Revision, h.name, left, n.minimum())
	}
	if f.configuration.Method == definition.Surge && h.wanted && step.Kind == tasks.Terminate && !n.cordoned(h) {
		s.fail("it stops the only task on %s, and the method is Surge", h.name)
	}
}

// sparesCordoned wants nothing to be done on a cordoned host but to look, and to end tasks where it is drained.
func (n *naive) sparesCordoned(s *simulation, host string, kind tasks.Kind) {
	drain, cordoned := n.cordons[host]
	if cordoned && n.force.kind != record.ByDelete && kind != tasks.Confirm && (kind != tasks.Terminate || !drain) {
		s.fail("%s on %s, which is cordoned", kind, host)
	}
}

func (n *naive) sparesBelievedDead(s *simulation, step tasks.Step) {
	f, h := n.force, n.host(step.Host)
	t := h.tasks[step.Revision]
	if t != nil && t.status == report.TaskDied && !s.nature.deaths && f.kind != record.ByDelete && s.machine(h.name).tasks[step.Revision].healthy() {
		if left := s.reallyUp(h.name); left < n.minimum() {
			s.fail("%d on %s is believed dead, and without it really %d are healthy, and the minimum is %d", step.Revision, h.name, left, n.minimum())
		}
	}
}

// keepsToMethod wants a task to be started beside another only by Surge, and on no more hosts than may have two.
func (n *naive) keepsToMethod(s *simulation, step tasks.Step) {
	f, h := n.force, n.host(step.Host)
	t := h.tasks[step.Revision]
	if f.configuration.Method == definition.Replace && (len(h.tasks) > 1 || len(h.tasks) == 1 && t == nil) {
		s.fail("revision %d is started on %s, which may have another", step.Revision, h.name)
	}
	if t == nil && len(h.tasks) > 0 {
		s.tally["doubled"]++
		if already := len(h.tasks) > 1; !already && n.doubled() >= n.mostDoubled() {
			s.fail("%d hosts have two tasks already, and %d may", n.doubled(), n.mostDoubled())
		}
	}
}

// reallyUp is how many hosts but one really have a healthy task that nobody is about to stop.
func (s *simulation) reallyUp(but string) (n int) {
	for _, m := range s.hosts {
		if m.name == but || s.naive.hosts[m.name] == nil || s.naive.hosts[m.name].lost {
			continue
		}
		for revision, now := range m.tasks {
			stopping := slices.ContainsFunc(s.works, func(w *work) bool {
				return w.at == place{m.name, revision} && !w.lost && (w.step.Kind == tasks.Terminate || w.step.Kind == tasks.Start && now != sound)
			})
			if now.healthy() && !stopping {
				n++
				break
			}
		}
	}
	return n
}

// sees is the event that is to be recorded of a look at a task, "" is none.
func (n *naive) sees(l *look) string {
	if n.force == nil || n.hosts[l.at.host] == nil || n.host(l.at.host).lost {
		return ""
	}
	t := n.host(l.at.host).tasks[l.at.revision]
	if t == nil {
		return ""
	}
	lost := t.status == report.TaskLost
	switch seen := l.seen.Health; {
	case t.status == report.TaskLaunched && (seen == tasks.Unhealthy || seen == tasks.Unknown):
		return record.TaskFailed
	case t.up() && seen == tasks.Unknown:
		return record.TaskLost
	case (t.up() || lost) && seen == tasks.Unhealthy:
		return record.TaskDied
	case (t.status == report.TaskHealthy || lost) && seen == tasks.Drifted:
		return record.TaskDrifted
	case seen == tasks.Healthy && slices.Contains([]report.TaskStatus{report.TaskDrifted, report.TaskDied, report.TaskLost}, t.status):
		return record.TaskRecovered
	}
	return ""
}

// follows wants the hosts to be those that the inventory has.
func (n *naive) follows(s *simulation, query string) {
	if n.kept {
		n.keeps(s)
		return
	}
	selected := s.selected(query)
	for _, name := range n.names {
		h, in := n.hosts[name], s.machine(name).in
		if h.wanted != slices.Contains(selected, name) || in && h.lost || !in && !h.lost && len(h.tasks) > 0 {
			s.fail("%s is wanted: %t, and lost: %t, with %d tasks, in the inventory: %t", name, h.wanted, h.lost, len(h.tasks), in)
		}
	}
	for _, name := range selected {
		if n.hosts[name] == nil {
			s.fail("%s is selected, and not wanted", name)
		}
	}
}

// keeps wants it to be known which of the hosts that are kept the inventory does not have.
func (n *naive) keeps(s *simulation) {
	for _, h := range n.there(func(h *naiveHost) bool { return h.wanted || len(h.tasks) > 0 }) {
		if in := s.machine(h.name).in; h.absent == in {
			s.fail("%s is kept and in the inventory: %t, and is taken for absent: %t", h.name, in, h.absent)
		}
	}
}

func (n *naive) reports(s *simulation, r report.Report) {
	n.reportsRows(s, r)
	if n.force == nil {
		return
	}
	if r.Healthy != n.up() || n.force.kind != record.ByDelete && r.Minimum != n.minimum() {
		s.fail("it reports %d healthy and a minimum of %d, not %d and %d", r.Healthy, r.Minimum, n.up(), n.minimum())
	}
	if n.force.reached && !slices.Equal(r.Exceptions, n.unwell()) {
		s.fail("it reports the exceptions %s, not %s", r.Exceptions, n.unwell())
	}
	rows := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return !n.hosts[name].wanted && len(n.hosts[name].tasks) == 0 })
	if len(r.Hosts) != len(rows) {
		s.fail("it reports %d hosts, not %s", len(r.Hosts), rows)
	}
	for _, row := range r.Hosts {
		if h := n.host(row.Host); row.Desired != h.wanted || row.Lost != (h.lost || h.absent) || len(row.Tasks) != len(h.tasks) || !row.Lost && row.Failed != slices.Contains(n.failed(), h) {
			s.fail("it reports %+v, not %+v", row, h)
		}
	}
}

func (n *naive) reportsRows(s *simulation, r report.Report) {
	for _, row := range r.Rows {
		such, want := (*naiveTask).there, report.Row{Revision: row.Revision}
		active := n.force != nil && row.Revision == n.force.revision
		if active {
			such, want.Desired = (*naiveTask).up, n.wanted()
		}
		want.Current = len(n.there(func(h *naiveHost) bool { return h.has(row.Revision, such) }))
		if want.Status = n.pastStatus(row.Revision, want.Current); active {
			want.Status = n.activeStatus(want.Current)
		}
		if row != want {
			s.fail("it reports %+v, not %+v", row, want)
		}
	}
}

func (n *naive) pastStatus(revision, current int) report.RevisionStatus {
	going, was := n.past[revision]
	switch going = going || current > 0; {
	case !was:
		return report.Created
	case n.bad[revision] && going:
		return report.Reverting
	case n.bad[revision]:
		return report.Reverted
	case going:
		return report.Undeploying
	}
	return report.Inactive
}

func (n *naive) activeStatus(current int) report.RevisionStatus {
	switch f := n.force; {
	case f.reached && current < n.minimum():
		return report.Degraded
	case f.reached:
		return report.Active
	case f.stuck:
		return report.Stuck
	}
	return report.Deploying
}

// explains wants Explain to give the reasons by which what may be done is decided.
func explains(s *State, now time.Time, steps []tasks.Step) error {
	on := map[string]bool{}
	for _, step := range steps {
		on[step.Host] = true
	}
	turn := s.turn()
	for _, h := range s.hosts {
		if h.Lost || h.Status.Settled && h.Status.Class == hosts.None {
			continue
		}
		code, _ := s.verdict(h, now)
		may := code == reason.Ready || code == reason.InProgress || code == reason.AwaitsHealth
		room := s.room(h.Status.Class) > len(steps) && (!turn.waves || turn.left > len(steps))
		switch {
		case on[h.Name] && !may:
			return fmt.Errorf("a step on %s is decided on, and explained as %s", h.Name, code)
		case !on[h.Name] && code == reason.Ready && s.hostsKnown && room:
			return fmt.Errorf("no step on %s is decided on, and it is explained as ready", h.Name)
		}
	}
	return nil
}

func (h *naiveHost) has(revision int, such func(*naiveTask) bool) bool {
	for _, t := range h.tasks {
		if t.of == revision && such(t) {
			return true
		}
	}
	return false
}

func (t *naiveTask) there() bool { return t != nil }
func same(a, b any) bool         { return reflect.DeepEqual(a, b) }

func texts(steps []tasks.Step) (all []string) {
	for _, step := range steps {
		if step.Kind != tasks.Record {
			all = append(all, fmt.Sprintf("%s %d %s", step.Kind, step.Revision, step.Host))
		}
		for _, e := range step.Events {
			all = append(all, fmt.Sprintf("%s of %s/%d", e.Name, e.Target, e.Attempt))
		}
	}
	return all
}

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
