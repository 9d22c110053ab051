package environments

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// probes are the probes of tasks, from time to time.
type probes struct {
	every    time.Duration
	free     int // how many more may be under way
	byTask   map[deploylog.Target]*target
	of       map[string]map[deploylog.Target]*target // by environment
	hosts    map[string]*probedHost
	due      reconcile.DelayQueue[deploylog.Target]
	ready    reconcile.OrderedSet[string] // hosts on which a task can be probed
	stale    reconcile.OrderedSet[string] // environments of which other tasks may be to be probed
	first    map[string]int               // tasks that were not probed yet since they are controlled, by environment
	returned map[string]bool              // environments whose hosts have changed
	hints    hints
	results  []probeResult // to be recorded
}

// target is a task that is probed from time to time.
type target struct {
	task    environment.Task
	name    deploylog.Target
	first   bool  // it was not probed since it is controlled
	waits   bool  // for its host
	runs    bool  // it is being probed
	again   bool  // it is to be probed again at once
	began   int64 // event that was the newest when the last probe began
	changed int64 // newest event of the task
	dropped bool  // it is not to be probed any more
}

// probedHost is a host that has such tasks. They are probed one at a time.
type probedHost struct {
	tasks  map[deploylog.Target]*target
	line   []*target // are due
	runs   bool
	hinted time.Time // when its tasks are, or were, due because of a hint
	end    context.CancelFunc
}

// probeResult is what a probe of a task saw.
type probeResult struct {
	target *target
	seen   environment.ProbeResult
}

func newProbes(every time.Duration, free int) probes {
	return probes{
		every: every, free: free, byTask: map[deploylog.Target]*target{}, of: map[string]map[deploylog.Target]*target{},
		hosts: map[string]*probedHost{}, first: map[string]int{}, returned: map[string]bool{},
	}
}

// known reports whether the health of all tasks is known that an environment had
// when it began to be controlled.
func (p *probes) known(name string) bool { return p.first[name] == 0 }

// note receives an event.
func (p *probes) note(name string, e deploylog.Event) {
	p.stale.Add(name)
	if e.Name == environment.EventHostsChanged {
		p.returned[name] = true
	}
	if k := p.byTask[e.Target]; k != nil {
		k.changed = e.Seq
	}
}

// sync makes the tasks that are probed those that are to be. It returns the
// hosts that had none before.
func (p *probes) sync(state *environment.State, now time.Time, first bool) (fresh []string) {
	name, had := state.Name(), p.of[state.Name()]
	has := make(map[deploylog.Target]*target, len(had))
	soon := first || p.returned[name] // what is lost on a host that is back is missed
	delete(p.returned, name)
	for t := range state.ProbeTargets() {
		at := environment.TaskTarget(name, t.Revision, t.Host)
		k := had[at]
		if k == nil {
			k = &target{task: t, name: at, first: first}
			if p.put(k, now, soon) {
				fresh = append(fresh, t.Host)
			}
		}
		has[at] = k
	}
	for at, k := range had {
		if has[at] == nil {
			p.drop(k)
		}
	}
	if p.of[name] = has; len(has) == 0 {
		delete(p.of, name)
	}
	return fresh
}

// put adds a task, which is probed soon or in its turn, and reports whether it is
// the first on its host.
func (p *probes) put(k *target, now time.Time, soon bool) (fresh bool) {
	host := p.hosts[k.task.Host]
	if fresh = host == nil; fresh {
		host = &probedHost{tasks: map[deploylog.Target]*target{}}
		p.hosts[k.task.Host] = host
	}
	host.tasks[k.name], p.byTask[k.name] = k, k
	if k.first {
		p.first[k.task.Environment]++
	}
	due := now
	if !soon {
		due = p.slot(k.name, now)
	}
	p.due.Set(k.name, due)
	return fresh
}

// slot is the next time after now that is that of a task: they are spread evenly.
func (p *probes) slot(t deploylog.Target, now time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t))
	at := now.Truncate(p.every).Add(time.Duration(h.Sum64() % uint64(p.every)))
	if !at.After(now) {
		at = at.Add(p.every)
	}
	return at
}

