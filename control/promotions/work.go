package promotions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// promote adds the work of a step, if it may begin now. What is proposed takes no slot of the
// loop: its server may take long, and has slots of its own.
func (c *Controller) promote(name string, step promotion.Step, of *definition.Definition, d *reconcile.Decision[workKey]) {
	proposes := of.Stages[of.Index(step.Stage)].Strategy == definition.WithPullRequest
	slot := reconcile.Slot[workKey]{Key: workKey{step.ID}, Attempt: step.Attempt, Unslotted: proposes}
	if applies(&of.Stages[of.Index(step.Stage)]) { // one of a stage at a time, also while one that nobody wants ends
		slot.Key = workKey{"apply " + string(step.Target)}
	}
	if !d.Can(slot) { // somebody is at work on it, or it rests
		return
	}
	resumed := len(step.Events) == 0
	if next := c.looks[slot.Key].next; resumed && proposes && next.After(d.Now) && next.Sub(d.Now) <= mostRest {
		d.WakeAt(next) // its server wants to be left alone until then
		return
	}
	d.Add(step.Events, d.Begin(c.work(name, slot, step, of)))
}

// work is to bring a revision to an environment. How that goes on is observed.
func (c *Controller) work(name string, at reconcile.Slot[workKey], step promotion.Step, d *definition.Definition) *reconcile.Work[workKey] {
	stage, variable := d.Stages[d.Index(step.Stage)], d.Promotion.Variable
	var begun promotion.Begun
	if applies(&stage) {
		return c.applying(name, at, step, stage, variable)
	}
	return &reconcile.Work[workKey]{
		Slot: at, What: string(step.Target), Patient: stage.Strategy == definition.WithWebhook,
		Do: func(ctx context.Context) (err error) {
			switch stage.Strategy {
			case definition.WithWebhook:
				begun, err = c.ask(ctx, name, step, variable, &stage)
			case definition.WithPullRequest:
				begun, err = c.propose(ctx, name, step, variable, stage.PullRequest)
			default:
				begun, err = c.deploy(ctx, name, step, variable)
			}
			return err
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			var limited *limit.Error
			switch {
			case stage.PullRequest == nil:
			case errors.As(err, &limited): // that is no failure: the try goes on when it may
				c.looks[at.Key] = lookedAt{next: limited.Until}
				c.Observer.Notice(fmt.Sprintf("try %d of promoting revision %s to %s waits: %v", step.Attempt, step.Revision, step.Target, err))
				return nil, false
			default:
				c.looks[at.Key] = lookedAt{next: c.Now().Add(time.Duration(stage.PullRequest.CheckEvery))}
			}
			return c.promotions.States[name].Completed(step, begun, err), false
		},
	}
}
