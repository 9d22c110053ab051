package environments

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// Tasks does the work of environments' steps, and looks how tasks are. It is
// safe for concurrent use. What has a ctx returns when that ends.
type Tasks interface {
	// Start applies a task and tells what was seen then. It must be safe to do
	// again, as Terminate must: a controller that died may have had it done
	// before.
	Start(ctx context.Context, t environment.Task) (environment.ProbeResult, error)

	// Terminate destroys what applications of the task made.
	Terminate(ctx context.Context, t environment.Task) error

	// Observe looks, and changes nothing. What it can not see is Unknown.
	Observe(ctx context.Context, t environment.Task) environment.ProbeResult

	// Watch calls changed when something may have happened to tasks on a host.
	// It returns when it can not tell any more, and is called again later.
	// Nothing depends on it: it only makes the controller look sooner.
	Watch(ctx context.Context, host string, changed func())
}

// Inventory tells which hosts there are. Only one goroutine asks at a time.
type Inventory interface {
	// Version is another number when the rest may answer differently. It is
	// asked each second.
	Version() int

	Selected(query string) ([]string, error)
	Known(host string) bool

	// Slots is how many steps may run on a host at once.
	Slots(host string) int
}

// Audience is told what a controller does, one call at a time, in the order in
// which it happened. The controller goes on when the call returns; it holds no
// lock meanwhile.
type Audience interface {
	Recorded(e deploylog.Event)
	Notice(text string)
}

// ControllerOptions describes a Controller. All fields are required but where it
// says otherwise.
type ControllerOptions struct {
	Log          deploylog.Log
	Environments []string // none is all there are; the others are not touched
	Tasks        Tasks
	Inventory    Inventory
	Audience     Audience
	Parallelism  int             // steps that are worked on at once; besides, so many tasks are looked at
	UntilIdle    bool            // end when nothing moves any more
	Stop         <-chan struct{} // when closed nothing new begins; may be nil
	CheckEvery   time.Duration   // between two looks at a task; 0 is DefaultCheckEvery
	Now          func() time.Time
}

// DefaultCheckEvery is how often a task is looked at, if nobody says otherwise.
const DefaultCheckEvery = 30 * time.Second

// Controller brings the tasks of environments to their hosts and keeps them
// there: it looks at the log, the hosts and the tasks, does what may be done,
// records that, and looks again (seed "Blox Deployments User Experience"). All
// that it knows is in the log, so one that dies is replaced by another.
//
// One controller of all environments works on a log at a time; others stand by.
// Controllers of some work beside each other, but only while there is none of all,
// and never two at once on an environment.
//
// One goroutine, that of Run, decides, records and tells. Each step that is
// worked on and each look at a task has a goroutine of its own, which brings it
// the outcome.
type Controller struct {
	ControllerOptions
	environments *Environments
	agenda       roll                         // environments that are to be decided about
	wakes        reconcile.DelayQueue[string] // when some will be because time has passed
	moving       map[string]bool              // those that are not idle
	crew         crew
	turns        turns
	groups       groups
	checks       checks
	hints        hints

	endings chan ending
	glances chan glance
	ended   []ending // not recorded yet
	seen    []glance
	lookers sync.WaitGroup
	refused reconcile.Refusals
	rested  time.Time    // when the gate has been left to others for long enough
	ticked  time.Time    // the last tick
	news    bool         // there is something that others recorded
	newest  atomic.Int64 // event that the watch has seen
	tidings reconcile.Deferred[Audience]
	seat    reconcile.Seat
	others  <-chan []string // environments that it is to control instead; may be nil
}

// NewController prepares a controller; Run starts it.
func NewController(o ControllerOptions) *Controller {
	o.Parallelism = max(1, o.Parallelism)
	if o.CheckEvery <= 0 {
		o.CheckEvery = DefaultCheckEvery
	}
	c := &Controller{
		ControllerOptions: o, environments: NewEnvironments(o.Log, o.Now), moving: map[string]bool{},
		crew: newCrew(o.Parallelism, o.Inventory.Slots), checks: newChecks(o.CheckEvery, o.Parallelism), hints: hints{some: make(chan struct{}, 1)},
		turns:   turns{held: map[string]func(){}, aside: map[string]bool{}},
		endings: make(chan ending, o.Parallelism), glances: make(chan glance, o.Parallelism),
		seat: reconcile.Seat{Log: o.Log, Lock: lockController, Who: "controller", Stop: o.Stop, Notice: func(text string) { o.Audience.Notice(text) }},
	}
	c.refused = c.environments.Refusals()
	return c
}

// Run brings tasks to their hosts until the context or Stop ends it, or, with
// UntilIdle, until nothing moves and every task was looked at. While a controller
// of all environments is at work on the log it stands by: then it only records how
// work has ended that it had begun. It returns when everything that
// it began has ended. An environment whose events the log refuses is left out
// until something new of it is in the log; with UntilIdle the error tells. It is
// called once.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.environments.Follow(ctx, 0); err != nil { // now, so that a standby has little left to read
		return err
	}
	for _, name := range c.Environments {
		if err := c.environments.Ask(name, func(*environment.State) error { return nil }); err != nil {
			return err
		}
	}
	if len(c.Environments) == 0 {
		unlock, err := c.seat.Take(ctx)
		if unlock == nil {
			return err
		}
		defer unlock()
		if err := c.environments.Follow(ctx, 0); err != nil {
			return err
		}
	}
	defer c.letGo()
	c.environments.Told = append(c.environments.Told, c.note)
	return c.loop(ctx)
}

