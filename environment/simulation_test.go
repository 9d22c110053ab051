package environment

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/ringtest"
)

var seed = flag.Uint64("seed", 0, "run only the simulation of this seed, and tell its story")

// Whole rollouts among hosts that come and go, tasks that die, engines that fail, controllers that crash and people who
// change their minds. What is promised is looked at whenever something happens.
func TestSimulatedRollouts(t *testing.T) {
	if *seed != 0 {
		s, err := simulate(*seed)
		t.Logf("%+v\n%s%v", s.nature, s.story(), s.tally)
		require.NoError(t, err)
		return
	}
	const shards = 8
	each := ringtest.Cases(60, 260)
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("in", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for i := range each {
					n := uint64(1 + shard*each + i)
					s, err := simulate(n)
					assert.NoError(t, err, "The story is told by go test ./environment -run TestSimulatedRollouts -seed %d", n)
					mu.Lock()
					for what, n := range s.tally {
						total[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%8d %s", total[what], what)
	}
	assert.GreaterOrEqual(t, total["rollouts"], 4*shards*each)
	for _, what := range []string{"at rest", "automatic", record.BakeFailed, "failed in a bake", "cleaned", record.TaskAdopted, record.TaskCheckFailed, record.TaskChecked, "cordons", "crashes", record.HostsUncordoned, record.StepReached, record.StepVerified, record.StepVerifyFailed, "could not be verified", "failed its verification", record.EnvironmentPromoted, "doubled", "exceptions", "exceptions of a rollback", "exists again", "kept, and not in the inventory", "kept by a rollback", "late, but for nobody being there", "no room", "not rolled back onto the hosts of others", "rolled back without the hosts of others", "a repair that is confirmed", "restarted before its step", "repaired while a step waits", "repaired while too many have failed", "restarted", "rolled back to the last good revision", "stuck", "taken over", record.EnvironmentDeleted, record.TaskDrifted, record.TaskDeadlinePassed, record.TaskRecovered, record.EnvironmentWatched} {
		assert.NotZero(t, total[what], "of %q there is nothing, so nothing is known", what)
	}
}

// hopeless reports whether a host was given its chance, and is not as it is to be: it is
// not seen, the same was tried there three times, or it has missed its deadline.
func (n *naive) hopeless(h *naiveHost) bool {
	f, do := n.force, n.next(h)
	if !n.unsettled(h) || f.kind == record.ByDelete || h.absent {
		return false
	}
	late := slices.Contains(n.failed(), h) && f.late[place{h.name, f.task}]
	return do.kind == hosts.AwaitProbe || do.kind != tasks.Confirm && n.inVain(h, do) || late
}

// inVain reports whether what is to be done was tried three times.
func (n *naive) inVain(h *naiveHost, do todo) bool {
	if do.kind == tasks.Check {
		return h.check.failures >= tasks.MaxRetries
	}
	t := h.tasks[do.revision]
	if t == nil || do.kind == tasks.Terminate && t.status != report.TaskTerminating || do.kind == tasks.Start && t.status == report.TaskTerminating {
		return false
	}
	return t.blamed == n.force.id && t.failures >= tasks.MaxRetries
}

// tolerated is how many hosts may be left behind.
func (n *naive) tolerated() int {
	if most := n.force.configuration.MaxFailed; most != nil && most.Of(n.wanted()) > n.force.tolerates {
		return most.Of(n.wanted())
	}
	return n.force.tolerates
}

// leavesBehind reports whether the deployment ends without some hosts: all others are as
// they are to be, and of these nothing more is to be expected soon.
func (n *naive) leavesBehind(now time.Time) bool {
	f, left := n.force, n.there(n.unsettled)
	if f.kind == record.ByDelete || f.paused || f.waits || len(left) > n.tolerated() || len(left) >= n.wanted() || !n.runs() {
		return false
	}
	failed, at := n.failed(), n.stuckAt()
	over := !at.IsZero() && !at.After(now)
	return !slices.ContainsFunc(left, func(h *naiveHost) bool {
		tried := h.begun || slices.Contains(failed, h)
		return h.absent || !n.hopeless(h) && (!over || !tried)
	})
}

// leftBehind wants a deployment that ends to say how many hosts it leaves behind, and a
// rollback to bear with as many as there were.
func (n *naive) leftBehind(s *simulation, p record.Payload) {
	if left := len(n.there(n.unsettled)); p.Exceptions != left {
		s.fail("it ends with %d exceptions, and says %d", left, p.Exceptions)
	}
	if p.Exceptions > 0 {
		s.tally["exceptions"]++
		if n.force.kind == record.ByRollback {
			s.tally["exceptions of a rollback"]++
		}
	}
}

// bearsWith wants a rollback to tolerate as many as there are.
func (n *naive) bearsWith(s *simulation, p record.Payload) {
	if n.force != nil && p.Kind == record.ByRollback && p.Tolerates != len(n.unwell()) {
		s.fail("%s tolerates %d exceptions after %s, and there were %d", p.Kind, p.Tolerates, n.force.id, len(n.unwell()))
	}
}

// runs reports whether the revision in force is up on any host.
func (n *naive) runs() bool {
	return len(n.there(func(h *naiveHost) bool { return n.mine(h).up() })) > 0
}

func (n *naive) awaitsHosts() bool {
	return n.known && !n.force.reached && n.force.kind != record.ByDelete && n.wanted() == 0 && len(n.there(n.unsettled)) == 0
}

func (n *naive) ends(now time.Time, seen bool) bool {
	f := n.force
	if !n.known || f.kind != record.ByDelete && (f.reached || !seen || n.testsLeft() > 0) {
		return false
	}
	return len(n.there(n.unsettled)) == 0 && (f.kind == record.ByDelete || n.runs()) || n.leavesBehind(now)
}

// unwell are the hosts that a report is to name as exceptions.
func (n *naive) unwell() (names []string) {
	failed := n.failed()
	for _, h := range n.there(func(h *naiveHost) bool { return slices.Contains(failed, h) || n.hopeless(h) }) {
		names = append(names, h.name)
	}
	return names
}

// settled reports whether all is as it is to be, or cannot be otherwise.
func (s *simulation) settled() bool { return s.unsettled() == "" }

// unsettled is what is not as it is to be. A host may have a task that its revision lets fail there. Others may have to
// wait, but only for those, or because the percentage leaves no room for any.
func (s *simulation) unsettled() string {
	n, f := s.naive, s.naive.force
	switch {
	case f == nil:
		return ""
	case !n.known:
		return "the hosts are not known"
	case !f.stuck && n.awaitsHosts():
		s.tally["waits for hosts"]++
	case !f.reached && !f.stuck:
		return f.id + " has not ended"
	}
	failing, waiting, problem := s.unsettledHosts()
	if problem == "" {
		problem = s.unfounded(failing, waiting)
	}
	if problem == "" {
		problem = s.busy(len(failing) > 0)
	}
	return problem
}

// unsettledHosts are the hosts that are not as they are to be and cannot be
// otherwise. Any other that is not as it is to be is a problem.
func (s *simulation) unsettledHosts() (failing, waiting []string, problem string) {
	n, f := s.naive, s.naive.force
	for _, h := range n.there(func(*naiveHost) bool { return true }) {
		switch do, t := n.next(h), n.mine(h); {
		case do.kind == "":
			if problem := s.misplaced(h); problem != "" {
				return nil, nil, problem
			}
		case t != nil && !t.up() && t.failures >= 3 && do.revision == f.task && (s.behaves(place{h.name, f.task}) == bad || s.unfit(place{h.name, f.task})):
			failing = append(failing, h.name)
		case do.kind == tasks.Check && h.check.failures >= 3 && s.unfit(place{h.name, f.task}):
			failing = append(failing, h.name)
		case n.bounded(h, do) && n.mayBegin() <= 0:
			waiting = append(waiting, h.name)
			s.tally["waits for its step"]++
		case n.keepsBack(h, do):
			waiting = append(waiting, h.name)
			s.tally["waits for its zone"]++
		case do.class != hosts.Free && n.rooms(Can{Disrupt: true})[do.class] <= 0:
			waiting = append(waiting, h.name)
		default:
			return nil, nil, fmt.Sprintf("%s on %s is to be done", do, h.name)
		}
	}
	return failing, waiting, ""
}

func (s *simulation) misplaced(h *naiveHost) string {
	drain, cordoned := s.naive.cordons[h.name]
	switch is, want := s.really(h); {
	case cordoned && s.naive.cordoned(h) && drain && is != "":
		return fmt.Sprintf("%s is drained, and has %s", h.name, is)
	case !s.naive.cordoned(h) && is != want:
		return fmt.Sprintf("on %s is %s, not %s", h.name, is, want)
	}
	return ""
}

func (s *simulation) unfounded(failing, waiting []string) string {
	n, f := s.naive, s.naive.force
	if len(waiting) > 0 && len(failing) == 0 && n.minimum() < n.wanted() && !n.leavesNoRoom() {
		return fmt.Sprintf("%s wait for nothing", waiting)
	}
	if slices.ContainsFunc(n.failed(), func(h *naiveHost) bool { return !slices.Contains(failing, h.name) && !slices.Contains(waiting, h.name) }) {
		return "hosts count as failed that are not"
	}
	if n.untested() {
		return "it could not be verified, and nobody goes on all the same"
	}
	if f.stuck && len(failing) == 0 && len(waiting) == 0 && n.runs() {
		return "it is stuck, and nothing is to be done"
	}
	if len(waiting) > 0 && len(failing) == 0 {
		s.tally["no room"]++
		if f.automatic {
			s.tally["no room for an automatic rollback"]++
		}
	}
	return ""
}

// leavesNoRoom reports whether cordoned hosts have no task, or two, and nobody may give them one, or take one away.
func (n *naive) leavesNoRoom() bool {
	return len(n.there(func(h *naiveHost) bool { return n.cordoned(h) && (h.ups() == 0 || len(h.tasks) > 1) })) > 0
}

// busy is what is still done, or would be. Where hosts fail they are tried again.
func (s *simulation) busy(retrying bool) string {
	if len(s.works) > 0 {
		return "there is work"
	}
	if !s.control.state.Idle() {
		return "it is not idle"
	}
	if retrying {
		return ""
	}
	s.tally["at rest"]++
	for step := range s.control.state.Decide(s.now, Can{Disrupt: true, Back: s.back}) {
		return fmt.Sprintf("it would %s %d on %s", step.Kind, step.Revision, step.Host)
	}
	return ""
}

func (s *simulation) really(h *naiveHost) (is, want string) {
	var all []string
	m := s.machine(h.name)
	for _, revision := range sortedKeys(m.tasks) {
		now := m.tasks[revision]
		if now == drifted && s.naive.force.configuration.Drift == definition.ReportDrift {
			now = sound
		}
		all = append(all, fmt.Sprintf("%s %d", now, revision))
	}
	if want = ""; h.wanted {
		want = fmt.Sprintf("%s %d", sound, s.naive.force.task)
	}
	return strings.Join(all, ", "), want
}

// controller does what one must do: it records how work has ended and what was seen, follows the hosts, decides, and
// begins what it has hands for. All that it knows is in the log.
type controller struct {
	*simulation
	state   *State
	news    bool // something may have become possible
	find    bool // hosts may be others
	working map[string]*work
	ended   []*work
	seen    []*look
	looks   map[place]*look
	checked map[string]string // deployments for which hosts were checked
	wake    time.Time
}

// look is what a controller knows about looking at a task.
type look struct {
	at                                  place
	first, runs, waits, hinted, dropped bool
	changed, began                      int64
	seen                                tasks.ProbeResult
}

// begin starts a controller, which reads the log.
func (s *simulation) begin() {
	if s.control != nil {
		return
	}
	c := &controller{simulation: s, state: New(s.told.Name()), news: true, find: true, working: map[string]*work{}, looks: map[place]*look{}, checked: map[string]string{}}
	for _, e := range s.log {
		c.state.Apply(e)
	}
	s.control, s.since = c, s.now
	s.naive.unseen = c.state.UnwatchedSince(s.now)
	if n := len(s.away); n > 0 {
		s.away[n-1].to = s.now
	}
	c.sync(true)
	c.turn()
}

// crash ends the controller. What it has begun is lost with it, or goes on.
func (s *simulation) crash() {
	s.tally["crashes"]++
	for _, w := range s.works {
		if w.of == s.control && (w.begins.After(s.now) || s.chance(0.5)) {
			w.lost = true
		}
	}
	s.control, s.naive.unseen = nil, time.Time{}
	s.away = append(s.away, naiveSpan{s.now, s.now})
	s.after(s.between(0, pick(s, time.Second, 2*time.Minute, 15*time.Minute, 60*time.Hour)), s.begin)
}

func (c *controller) dead() bool { return c.control != c }

// record appends what the controller has found out. It cannot be there already.
func (c *controller) record(what string, events []deploylog.Event) {
	if len(events) == 0 {
		return
	}
	if !c.append(events) {
		c.fail("%s: the log has one of these already: %s", what, texts([]tasks.Step{{Kind: tasks.Record, Events: events}}))
	}
	if !c.calm && c.chance(c.nature.crashes) {
		c.crash()
	}
}

func (c *controller) hears(e deploylog.Event) {
	c.state.Apply(e)
	c.news = true
	c.find = c.find || e.Name == record.EnvironmentStarted
	if _, revision, host, ok := record.TaskOf(e.Target); ok {
		if l := c.looks[place{host, revision}]; l != nil {
			l.changed = e.Seq
		}
	}
}

func (c *controller) turn() {
	if !c.news {
		return
	}
	c.news = false
	for _, settle := range []func(){c.settle, c.sights, c.place, c.decide} {
		if settle(); c.dead() {
			return
		}
	}
	c.sync(false)
	switch wake := c.state.Wake(); {
	case wake.IsZero() || wake.Equal(c.wake):
	case !wake.After(c.now) && (!c.knows() || c.news):
	case !wake.After(c.now):
		c.fail("it wakes %s ago, with nothing to do", c.now.Sub(wake))
	default:
		c.wake = wake
		c.at(wake, func() { c.news = c.news || c.wake.Equal(wake) })
	}
	c.rests()
	if c.chance(0.005) {
		c.anew()
	}
}

// rests wants the environment to say of itself that it is idle only if nothing that
// is to come to an end is going on, and nothing would be done by who has hands for
// all. Whether what is paused is being worked on is not known of its state: who does that knows.
func (c *controller) rests() {
	f := c.naive.force
	if f == nil || !c.state.Idle() || f.paused {
		return
	}
	for _, w := range c.working {
		h := c.naive.hosts[w.at.host]
		if h == nil || h.lost || !h.tasks[w.at.revision].begun() {
			continue
		}
		next := c.naive.next(h)
		if do, mends := c.naive.mended(h, next); do.revision == w.at.revision && do.kind == w.step.Kind && (mends || !c.naive.bounded(h, do)) {
			c.fail("it is idle, and is to %s %d on %s", w.step.Kind, w.at.revision, w.at.host)
		}
	}
	if !f.stuck {
		waits := !c.naive.known && c.naive.kept // for somebody to confirm, and nothing is done before
		for _, h := range c.naive.there(func(*naiveHost) bool { return !waits }) {
			if do := c.naive.next(h); c.naive.soon(h, do) {
				c.fail("it is idle, and is to %s on %s soon", do, h.name)
			}
		}
		if steps := slices.Collect(c.state.Decide(c.now, Can{Disrupt: true, Back: c.back})); len(steps) > 0 {
			c.fail("it is idle, and would do %s", texts(steps))
		}
	}
}

// soon reports whether something is done on a host before long, for nothing keeps it back.
func (n *naive) soon(h *naiveHost, do todo) bool {
	if mends, ok := n.mended(h, do); ok {
		return mends.kind == tasks.Confirm || h.tasks[mends.revision].failures < tasks.MaxRetries
	}
	if do.class != hosts.Free || n.mayBegin() <= 0 && n.bounded(h, do) {
		return false
	}
	if do.kind == tasks.Check {
		return h.check.failures < tasks.MaxRetries
	}
	return h.tasks[do.revision].failures < tasks.MaxRetries
}

func (c *controller) settle() {
	for len(c.ended) > 0 && !c.dead() {
		w := c.ended[0]
		c.ended = c.ended[1:]
		c.record("the end of work", c.state.Completed(w.step, w.seen, w.err))
	}
}

func (c *controller) sights() {
	for len(c.seen) > 0 && !c.dead() {
		l := c.seen[0]
		c.seen = c.seen[1:]
		if l.changed > l.began {
			c.due(l, 200*time.Millisecond)
			continue
		}
		l.first = false
		events := c.state.Probed(c.state.Task(l.at.revision, l.at.host), l.seen)
		if want := c.naive.sees(l); want == "" && len(events) > 0 || want != "" && (len(events) != 1 || events[0].Name != want) {
			c.fail("of a look that sees %v is recorded %v, not %q", l.seen, events, want)
		}
		c.record("a look", events)
	}
}

func (c *controller) place() {
	if c.find = c.find && c.state.Exists(); !c.find || c.state.active == nil {
		return
	}
	c.find = false
	known := func(host string) bool { return c.machine(host).in }
	events, err := c.state.Propose(SetHosts{Selected: c.selected(c.state.Query()), Known: known, Attribute: c.attribute}, c.now)
	if err != nil {
		c.fail("telling the hosts: %v", err)
	}
	if c.record("the hosts", events); c.naive.force != nil {
		c.naive.follows(c.simulation, c.told.Query())
		if !c.dead() {
			c.naive.knowsZones(c.simulation)
		}
	}
}

// decide begins what may be done, until nothing more may.
func (c *controller) decide() {
	can := Can{Disrupt: true, Work: func(host string) bool {
		return c.working[host] == nil && len(c.working) < c.nature.hands && !c.machine(host).taken && c.machine(host).in
	}}
	can.Back = c.back
	can.Verify = func() bool { return c.working[""] == nil && len(c.working) < c.nature.hands }
	can.Checked = func(host string) bool { return c.checked[host] == c.naive.force.id }
	can.Disrupt = c.knows()
	for range 1000 {
		can.Unwatched = c.naive.unseen
		steps := slices.Collect(c.state.Decide(c.now, can))
		c.naive.decides(c.simulation, can, steps)
		if can.Disrupt && (len(steps) == 0 || steps[0].Kind != tasks.Record) {
			c.naive.unseen = time.Time{}
		}
		if len(steps) == 0 {
			return
		}
		for _, step := range steps[:1+c.IntN(len(steps))] {
			if step.Kind == tasks.Record {
				c.record("a fact", step.Events)
			} else if step.Kind == tasks.Verify {
				c.undertakeVerify(step)
			} else if can.Work(step.Host) {
				c.undertake(step)
			}
			if c.dead() {
				return
			}
		}
	}
	c.fail("there is no end of what it does at once")
}

// knows reports whether the controller has looked at all tasks that there were when it began.
func (c *controller) knows() bool {
	for _, l := range c.looks {
		if l.first {
			return false
		}
	}
	return true
}

func (c *controller) undertake(step tasks.Step) {
	c.naive.begins(c.simulation, step)
	w := &work{at: place{step.Host, step.Revision}, step: step, of: c, begins: c.now, replace: c.naive.force.configuration.Method == definition.Replace}
	for _, other := range c.works {
		if other.at == w.at && !other.lost && other.ends.After(w.begins) {
			w.begins = other.ends
		}
	}
	w.ends = w.begins.Add(c.lasts(w))
	c.works, c.working[step.Host] = append(c.works, w), w
	c.at(w.begins, func() { c.starts(w) })
	c.record("a beginning", step.Events)
}

// sync makes the tasks that are looked at those that are to be.
func (c *controller) sync(first bool) {
	watched := map[place]bool{}
	for t := range c.state.ProbeTargets() {
		at := place{t.Host, t.Revision}
		watched[at] = true
		if c.looks[at] == nil {
			l := &look{at: at, first: first}
			c.looks[at] = l
			if first {
				c.due(l, 0)
			} else {
				c.due(l, c.between(0, c.nature.check))
			}
		}
	}
	for at, l := range c.looks {
		if !watched[at] {
			c.news = c.news || l.first
			l.dropped, l.first = true, false
			delete(c.looks, at)
		}
	}
}

func (c *controller) due(l *look, in time.Duration) { c.after(in, func() { c.look(l) }) }

func (c *controller) hinted(host string) {
	for _, l := range c.onHost(host) {
		if l.runs {
			l.hinted = true
		} else {
			c.look(l)
		}
	}
}

func (c *controller) resume(host string) {
	for _, l := range c.onHost(host) {
		if l.waits {
			l.waits = false
			c.look(l)
		}
	}
}

func (c *controller) onHost(host string) (all []*look) {
	for at, l := range c.looks {
		if at.host == host {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *look) int { return a.at.revision - b.at.revision })
	return all
}

// look begins to look at a task, unless there is work on its host, or another look.
func (c *controller) look(l *look) {
	if c.dead() || l.dropped || l.runs {
		return
	}
	if l.waits = c.working[l.at.host] != nil || slices.ContainsFunc(c.onHost(l.at.host), func(l *look) bool { return l.runs }); l.waits {
		return
	}
	l.runs, l.began, l.seen = true, int64(len(c.log)), c.observe(l.at)
	late := c.chance(0.5)
	c.after(c.between(0, pick(c.simulation, time.Second, time.Second, 20*time.Second)), func() { c.looked(l, late) })
}

func (c *controller) looked(l *look, late bool) {
	l.runs = false
	if c.dead() {
		return
	}
	c.resume(l.at.host)
	if l.dropped {
		return
	}
	if late {
		l.seen = c.observe(l.at)
	}
	c.seen, c.news = append(c.seen, l), true
	next := c.nature.check
	if l.hinted {
		l.hinted, next = false, 0
	}
	c.due(l, next)
}
