package environment

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// controller does what one must do: it records how work has ended and what was
// seen, follows the hosts, decides, and begins what it has hands for. All that it
// knows is in the log.
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
	at                         place
	first, runs, waits, hinted bool
	dropped                    bool
	changed, began             int64
	seen                       tasks.ProbeResult
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
	s.control = nil
	s.after(s.between(0, pick(s, time.Second, 2*time.Minute, 15*time.Minute)), s.begin)
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

// hears takes note of an event that is in the log.
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

// turn does all that can be done now.
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
	for _, l := range c.looks {
		can.Disrupt = can.Disrupt && !l.first
	}
	for range 1000 {
		steps := slices.Collect(c.state.Decide(c.now, can))
		c.naive.decides(c.simulation, can, steps)
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

// undertake begins the work of a step.
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

// due has a task looked at.
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

// resume looks at the tasks of a host that had to wait.
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
