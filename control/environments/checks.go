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

// checks are the looks at tasks from time to time.
type checks struct {
	every  time.Duration
	hands  int // free ones
	byTask map[deploylog.Target]*check
	of     map[string]map[deploylog.Target]*check // by environment
	hosts  map[string]*checked
	due    reconcile.DelayQueue[deploylog.Target]
	ready  roll            // hosts on which a task can be looked at
	stale  roll            // environments of which other tasks may be to be looked at
	first  map[string]int  // tasks that were not looked at yet since the controller started, by environment
	back   map[string]bool // environments whose hosts have changed
}

// check is a task that is looked at from time to time.
type check struct {
	task    environment.Task
	target  deploylog.Target
	first   bool  // it was not looked at since the controller started
	waits   bool  // for its host
	runs    bool  // it is being looked at
	again   bool  // it is to be looked at again at once
	began   int64 // event that was the newest when the last look began
	changed int64 // newest event of the task
	dropped bool  // it is not to be looked at any more
}

// checked is a host that has such tasks. They are looked at one at a time.
type checked struct {
	tasks  map[deploylog.Target]*check
	line   []*check // are due
	runs   bool
	hinted time.Time // when its tasks are, or were, due because of a hint
	end    context.CancelFunc
}

// glance is what a look at a task saw.
type glance struct {
	check *check
	seen  environment.ProbeResult
}

func newChecks(every time.Duration, hands int) checks {
	return checks{
		every: every, hands: hands, byTask: map[deploylog.Target]*check{}, of: map[string]map[deploylog.Target]*check{},
		hosts: map[string]*checked{}, first: map[string]int{}, back: map[string]bool{},
	}
}

// known tells whether the health of all tasks is known that an environment had
// when the controller started.
func (c *checks) known(name string) bool { return c.first[name] == 0 }

// note takes note of an event.
func (c *checks) note(name string, e deploylog.Event) {
	c.stale.add(name)
	if e.Name == environment.EventHostsChanged {
		c.back[name] = true
	}
	if k := c.byTask[e.Target]; k != nil {
		k.changed = e.Seq
	}
}

// sync makes the tasks that are looked at those that are to be. It returns the
// hosts that had none before.
func (c *checks) sync(state *environment.State, now time.Time, first bool) (fresh []string) {
	name, had := state.Name(), c.of[state.Name()]
	has := make(map[deploylog.Target]*check, len(had))
	soon := first || c.back[name] // what is lost on a host that is back is missed
	delete(c.back, name)
	for t := range state.ProbeTargets() {
		target := environment.TaskTarget(name, t.Revision, t.Host)
		k := had[target]
		if k == nil {
			k = &check{task: t, target: target, first: first}
			if c.put(k, now, soon) {
				fresh = append(fresh, t.Host)
			}
		}
		has[target] = k
	}
	for target, k := range had {
		if has[target] == nil {
			c.drop(k)
		}
	}
	if c.of[name] = has; len(has) == 0 {
		delete(c.of, name)
	}
	return fresh
}

// put adds a task, which is looked at soon or in its turn, and tells whether it is
// the first on its host.
func (c *checks) put(k *check, now time.Time, soon bool) (fresh bool) {
	host := c.hosts[k.task.Host]
	if fresh = host == nil; fresh {
		host = &checked{tasks: map[deploylog.Target]*check{}}
		c.hosts[k.task.Host] = host
	}
	host.tasks[k.target], c.byTask[k.target] = k, k
	if k.first {
		c.first[k.task.Environment]++
	}
	due := now
	if !soon {
		due = c.slot(k.target, now)
	}
	c.due.Set(k.target, due)
	return fresh
}

// slot is the next time after now that is that of a task: they are spread evenly.
func (c *checks) slot(t deploylog.Target, now time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t))
	at := now.Truncate(c.every).Add(time.Duration(h.Sum64() % uint64(c.every)))
	if !at.After(now) {
		at = at.Add(c.every)
	}
	return at
}