// forget drops the tasks of an environment.
func (p *probes) forget(name string) {
	for _, k := range p.of[name] {
		p.drop(k)
	}
	delete(p.of, name)
}

// drop takes a task away.
func (p *probes) drop(k *target) {
	k.dropped = true
	p.firstDone(k)
	p.due.Set(k.name, time.Time{})
	delete(p.byTask, k.name)
	host := p.hosts[k.task.Host]
	host.line = slices.DeleteFunc(host.line, func(other *target) bool { return other == k })
	if delete(host.tasks, k.name); len(host.tasks) == 0 && !host.runs {
		p.leave(k.task.Host)
	}
}

// leave forgets a host.
func (p *probes) leave(name string) {
	if end := p.hosts[name].end; end != nil {
		end()
	}
	delete(p.hosts, name)
}

// firstDone records that a task was probed, and reports whether that was the last of
// its environment that had not been.
func (p *probes) firstDone(k *target) (known bool) {
	if !k.first {
		return false
	}
	k.first = false
	name := k.task.Environment
	if p.first[name]--; p.first[name] > 0 {
		return false
	}
	delete(p.first, name)
	return true
}

// afresh has all tasks probed at once, as when they began to be controlled. A probe
// that is under way may have seen what was before.
func (p *probes) afresh(now time.Time) {
	for _, k := range p.byTask {
		if !k.first {
			k.first = true
			p.first[k.task.Environment]++
		}
		switch {
		case k.waits:
		case k.runs:
			k.began = outdated
		default:
			p.due.Set(k.name, now)
		}
	}
	for _, host := range p.hosts {
		host.hinted = time.Time{}
	}
}

// outdated is before all events.
const outdated = -1

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
	for _, k := range host.tasks {
		switch {
		case k.waits:
		case k.runs:
			k.again = true
		default:
			p.due.Set(k.name, reconcile.Earlier(p.due.At(k.name), host.hinted))
		}
	}
}

// resume probes the tasks of a host that were kept waiting by work on it.
func (p *probes) resume(name string) {
	if host := p.hosts[name]; host != nil && len(host.line) > 0 && !host.runs {
		p.ready.Add(name)
	}
}

// next returns a task that is to be probed now, and has it begun at an event.
// Those on whose host there is work for their environment wait.
func (p *probes) next(now time.Time, head int64, busy func(place) bool) *target {
	for at, ok := p.due.Take(now); ok; at, ok = p.due.Take(now) {
		k := p.byTask[at]
		host := p.hosts[k.task.Host]
		k.waits = true
		host.line = append(host.line, k)
		p.resume(k.task.Host)
	}
	if p.free == 0 {
		return nil
	}
	for p.ready.Len() > 0 {
		name := p.ready.Pop()
		host := p.hosts[name]
		if host == nil || host.runs {
			continue
		}
		for i, k := range host.line {
			if busy(place{k.task.Environment, name}) {
				continue
			}
			host.line = slices.Delete(host.line, i, i+1)
			host.runs, k.waits, k.runs, k.began = true, false, true, head
			p.free--
			return k
		}
	}
	return nil
}

// done records that a probe has ended, and when the next is due.
func (p *probes) done(k *target, now time.Time) {
	p.free++
	k.runs = false
	host := p.hosts[k.task.Host]
	host.runs = false
	p.resume(k.task.Host)
	switch {
	case k.dropped:
		if len(host.tasks) == 0 {
			p.leave(k.task.Host)
		}
	case k.again:
		k.again = false
		p.due.Set(k.name, later(now, host.hinted))
	default:
		p.due.Set(k.name, p.slot(k.name, now))
	}
}

// stale reports whether something happened to the task since the last probe began.
func (k *target) stale() bool { return k.changed > k.began }

// soon has a task probed again.
func (p *probes) soon(k *target, now time.Time) {
	if !k.dropped && !k.runs && !k.waits {
		p.due.Set(k.name, reconcile.Earlier(p.due.At(k.name), now.Add(hintPause)))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
