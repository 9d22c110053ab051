package environments

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/environment"
)

// resync has the tasks looked at that are to be, of the environments of which that
// may have changed.
func (c *Controller) resync(looking context.Context) {
	for _, name := range c.checks.stale.take() {
		c.sync(looking, name, false)
	}
}

func (c *Controller) sync(looking context.Context, name string, first bool) {
	if !c.controls(name) {
		return
	}
	for _, host := range c.checks.sync(c.environments.States[name], c.Now(), first) {
		ctx, end := context.WithCancel(looking)
		c.checks.hosts[host].end = end
		c.lookers.Go(func() { c.watchHost(ctx, host) })
	}
	c.agenda.add(name) // for all its tasks may be known now
}

// longAbsence is after how long without a tick nobody knows how tasks are.
const longAbsence = time.Minute

// wakeAfter has all tasks looked at as if the controller had just started, when its
// process was stopped for a while or the clock was set.
func (c *Controller) wakeAfter() {
	now := c.Now().Round(0) // by the clock on the wall, as in the log
	absence := now.Sub(c.ticked)
	if c.ticked = now; absence < 0 || absence > longAbsence {
		c.checks.afresh(now)
		c.rested = time.Time{}
	}
}

// check looks at the tasks that are due.
func (c *Controller) check(looking context.Context) {
	for k := c.nextCheck(); k != nil; k = c.nextCheck() {
		c.lookers.Go(func() { c.glances <- glance{k, c.observe(looking, k.task)} })
	}
}

func (c *Controller) nextCheck() *check {
	return c.checks.next(c.Now(), c.environments.Head(), c.crew.working)
}

// glanced takes note of what was seen of a task. It only costs a round when there
// is something to record.
func (c *Controller) glanced(ctx context.Context, g glance) {
	c.checks.done(g.check, c.Now())
	switch {
	case ctx.Err() != nil || g.check.dropped:
		return
	case g.check.stale():
		c.checks.soon(g.check, c.Now())
		return
	case len(c.sight(g).events) > 0:
		c.seen = append(c.seen, g)
	}
	if c.checks.looked(g.check) {
		c.agenda.add(g.check.task.Environment)
	}
}

// hints are the hosts where something may have happened. It is safe for concurrent
// use.
type hints struct {
	mu    sync.Mutex
	hosts roll
	some  chan struct{}
}

func (h *hints) add(host string) {
	h.mu.Lock()
	h.hosts.add(host)
	h.mu.Unlock()
	select {
	case h.some <- struct{}{}:
	default: // it is known already
	}
}

func (h *hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hosts.take()
}

// lookPatience is how long a look at a task may take.
const lookPatience = time.Minute

// observe looks at a task.
func (c *Controller) observe(ctx context.Context, t environment.Task) (seen environment.ProbeResult) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			seen = environment.ProbeResult{Health: environment.Unknown, Detail: fmt.Sprintf("looking at it panicked: %v", p)}
		}
	}()
	return c.Tasks.Observe(ctx, t)
}

// watchHost watches a host until ctx ends. A watch that does not last is begun
// again after a pause, which grows.
func (c *Controller) watchHost(ctx context.Context, host string) {
	const shortest, longest = time.Second, time.Minute
	for pause := shortest; ctx.Err() == nil; pause = min(2*pause, longest) {
		began := c.Now()
		c.watchOnce(ctx, host)
		if c.Now().Sub(began) >= longest {
			pause = shortest
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (c *Controller) watchOnce(ctx context.Context, host string) {
	defer func() { _ = recover() }() // nothing depends on it
	c.Tasks.Watch(ctx, host, func() { c.hints.add(host) })
}