// note takes note of an event that is in the log.
func (c *Controller) note(e deploylog.Event) {
	name, ok := environment.NameOf(e.Target)
	if !ok || !c.concerned(name) || c.environments.States[name] == nil {
		return
	}
	c.agenda.add(name)
	c.checks.note(name, e)
	if e.Name == environment.EventStarted {
		c.find(name)
	}
	c.tell(func(to Audience) { to.Recorded(e) })
}

func ofEnvironment(t deploylog.Target) bool {
	_, ok := environment.NameOf(t)
	return ok
}

// concerned tells whether an environment is one of those that it is to control.
func (c *Controller) concerned(name string) bool {
	return len(c.Environments) == 0 || slices.Contains(c.Environments, name)
}

// controls tells whether it is, and is not left to another controller now.
func (c *Controller) controls(name string) bool {
	return c.concerned(name) && !c.turns.standby && !c.turns.aside[name]
}

// change controls other environments from now on. What is worked on goes on.
func (c *Controller) change(looking context.Context, names []string) {
	before := c.Environments
	c.Environments = names
	for _, name := range before {
		if !c.concerned(name) {
			delete(c.turns.aside, name)
			c.checks.forget(name)
		}
	}
	for _, name := range names {
		if !slices.Contains(before, name) {
			c.takeUp(looking, name)
		}
	}
}

func (c *Controller) tell(what func(Audience)) { c.tidings.Add(what) }

func (c *Controller) flush() { c.tidings.Flush(c.Audience) }

func (c *Controller) loop(ctx context.Context) (err error) {
	looking, cancel := context.WithCancel(ctx)
	news := reconcile.Watch(looking, c.Log, c.environments.Head(), ofEnvironment, &c.newest)
	tick := time.NewTicker(reconcile.InventoryPause)
	defer func() {
		tick.Stop()
		cancel()
		if err != nil && ctx.Err() == nil && len(c.crew.working) > 0 {
			c.Audience.Notice(fmt.Sprintf("the controller ends when what it has begun is done: %v", err))
		}
		if failed := c.finish(ctx); err == nil {
			err = failed
		}
		for range news { // until the watch has ended
		}
		c.lookers.Wait()
		c.flush()
	}()
	c.start(looking)
	for {
		c.flush()
		more, err := c.advance(ctx, looking)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case c.seat.Stopped():
			return nil
		case c.UntilIdle && !more && c.idle():
			return c.refused.Err()
		}
		if err := c.wait(ctx, looking, more, news, tick.C); err != nil {
			return err
		}
	}
}

// start has everything looked at that there is.
func (c *Controller) start(looking context.Context) {
	c.giveWay(looking)
	c.tick()
	for name := range c.environments.States {
		c.sync(looking, name, true)
	}
}

// idle tells whether nothing moves any more.
func (c *Controller) idle() bool {
	return !c.turns.standby && len(c.turns.aside) == 0 && len(c.crew.working) == 0 && len(c.moving) == 0 && len(c.checks.first) == 0 && len(c.ended) == 0 && len(c.seen) == 0
}

// wait takes note of what happens, and returns when there may be something to do.
// When there is more to do anyway it does not wait for anything.
func (c *Controller) wait(ctx, looking context.Context, more bool, news <-chan error, tick <-chan time.Time) error {
	var due <-chan time.Time
	busy := make(chan struct{})
	if more {
		close(busy)
	} else if at := reconcile.Earlier(c.wakes.Next(), c.checks.due.Next()); !at.IsZero() {
		timer := time.NewTimer(at.Sub(c.Now()))
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-ctx.Done():
		case <-c.Stop:
		case <-busy:
		case <-due:
		case <-tick:
			c.giveWay(looking)
			c.tick()
			c.resync(looking)
		case err, ok := <-news:
			if err := reconcile.Heard(ctx, err, ok); err != nil {
				return err
			}
			if c.newest.Load() <= c.environments.Head() { // it is what was recorded here
				continue
			}
			c.news = true
		case names := <-c.others:
			c.change(looking, names)
		case <-c.hints.some:
			for _, host := range c.hints.take() {
				c.checks.hint(host, c.Now())
			}
		case e := <-c.endings:
			c.came(ctx, e)
		case g := <-c.glances:
			c.glanced(ctx, g)
		}
		c.take(ctx)
		return nil
	}
}

// take takes what has ended besides.
func (c *Controller) take(ctx context.Context) {
	for {
		select {
		case e := <-c.endings:
			c.came(ctx, e)
		case g := <-c.glances:
			c.glanced(ctx, g)
		default:
			return
		}
	}
}

// advance records what has ended, decides, and begins what may be done. It tells
// whether there is more to do already.
func (c *Controller) advance(ctx, looking context.Context) (more bool, err error) {
	if ctx.Err() != nil || c.seat.Stopped() {
		return false, nil
	}
	c.look()
	c.wakeUp()
	if c.pending() {
		c.rest(ctx)
		begin, err := c.round(ctx)
		c.flush()
		for _, b := range begin {
			go c.work(ctx, b.step, b.task)
		}
		if err != nil {
			return false, err
		}
		c.goOn(looking)
	}
	c.check(looking)
	return c.pending() || len(c.groups.due.names) > 0, nil
}

// finish lets end what is being worked on.
func (c *Controller) finish(ctx context.Context) (err error) {
	for {
		if len(c.ended) > 0 {
			failed := c.environments.Hold(context.WithoutCancel(ctx), func() error { return c.settle(context.WithoutCancel(ctx)) })
			if err == nil {
				err = failed
			}
		}
		c.letGo()
		c.flush()
		if len(c.crew.working) == 0 {
			return err
		}
		c.came(ctx, <-c.endings)
	}
}
