package environments

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// deed is what is to be recorded of an environment at once, and the work that
// begins then.
type deed struct {
	name     string
	head     int64 // of the environment when that was decided
	events   []deploylog.Event
	begin    *beginning
	recorded bool
}

func (c *Controller) deed(name string, events []deploylog.Event) deed {
	return deed{name: name, head: c.environments.States[name].Head(), events: events}
}

// beginning is work that begins.
type beginning struct {
	step environment.Step
	task environment.Task
}

// roundShare is how long a round holds the gate, about.
const roundShare = 20 * time.Millisecond

// pending tells whether there is anything to hold a round for.
func (c *Controller) pending() bool {
	return c.news || len(c.ended) > 0 || len(c.seen) > 0 || len(c.groups.found.names) > 0 || c.undecided()
}

func (c *Controller) undecided() bool { return len(c.agenda.names) > 0 || c.crew.room() }

// wakeUp puts on the agenda for whom the time has come.
func (c *Controller) wakeUp() {
	now := c.Now()
	for name, ok := c.wakes.Take(now); ok; name, ok = c.wakes.Take(now) {
		c.agenda.add(name)
	}
}

// round records what has ended and was seen, and what may be done now, which it
// returns. It holds the gate, so what is decided is still so when it is in the log.
func (c *Controller) round(ctx context.Context) (begin []beginning, err error) {
	err = c.environments.Hold(ctx, func() error {
		started := c.Now()
		defer func() {
			ended := c.Now()
			c.rested = ended.Add(ended.Sub(started))
		}()
		c.news = false
		for _, record := range []func(context.Context) error{c.settle, c.sights, c.hosts} {
			if err := record(ctx); err != nil {
				return err
			}
		}
		for {
			begun, err := c.decide(ctx)
			begin = append(begin, begun...)
			c.letGo()
			if err != nil || !c.undecided() || c.Now().Sub(started) > roundShare {
				return err
			}
		}
	})
	return begin, err
}

// rest leaves the gate to others for as long as the last round held it, so that
// people's commands come through whatever goes on. What ends meanwhile is taken.
func (c *Controller) rest(ctx context.Context) {
	left := c.rested.Sub(c.Now())
	if left <= 0 {
		return
	}
	rested := time.NewTimer(left)
	defer rested.Stop()
	for {
		select {
		case e := <-c.endings:
			c.came(ctx, e)
		case g := <-c.glances:
			c.glanced(ctx, g)
		case <-rested.C:
			return
		case <-ctx.Done():
			return
		case <-c.Stop:
			return
		}
	}
}

// settle records how work has ended. That is a fact, whatever became of its
// environment and of the controller.
func (c *Controller) settle(ctx context.Context) error {
	var deeds []deed
	for _, e := range c.ended {
		events := c.environments.States[e.environment].Completed(e.step, e.seen, e.err)
		deeds = append(deeds, c.deed(e.environment, events))
		c.agenda.add(e.environment) // its host is free now, whether or not anything is recorded
	}
	c.ended = nil
	return c.record(ctx, deeds)
}

// sights records what was seen of tasks, but of those to which something happened
// meanwhile, and of those that are left to another controller.
func (c *Controller) sights(ctx context.Context) error {
	var deeds []deed
	for _, g := range c.seen {
		switch d := c.sight(g); {
		case g.check.dropped:
		case g.check.stale():
			c.checks.soon(g.check, c.Now())
		case len(d.events) > 0 && c.mine(d.name, false):
			deeds = append(deeds, d)
		}
	}
	c.seen = nil
	return c.record(ctx, deeds)
}

// sight is what is to be recorded of a look at a task.
func (c *Controller) sight(g glance) deed {
	t := g.check.task
	return c.deed(t.Environment, c.environments.States[t.Environment].Probed(t, g.seen))
}

