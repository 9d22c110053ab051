package environments

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner"
)

// ending is how the work of a step ended.
type ending struct {
	environment string
	step        environment.Step
	seen        environment.ProbeResult
	err         error
}

// work does the work of a step.
func (c *Controller) work(ctx context.Context, step environment.Step, t environment.Task) {
	e := ending{environment: t.Environment, step: step, err: errors.New("the work did not return")}
	defer func() {
		if p := recover(); p != nil {
			e.err = crash.New(p, fmt.Sprintf("working on %s at %s", t.Environment, step.Host))
		}
		c.endings <- e
	}()
	switch step.Kind {
	case environment.Terminate:
		e.err = c.Tasks.Terminate(ctx, t)
	case environment.Confirm:
		e.seen, e.err = c.observe(ctx, t), nil
	default:
		e.seen, e.err = c.startTask(ctx, step, t)
	}
}

// startTask gives a task no more time than it has to become healthy: what hangs would
// keep its host from whatever else is wanted there.
func (c *Controller) startTask(ctx context.Context, step environment.Step, t environment.Task) (environment.ProbeResult, error) {
	if step.Timeout <= 0 {
		return c.Tasks.Start(ctx, t)
	}
	bounded, cancel := context.WithTimeout(ctx, step.Timeout)
	defer cancel()
	seen, err := c.Tasks.Start(bounded, t)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		// The cause is not wrapped: nobody interrupted it.
		err = fmt.Errorf("not healthy within %s, so its start was ended: %s", environment.Duration(step.Timeout), err.Error())
	}
	return seen, err
}

// came takes note of work that has ended. What did not come to its end because the
// controller ends is not recorded: the next one does it again.
func (c *Controller) came(ctx context.Context, e ending) {
	c.crew.end(workplace{e.environment, e.step.Host})
	c.checks.resume(e.step.Host)
	over := e.err == nil && (e.step.Kind == environment.Terminate || e.seen.Health == environment.Healthy)
	if ctx.Err() != nil && !over || c.seat.Stopped() && errors.Is(e.err, runner.ErrInterrupted) {
		return
	}
	c.ended = append(c.ended, e)
}
