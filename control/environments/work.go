package environments

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
)

// work is that of a step.
func (c *Controller) work(at reconcile.Slot[place], step environment.Step, t environment.Task) *reconcile.Work[place] {
	var seen environment.ProbeResult
	return &reconcile.Work[place]{
		Slot: at, What: fmt.Sprintf("%s at %s", t.Environment, step.Host),
		Do: func(ctx context.Context) (err error) {
			switch step.Kind {
			case environment.Terminate:
				return c.Tasks.Terminate(ctx, t)
			case environment.Confirm:
				seen = c.observe(ctx, t)
			default:
				seen, err = c.startTask(ctx, step, t)
			}
			if err == nil && seen.Health != environment.Healthy && ctx.Err() != nil {
				err = context.Cause(ctx) // what was observed may be because of that
			}
			return err
		},
		// The state may be behind commands, never behind what happens to tasks, which is only
		// recorded here. So how a step ended is judged as if it had ended just before those
		// commands: the event is of the deployment and attempt of the step, and folding a
		// command changes no task, so both orders lead to one state. Who decides what to do
		// about it has read everything.
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			c.probes.resume(step.Host)
			return c.environments.States[t.Environment].Completed(step, seen, err), false
		},
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