// forget drops the tasks of an environment.
func (c *checks) forget(name string) {
	for _, k := range c.of[name] {
		c.drop(k)
	}
	delete(c.of, name)
}

// drop takes a task away.
func (c *checks) drop(k *check) {
	k.dropped = true
	c.looked(k)
	c.due.Set(k.target, time.Time{})
	delete(c.byTask, k.target)
	host := c.hosts[k.task.Host]
	host.line = slices.DeleteFunc(host.line, func(other *check) bool { return other == k })
	if delete(host.tasks, k.target); len(host.tasks) == 0 && !host.runs {
		c.leave(k.task.Host)
	}
}

// leave forgets a host.
func (c *checks) leave(name string) {
	if end := c.hosts[name].end; end != nil {
		end()
	}
	delete(c.hosts, name)
}

// looked takes note that a task was looked at, and tells whether it was the last of
// its environment for the first time.
func (c *checks) looked(k *check) (known bool) {
	if !k.first {
		return false
	}
	k.first = false
	name := k.task.Environment
	if c.first[name]--; c.first[name] > 0 {
		return false
	}
	delete(c.first, name)
	return true
}

// afresh has all tasks looked at at once, as when the controller started. What is
// being seen of one may be of before.
func (c *checks) afresh(now time.Time) {
	for _, k := range c.byTask {
		if !k.first {
			k.first = true
			c.first[k.task.Environment]++
		}
		switch {
		case k.waits:
		case k.runs:
			k.began = outdated
		default:
			c.due.Set(k.target, now)
		}
	}
	for _, host := range c.hosts {
		host.hinted = time.Time{}
	}
}

// outdated is before all events.
const outdated = -1

// hintPause is how often the tasks of a host are looked at, at most, however often
// something may have happened to them.
const hintPause = 200 * time.Millisecond

// hint has the tasks of a host looked at at once.
func (c *checks) hint(name string, now time.Time) {
	host := c.hosts[name]
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
			c.due.Set(k.target, reconcile.Earlier(c.due.At(k.target), host.hinted))
		}
	}
}

// resume looks at the tasks of a host that were kept waiting by work on it.
func (c *checks) resume(name string) {
	if host := c.hosts[name]; host != nil && len(host.line) > 0 && !host.runs {
		c.ready.add(name)
	}
}

// next returns a task that is to be looked at now, and has it begun at an event.
// Those on whose host there is work for their environment wait.
func (c *checks) next(now time.Time, head int64, working map[workplace]bool) *check {
	for target, ok := c.due.Take(now); ok; target, ok = c.due.Take(now) {
		k := c.byTask[target]
		host := c.hosts[k.task.Host]
		k.waits = true
		host.line = append(host.line, k)
		c.resume(k.task.Host)
	}
	if c.hands == 0 {
		return nil
	}
	for len(c.ready.names) > 0 {
		name := c.ready.pop()
		host := c.hosts[name]
		if host == nil || host.runs {
			continue
		}
		for i, k := range host.line {
			if working[workplace{k.task.Environment, name}] {
				continue
			}
			host.line = slices.Delete(host.line, i, i+1)
			host.runs, k.waits, k.runs, k.began = true, false, true, head
			c.hands--
			return k
		}
	}
	return nil
}

// done takes note that a look has ended, and when the next is due.
func (c *checks) done(k *check, now time.Time) {
	c.hands++
	k.runs = false
	host := c.hosts[k.task.Host]
	host.runs = false
	c.resume(k.task.Host)
	switch {
	case k.dropped:
		if len(host.tasks) == 0 {
			c.leave(k.task.Host)
		}
	case k.again:
		k.again = false
		c.due.Set(k.target, later(now, host.hinted))
	default:
		c.due.Set(k.target, c.slot(k.target, now))
	}
}

// stale tells whether something happened to the task since the last look began.
func (k *check) stale() bool { return k.changed > k.began }

// soon has a task looked at again.
func (c *checks) soon(k *check, now time.Time) {
	if !k.dropped && !k.runs && !k.waits {
		c.due.Set(k.target, reconcile.Earlier(c.due.At(k.target), now.Add(hintPause)))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