// hosts records which hosts there are.
func (c *Controller) hosts(ctx context.Context) error {
	var deeds []deed
	found := &c.groups.found
	for n := 0; len(found.names) > 0 && n < reconcile.BatchSize; n++ {
		if name := found.pop(); c.controls(name) && !c.refused.Out(name) {
			if d := c.place(name); len(d.events) > 0 && c.mine(name, false) {
				deeds = append(deeds, d)
			}
			defer c.environments.claims.doubt(name) // what it claims now is only expected
		}
	}
	return c.record(ctx, deeds)
}

// decide records what may be done by the environments that are on the agenda, and
// by those for whose work there may be room now, and returns the work.
func (c *Controller) decide(ctx context.Context) (begin []beginning, err error) {
	var names roll // nobody is to be decided about twice before that is recorded
	names.add(c.crew.next()...)
	names.add(c.agenda.take()...)
	var deeds []deed
	for room := reconcile.BatchSize; len(names.names) > 0 && room > 0; {
		steps := c.steps(names.pop(), room)
		for _, d := range steps {
			room -= max(1, len(d.events))
		}
		deeds = append(deeds, steps...)
	}
	c.agenda.add(names.take()...)
	err = c.record(ctx, deeds)
	for _, d := range deeds {
		switch {
		case d.begin == nil:
		case d.recorded:
			begin = append(begin, *d.begin)
		default:
			c.crew.end(workplace{d.name, d.begin.step.Host})
		}
	}
	return begin, err
}

// steps are what an environment may do now, so many at most. For the work there is
// somebody then.
func (c *Controller) steps(name string, most int) (deeds []deed) {
	switch {
	case c.turns.aside[name]:
		c.regain(name)
		return nil
	case !c.controls(name) || c.refused.Out(name):
		delete(c.moving, name)
		return nil
	}
	state, now := c.environments.States[name], c.Now()
	can := environment.Can{
		Work:    func(host string) bool { return c.crew.can(workplace{name, host}) },
		Disrupt: c.checks.known(name),
	}
	for step := range state.Decide(now, can) {
		if !c.mine(name, step.Kind != environment.Record) {
			return nil
		}
		d := c.deed(name, step.Events)
		if step.Kind != environment.Record {
			c.crew.begin(workplace{name, step.Host})
			d.begin = &beginning{step, state.Task(step.Revision, step.Host)}
		}
		if deeds = append(deeds, d); len(deeds) == most {
			break
		}
	}
	if len(deeds) > 0 {
		c.agenda.add(name) // for there may be more when they are recorded
		return deeds
	}
	wake := state.Wake()
	if !wake.After(now) { // what keeps it is not the time
		wake = time.Time{}
	}
	c.wakes.Set(name, wake)
	if c.UntilIdle && !state.Idle() {
		c.moving[name] = true
	} else {
		delete(c.moving, name)
	}
	return nil
}

// record appends deeds, all at once if that can be. One that is there already,
// because somebody came that far without the gate, is decided about again; one that
// the log can not take is of an environment that can not go on.
func (c *Controller) record(ctx context.Context, deeds []deed) error {
	var events []deploylog.Event
	for _, d := range deeds {
		events = append(events, d.events...)
	}
	var err error
	if len(events) > 0 {
		_, err = c.environments.Append(ctx, events)
	}
	duplicate, invalid := errors.Is(err, deploylog.ErrDuplicate), errors.Is(err, deploylog.ErrInvalid)
	switch {
	case err == nil:
		for i := range deeds {
			deeds[i].recorded = true
		}
		return nil
	case !duplicate && !invalid:
		return err
	case len(deeds) == 1:
		return c.refuse(ctx, deeds[0], duplicate, err)
	}
	for i := range deeds {
		if err := c.record(ctx, deeds[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// refuse leaves an environment out whose events the log refuses, unless something
// has happened to it since they were decided.
func (c *Controller) refuse(ctx context.Context, d deed, duplicate bool, cause error) error {
	if duplicate {
		if err := c.environments.CatchUp(ctx, 0); err != nil || c.environments.States[d.name].Head() > d.head {
			return err
		}
	}
	if text := c.refused.Add(d.name, cause); text != "" {
		c.tell(func(to Audience) { to.Notice(text) })
	}
	return nil
}
