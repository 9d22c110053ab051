package environments

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// resync has the tasks probed that are to be, of the environments of which that may
// have changed.
func (c *Controller) resync() {
	for _, name := range c.probes.stale.Take() {
		c.sync(name, false)
	}
}

func (c *Controller) sync(name string, first bool) {
	if !c.loop.Controls(name) {
		return
	}
	for _, host := range c.probes.sync(c.environments.States[name], c.Now(), first) {
		c.probes.hosts[host].end = c.loop.Go(func(ctx context.Context) func() {
			c.watchHost(ctx, host)
			return func() {}
		})
	}
	c.loop.Enqueue(name) // for all its tasks may be known now
}

// longAbsence is after how long without a tick nobody knows how tasks are.
const longAbsence = time.Minute

// probeAfterAbsence has all tasks probed as if the controller had just started, when its
// process was stopped for a while or the clock was set.
func (c *Controller) probeAfterAbsence() {
	now := c.Now().Round(0) // by the clock on the wall, as in the log
	absence := now.Sub(c.ticked)
	if c.ticked = now; absence < 0 || absence > longAbsence {
		c.probes.afresh(now)
	}
}

// Probe implements reconcile.Tenant.
func (c *Controller) Probe() (next time.Time, seen bool) {
	for k := c.nextProbe(); k != nil; k = c.nextProbe() {
		c.loop.Go(func(ctx context.Context) func() {
			seen := c.observe(ctx, k.task)
			return func() { c.receive(ctx, probeResult{k, seen}) }
		})
	}
	if c.hosts.stale.Len() > 0 || c.pending() {
		return c.Now(), false
	}
	return c.probes.due.Next(), len(c.probes.first) == 0
}

func (c *Controller) nextProbe() *target {
	return c.probes.next(c.Now(), c.environments.Head(), c.loop.Busy)
}

// receive takes the result of a probe. It only costs a pass when there is something to
// record.
func (c *Controller) receive(ctx context.Context, r probeResult) {
	c.probes.done(r.target, c.Now())
	switch {
	case ctx.Err() != nil || r.target.dropped:
		return
	case r.target.stale():
		c.probes.soon(r.target, c.Now())
		return
	case len(c.changes(r)) > 0:
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
		switch events := c.changes(r); {
		case r.target.dropped:
		case r.target.stale():
			c.probes.soon(r.target, c.Now())
		case len(events) > 0:
			all = append(all, reconcile.Observation{Entity: r.target.task.Environment, Events: events})
		}
	}
	return all
}

// probeTimeout is how long a probe of a task may take.
const probeTimeout = time.Minute

// observe probes a task.
func (c *Controller) observe(ctx context.Context, t environment.Task) (seen environment.ProbeResult) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			seen = environment.ProbeResult{Health: environment.Unknown, Detail: fmt.Sprintf("looking at it panicked: %v", p)}
		}
	}()
	return c.Tasks.Observe(ctx, t)
}

// hints are the hosts where something may have happened. It is safe for concurrent use.
type hints struct {
	mu    sync.Mutex
	hosts reconcile.OrderedSet[string]
}

// add reports whether the host is the first.
func (h *hints) add(host string) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = h.hosts.Len() == 0
	h.hosts.Add(host)
	return first
}

func (h *hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hosts.Take()
}

// watchHost watches a host until it has no tasks any more. A watch that does not last
// is begun again after a pause, which grows.
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
	c.Tasks.Watch(ctx, host, func() {
		if c.probes.hints.add(host) {
			c.loop.Post(func() {
				for _, host := range c.probes.hints.take() {
					c.probes.hint(host, c.Now())
				}
			})
		}
	})
}
