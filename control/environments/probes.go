package environments

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// probes are the probes of tasks, from time to time.
type probes struct {
	every    time.Duration
	together bool                                    // tasks of a host are confirmed together first
	free     int                                     // how many more may be under way
	targets  map[string]map[deploylog.Target]*target // by environment
	hosts    map[string]*probedHost
	due      reconcile.DelayQueue[*target]
	ready    reconcile.OrderedSet[*probedHost] // on which a task can be probed, perhaps
	stale    map[string]bool                   // environments that may have other targets; true where that is because of hosts
	unprobed map[string]int                    // tasks that were not probed yet since they are controlled, by environment
	results  []probeResult                     // to be recorded
	watch    func(host string) (end func())
}

// target is a task that is probed from time to time.
type target struct {
	task    tasks.Task
	name    deploylog.Target
	host    *probedHost
	first   bool  // it was not probed since it is controlled
	alone   bool  // it was not confirmed, and is to be probed
	began   int64 // event that was the newest when the last probe began
	changed int64 // newest event of the task
}

// probedHost is a host that has such tasks. They are confirmed together, and probed one at a time.
type probedHost struct {
	name    string
	targets map[*target]bool
	queue   []*target // are due
	probing bool
	hinted  time.Time // when its tasks are, or were, due because of a hint
	unwatch func()
}

// probeResult is what a probe of a task saw.
type probeResult struct {
	target *target
	seen   tasks.ProbeResult
}

func newProbes(every time.Duration, free int, watch func(host string) (end func())) probes {
	return probes{
		every: every, free: free, watch: watch, targets: map[string]map[deploylog.Target]*target{},
		hosts: map[string]*probedHost{}, stale: map[string]bool{}, unprobed: map[string]int{},
	}
}

// known reports whether the health of all tasks is known that an environment had
// when it began to be controlled.
func (p *probes) known(name string) bool { return p.unprobed[name] == 0 }

// receive receives an event of an environment.
func (p *probes) receive(name string, e deploylog.Event) {
	p.stale[name] = p.stale[name] || e.Name == record.HostsChanged || e.Name == record.HostsHeld
	if k := p.targets[name][e.Target]; k != nil {
		k.changed = e.Seq
	}
}

// sync makes the tasks of an environment that are probed those that are to be. Those
// that were not are probed soon or in their turn.
func (p *probes) sync(state *environment.State, now time.Time, first, soon bool) {
	name := state.Name()
	had, has := p.targets[name], map[deploylog.Target]*target{}
	for t := range state.ProbeTargets() {
		at := record.TaskTarget(name, t.Revision, t.Host)
		k := had[at]
		if k == nil {
			k = p.add(&target{task: t, name: at, first: first})
			due := now
			if !soon {
				due = p.slot(k, now)
			}
			p.probeBy(k, due)
		}
		has[at] = k
	}
	for at, k := range had {
		if has[at] == nil {
			p.drop(k)
		}
	}
	if p.targets[name] = has; len(has) == 0 {
		delete(p.targets, name)
	}
}

func (p *probes) add(k *target) *target {
	k.host = p.hosts[k.task.Host]
	if k.host == nil {
		k.host = &probedHost{name: k.task.Host, targets: map[*target]bool{}, unwatch: p.watch(k.task.Host)}
		p.hosts[k.task.Host] = k.host
	}
	k.host.targets[k] = true
	if k.first {
		p.unprobed[k.task.Environment]++
	}
	return k
}

// tick is of what the slots of tasks are multiples: to wake a process that sleeps can cost
// more than a probe, so those of some tasks are begun together: of more where they are confirmed together.
func (p *probes) tick() time.Duration {
	if p.together && p.every >= 10*time.Second {
		return time.Second
	}
	return 100 * time.Millisecond
}

// slot is the next time after now that is that of a task: they are spread evenly.
func (p *probes) slot(k *target, now time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.name))
	at := now.Truncate(p.every).Add(time.Duration(h.Sum64() % uint64(p.every)).Truncate(p.tick()))
	if !at.After(now) {
		at = at.Add(p.every)
	}
	return at
}

// probeBy has a task probed at a time, unless it is probed before that anyway. While it
// is being probed that means once more.
func (p *probes) probeBy(k *target, at time.Time) {
	if !k.dropped() && !slices.Contains(k.host.queue, k) {
		p.due.Set(k, reconcile.Earlier(p.due.At(k), at))
	}
}

// forget drops the tasks of an environment.
func (p *probes) forget(name string) {
	for _, k := range p.targets[name] {
		p.drop(k)
	}
	delete(p.targets, name)
}

// drop has a task not probed any more.
func (p *probes) drop(k *target) {
	p.firstDone(k)
	p.due.Set(k, time.Time{})
	k.host.queue = slices.DeleteFunc(k.host.queue, func(other *target) bool { return other == k })
	delete(k.host.targets, k)
	p.leave(k.host)
}

