package builds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
)

// Builder does jobs. It is safe for concurrent use. What is wrong is in the result: Failed
// is the fault of the job, Lost that of its worker or of what it uses.
type Builder interface {
	// Build does a job, whose beginning is in the log. When ctx ends because of ErrCanceled
	// it stops the job, and returns how that ended once it has stopped. When ctx ends otherwise,
	// or Life(ctx) does before the job has stopped, it returns at once, and nothing is recorded
	// but that the job was finished.
	Build(ctx context.Context, t build.Task) build.Result

	// Resume finds out what became of a job that a process began which has died: it waits
	// for its end, or stops it when ctx ends because of ErrCanceled, as it may have before.
	Resume(ctx context.Context, t build.Task) build.Result
}

// ErrCanceled is the cause for which the context of a job ends whose group is canceled.
var ErrCanceled = errors.New("its build group was canceled")

// Options describes a Controller. All fields are required but where it says otherwise. Its
// parallelism bounds the jobs of all workers together, besides the slots that each has.
type Options struct {
	reconcile.Options
	Builder  Builder
	Workers  Workers
	Observer reconcile.Observer
}

// Controller works off build groups (seed "Implementation of build manifest based builds").
// All that it knows is in the log, so one that dies is replaced by another.
type Controller struct {
	Options
	reconcile.Bare
	loop    *reconcile.Loop[*build.State, job]
	builds  *Builds
	fleet   fleet
	running map[job]*running
	full    bool     // the last decision was about as much as is recorded at once
	left    bool     // jobs that others began may have to be taken up before anything begins
	stalled []string // why groups do not move, by the watchdog
}

// job knows a job whatever its attempt is: one that is begun anew is not begun beside what
// goes on of it.
type job struct {
	group  string
	number int
}

// NewController prepares a controller.
func NewController(o Options) *Controller {
	c := &Controller{Options: o, builds: New(o.Log, o.Now), running: map[job]*running{}}
	c.fleet = fleet{Workers: o.Workers, now: o.Now, notice: c.notice, known: map[string]*worker{}, stale: true}
	c.loop = reconcile.New(reconcile.Setup[*build.State, job]{
		Options: o.Options, Fold: c.builds.Fold, Tenant: c, Observer: o.Observer,
		Role: "dispatcher", Slots: c.fleet.slots, Interrupted: runner.ErrInterrupted,
		Conditional: true, // with the end of a job its group may end, unless somebody has just canceled that
	})
	return c
}

// Run has jobs done, see reconcile.Loop.Run. A group that the watchdog has found to be
// stalled keeps nobody from the others, and is an error in the end.
func (c *Controller) Run(ctx context.Context) error {
	err := c.loop.Run(ctx)
	if len(c.stalled) > 0 {
		err = errors.Join(err, fmt.Errorf("nothing moves, and nothing says why: %s; this is a fault of the program", strings.Join(c.stalled, "; ")))
	}
	return err
}

// Declines implements reconcile.Tenant: who has only groups of other inventories gives way to
// those who have these.
func (c *Controller) Declines(s *build.State) string {
	if len(c.running) > 0 {
		return ""
	}
	if c.fleet.first.IsZero() {
		c.fleet.refresh() // or it would not be known which inventory is here
	}
	inventory := s.Elsewhere(func(p record.Place) bool { return !c.fleet.foreign(p) })
	if inventory == "" {
		return ""
	}
	return fmt.Sprintf("what is to be built is to be built on workers of the inventory %s, and %s", inventory, c.fleet.here())
}

// Acquired implements reconcile.Tenant.
func (c *Controller) Acquired(string) { c.left = true }

// Received implements reconcile.Tenant.
func (c *Controller) Received(_ string, e deploylog.Event) (more bool) {
	switch e.Name {
	case record.GroupCanceling:
		if id, _, ok := record.Parse(e.Target); ok {
			c.cancel(id)
		}
	case record.GroupStalled:
		why := fmt.Sprintf("%s: %s", e.Target, record.Decode[record.Ended](e).Cause)
		if !slices.Contains(c.stalled, why) {
			c.stalled = append(c.stalled, why)
		}
	case record.JobStarted:
		return c.full
	}
	return true
}

