package environments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// verifying is what verifies a step of an environment at the moment.
type verifying struct {
	step tasks.Step
	end  context.CancelCauseFunc
}

// verify is the work of verifying a step. There is never more than one of an environment:
// its place is that of no host.
func (c *Controller) verify(at reconcile.Slot[place], step tasks.Step, v environment.Verification) *reconcile.Work[place] {
	wanted, end := context.WithCancelCause(context.Background())
	c.verifying[v.Environment] = verifying{step, end}
	delete(c.line, v.Environment)
	return &reconcile.Work[place]{
		Slot: at, What: fmt.Sprintf("verifying step %d of %s", v.Step, v.Environment),
		Do: func(ctx context.Context) error {
			defer end(nil)
			ctx, stop := unwatched.WithTimeout(ctx, step.Timeout)
			defer stop()
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(wanted, func() { cancel(context.Cause(wanted)) })()
			err := c.Tasks.Verify(ctx, v)
			switch cause := context.Cause(ctx); {
			case err == nil:
				return nil
			case errors.Is(cause, environment.ErrUnwanted):
				return fmt.Errorf("%w: %s", environment.ErrUnwanted, err.Error()) // nobody interrupted it
			case errors.Is(cause, context.DeadlineExceeded):
				return fmt.Errorf("not done within %s, so it was ended: %s", definition.Duration(step.Timeout), err.Error())
			}
			return err
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			for name := range c.line {
				c.loop.Enqueue(name)
			}
			return c.environments.States[v.Environment].Completed(step, tasks.ProbeResult{}, err), false
		},
	}
}

// turn is since when an environment waits for others to verify their steps, and when it last
// did.
type turn struct{ since, asked time.Time }

// turnLasts is how long who does not ask any more still has its turn: it asks each second.
const turnLasts = 3 * time.Second

// mayVerify reports whether what verifies a step of an environment may begin. It takes no slot
// of the work on hosts: it may wait for long, and what dies elsewhere is not to wait for that.
// But it runs containers, so there are no more at once than there are slots, those among them
// that nobody waits for any more. Who has waited for longest is first.
func (c *Controller) mayVerify(name string, at reconcile.Slot[place], d *reconcile.Decision[place]) bool {
	if c.loop.Busy(at.Key) {
		return false // it is being verified
	}
	mine, waits := c.line[name]
	if !waits {
		mine.since = d.Now
	}
	mine.asked = d.Now
	c.line[name] = mine
	taken := c.loop.CountBusy(func(p place) bool { return p.host == "" })
	for other, o := range c.line {
		if age := d.Now.Sub(o.asked); age < 0 || age > turnLasts {
			delete(c.line, other)
		} else if o.since.Before(mine.since) || o.since.Equal(mine.since) && other < name {
			taken++
		}
	}
	if taken >= c.Parallelism {
		d.WakeAt(d.Now.Add(time.Second))
		return false
	}
	return d.Can(at)
}

// dropVerifying ends what verifies a step that nobody waits for any more: another deployment
// may have begun, or a host of the step may have fallen ill.
func (c *Controller) dropVerifying(name string) {
	if v, is := c.verifying[name]; is && !c.environments.States[name].Verifies(v.step) {
		delete(c.verifying, name)
		v.end(environment.ErrUnwanted)
	}
}