func (k *target) dropped() bool { return !k.host.targets[k] }

// leave forgets a host on which nothing is probed any more.
func (p *probes) leave(host *probedHost) {
	if len(host.targets) == 0 && !host.probing {
		host.unwatch()
		delete(p.hosts, host.name)
	}
}

// firstDone records that a task was probed, and reports whether that was the last of
// its environment that had not been.
func (p *probes) firstDone(k *target) (known bool) {
	if !k.first {
		return false
	}
	k.first = false
	name := k.task.Environment
	if p.unprobed[name]--; p.unprobed[name] > 0 {
		return false
	}
	delete(p.unprobed, name)
	return true
}

// restart has all tasks probed at once, as when they began to be controlled. A probe
// that is under way may have seen what was before.
func (p *probes) restart(now time.Time) {
	const outdated = -1 // before all events
	for name, targets := range p.targets {
		p.unprobed[name] = len(targets)
		for _, k := range targets {
			k.first, k.began, k.host.hinted = true, outdated, time.Time{}
			p.probeBy(k, now)
		}
	}
}

// hintPause is how often the tasks of a host are probed, at most, however often
// something may have happened to them.
const hintPause = 200 * time.Millisecond

// hint has the tasks of a host probed at once.
func (p *probes) hint(name string, now time.Time) {
	host := p.hosts[name]
	if host == nil {
		return
	}
	if !host.hinted.After(now) {
		if host.hinted = host.hinted.Add(hintPause); host.hinted.Before(now) {
			host.hinted = now
		}
	}
	for k := range host.targets {
		p.probeBy(k, host.hinted)
	}
}

// resume probes the tasks of a host that were kept waiting by work on it.
func (p *probes) resume(name string) {
	if host := p.hosts[name]; host != nil {
		p.ready.Add(host)
	}
}

// mostTogether is how many tasks are confirmed together.
const mostTogether = 64

// next returns tasks of a host that are to be confirmed now, or one that is to be probed, and has
// them begun at an event. Those on whose host there is work for their environment wait.
func (p *probes) next(now time.Time, head int64, busy func(place) bool) []*target {
	for k, ok := p.due.Take(now); ok; k, ok = p.due.Take(now) {
		k.alone = !p.together
		k.host.queue = append(k.host.queue, k)
		p.ready.Add(k.host)
	}
	for p.free > 0 && p.ready.Len() > 0 {
		host := p.ready.Pop()
		if host.probing {
			continue
		}
		var some []*target
		host.queue = slices.DeleteFunc(host.queue, func(k *target) bool {
			full := len(some) == mostTogether || len(some) > 0 && (some[0].alone || k.alone)
			if full || busy(place{k.task.Environment, host.name}) {
				return false
			}
			some = append(some, k)
			return true
		})
		if len(some) == 0 {
			continue
		}
		for _, k := range some {
			k.began = head
		}
		host.probing = true
		p.free--
		return some
	}
	return nil
}

// ended records that what was begun together on a host has ended.
func (p *probes) ended(host *probedHost) {
	p.free++
	host.probing = false
	p.ready.Add(host)
	p.leave(host)
}

// done records that a task was probed, and when it is the next time.
func (p *probes) done(k *target, now time.Time) { p.probeBy(k, p.slot(k, now)) }

// unconfirmed has a task probed that was not confirmed.
func (p *probes) unconfirmed(k *target) {
	if k.alone = true; !k.dropped() && !slices.Contains(k.host.queue, k) {
		p.due.Set(k, time.Time{})
		k.host.queue = append(k.host.queue, k)
	}
}

// current reports whether nothing has happened to a task since its last probe began.
// Otherwise it is probed again soon.
func (p *probes) current(k *target, now time.Time) bool {
	if k.changed > k.began {
		p.probeBy(k, now.Add(hintPause))
		return false
	}
	return !k.dropped()
}

// sync has the tasks of an environment probed that are to be.
func (c *Controller) sync(name string, first, soon bool) {
	if c.loop.Controls(name) {
		c.probes.sync(c.environments.States[name], c.Now(), first, soon)
		c.loop.Enqueue(name) // for all its tasks may be known now
	}
}

// resync does so for the environments of which other tasks may be to be probed.
func (c *Controller) resync() {
	for _, name := range slices.Sorted(maps.Keys(c.probes.stale)) {
		c.sync(name, false, c.probes.stale[name]) // what is lost on a host that is back is missed
	}
	clear(c.probes.stale)
}

// longAbsence is after how long without a tick nobody knows how tasks are.
const longAbsence = time.Minute