// Tick implements reconcile.Tenant.
func (c *Controller) Tick() {
	c.fleet.stale = true
	c.freeStuck()
}

// Observe implements reconcile.Tenant: it looks which workers there are.
func (c *Controller) Observe() (found bool) {
	of := c.fleet.of
	if c.fleet.refresh() {
		c.fleetChanged()
	}
	if c.fleet.of != of {
		c.loop.Reconsider()
	}
	return false
}

// fleetChanged has it decided anew, for there may be room where there was none.
func (c *Controller) fleetChanged() {
	c.loop.SlotsChanged()
	c.loop.Enqueue(record.Entity)
}

// Probe implements reconcile.Tenant: it asks the engines of workers that are due.
func (c *Controller) Probe() (next time.Time, seen bool) {
	for _, w := range c.fleet.due() {
		c.loop.Go(func(ctx context.Context) func() {
			platforms, err := c.Workers.Look(ctx, w.Name)
			return func() {
				if ctx.Err() == nil && c.fleet.looked(w, platforms, err) {
					c.fleetChanged()
				}
			}
		})
	}
	return c.fleet.next, c.fleet.seen()
}

// Decide implements reconcile.Tenant. What others began is taken up before anything begins,
// for it has slots of workers.
func (c *Controller) Decide(_ string, s *build.State, d *reconcile.Decision[job]) {
	takeUp := c.left
	c.full, c.left = false, false
	for step := range s.Decide(d.Now, can{c, d, takeUp}) {
		switch step.Kind {
		case build.Dispatch:
			d.Add(step.Events, d.Begin(c.build(step.Task)))
		case build.Resume:
			w := d.Begin(c.resume(step.Task))
			if step.Task.Canceling {
				c.running[w.Key].cancel(d.Now)
			}
			d.Add(step.Events, w)
		default:
			d.Add(step.Events)
		}
		if c.full = d.Full(); c.full {
			c.left = takeUp
			break
		}
	}
	if takeUp && (c.full || !c.left) {
		c.loop.Enqueue(record.Entity)
	}
	d.WakeAt(c.fleet.patience())
	d.WakeAt(s.Wake())
}

// can is what there is room for in a decision.
type can struct {
	c      *Controller
	d      *reconcile.Decision[job]
	takeUp bool // nothing begins
}

// Worker implements build.Can.
func (n can) Worker(p record.Place) string {
	if n.takeUp || n.d.Free() <= 0 || n.d.Now.Before(n.c.fleet.patience()) {
		return ""
	}
	return n.c.fleet.choose(p, n.d.Load)
}

// Resume implements build.Can. What was begun on a host has its slot already.
func (n can) Resume(t build.Task) bool {
	if n.c.fleet.foreign(t.Place) {
		return false
	}
	t.Worker = ""
	at := slot(t)
	if n.c.loop.Busy(at.Key) {
		return false
	}
	can := n.d.Can(at)
	n.c.left = n.c.left || !can
	return can
}

// slot is where a task is done.
func slot(t build.Task) reconcile.Slot[job] {
	return reconcile.Slot[job]{Key: job{t.Group, t.Job}, Host: t.Worker, Attempt: t.Attempt}
}

// Idle implements reconcile.Tenant: nothing can be done, not even when a worker that does
// not answer does so soon.
func (c *Controller) Idle(s *build.State) bool { return s.Idle(c.fleet.hoped) }

// JobName is what people call a job, for an observer that is notified of something.
func (c *Controller) JobName(group string, number int) string {
	s := c.builds.States[record.Entity]
	if s == nil {
		return ""
	}
	j, err := s.Job(group, number)
	switch {
	case err != nil:
		return ""
	case j.Of > 1:
		return fmt.Sprintf("%s#%d", j.Package, j.Pass)
	}
	return j.Package
}

// notice notifies of something when no lock is held.
func (c *Controller) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.loop.Notify(func() { c.Observer.Notice(text) })
}
