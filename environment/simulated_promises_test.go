package environment

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

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