// probeAfterAbsence has all tasks probed as if the controller had just started, when its
// process was stopped for a while or the clock was set.
func (c *Controller) probeAfterAbsence() {
	now := c.Now().Round(0) // by the clock on the wall, as in the log
	last := c.ticked
	absence := now.Sub(last)
	c.ticked = now
	if absence >= 0 && absence <= longAbsence {
		return
	}
	c.probes.restart(now)
	for name, s := range c.environments.States {
		if absence > 0 && !last.IsZero() && c.loop.Controls(name) && s.UnwatchedSince(now) != (time.Time{}) {
			c.absent(name, last)
			c.loop.Enqueue(name)
		}
	}
}

// absent notes since when nobody had watched an environment; zero is that it was watched.
func (c *Controller) absent(name string, since time.Time) {
	if had := c.unwatched[name]; !since.IsZero() && (had.IsZero() || since.Before(had)) {
		c.unwatched[name] = since
	}
}

// Probe implements reconcile.Tenant.
func (c *Controller) Probe() (next time.Time, seen bool) {
	begin := func() []*target { return c.probes.next(c.Now(), c.environments.Head(), c.loop.Busy) }
	for some := begin(); some != nil; some = begin() {
		c.loop.Go(func(ctx context.Context) func() {
			found := c.probe(ctx, some)
			return func() {
				for i, k := range some {
					if seen, is := found[i]; is {
						c.receive(ctx, probeResult{k, seen})
					} else {
						c.probes.unconfirmed(k)
					}
				}
				c.probes.ended(some[0].host)
			}
		})
	}
	if c.hosts.stale.Len() > 0 || c.pending() {
		return c.Now(), false
	}
	return c.probes.due.Next(), len(c.probes.unprobed) == 0
}

// receive receives the result of a probe. It only costs a pass when there is something
// to record.
func (c *Controller) receive(ctx context.Context, r probeResult) {
	c.probes.done(r.target, c.Now())
	if ctx.Err() != nil || !c.probes.current(r.target, c.Now()) {
		return
	}
	if len(c.changes(r)) > 0 {
		c.probes.results = append(c.probes.results, r)
	}
	if c.probes.firstDone(r.target) {
		c.loop.Enqueue(r.target.task.Environment)
	}
}

// changes is what is to be recorded of a probe.
func (c *Controller) changes(r probeResult) []deploylog.Event {
	t := r.target.task
	return c.environments.States[t.Environment].Probed(t, r.seen)
}

// probed is what is to be recorded of the first results of probes, but of tasks to
// which something happened since.
func (c *Controller) probed(most int) (all []reconcile.Observation) {
	first := c.probes.results[:min(most, len(c.probes.results))]
	c.probes.results = c.probes.results[len(first):]
	for _, r := range first {
		if !c.probes.current(r.target, c.Now()) {
			continue
		}
		if events := c.changes(r); len(events) > 0 {
			all = append(all, reconcile.Observation{Entity: r.target.task.Environment, Events: events})
		}
	}
	return all
}

// probeTimeout is how long a probe of a task may take.
const probeTimeout = time.Minute

// probe probes a task, or confirms tasks of a host. It returns what it found of which.
func (c *Controller) probe(ctx context.Context, some []*target) map[int]tasks.ProbeResult {
	if some[0].alone {
		return map[int]tasks.ProbeResult{0: c.observe(ctx, some[0].task)}
	}
	all := make([]tasks.Task, len(some))
	for i, k := range some {
		all[i] = k.task
	}
	return c.confirming.Confirm(ctx, some[0].host.name, all)
}

// observe probes a task.
func (c *Controller) observe(ctx context.Context, t tasks.Task) (seen tasks.ProbeResult) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			seen = tasks.ProbeResult{Health: tasks.Unknown, Detail: fmt.Sprintf("looking at it panicked: %v", p)}
		}
	}()
	return c.Tasks.Observe(ctx, t)
}

// watch watches a host. A watch that does not last is begun again after a pause, which
// grows.
func (c *Controller) watch(host string) (end func()) {
	return c.loop.Go(func(ctx context.Context) func() {
		for short := 1; ctx.Err() == nil; short++ {
			began := c.Now()
			c.watchOnce(ctx, host)
			if c.Now().Sub(began) >= time.Minute {
				short = 1
			}
			select {
			case <-time.After(reconcile.Pause(short)):
			case <-ctx.Done():
			}
		}
		return func() {}
	})
}

func (c *Controller) watchOnce(ctx context.Context, host string) {
	defer func() { _ = recover() }() // nothing depends on it
	var posted atomic.Bool           // a burst of hints is one
	c.Tasks.Watch(ctx, host, func() {
		if posted.CompareAndSwap(false, true) {
			c.loop.Post(func() {
				posted.Store(false)
				c.probes.hint(host, c.Now())
			})
		}
	})
}
