package promotions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// verifying is what verifies a stage at the moment.
type verifying struct {
	step promotion.Step
	end  context.CancelCauseFunc
}

// verify is the work of verifying what a stage runs.
func (c *Controller) verify(name string, at reconcile.Slot[workKey], step promotion.Step, stage definition.Stage) *reconcile.Work[workKey] {
	wanted, end := context.WithCancelCause(context.Background())
	within := stage.VerifiedWithin()
	c.verifying[step.Target] = verifying{step, end}
	return &reconcile.Work[workKey]{
		Slot: at, What: "verifying " + string(step.Target),
		Do: func(ctx context.Context) error {
			defer end(nil)
			return bounded(ctx, wanted, within, func(ctx context.Context) error { return c.verifyNow(ctx, name, step, stage) })
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			if v := c.verifying[step.Target]; v.step.Key() == step.Key() {
				delete(c.verifying, step.Target)
			}
			return c.promotions.States[name].Verified(step, err), false
		},
	}
}

// bounded calls do, which ends when it takes too long, and when wanted does with the cause that
// nobody wants it any more.
func bounded(ctx, wanted context.Context, within time.Duration, do func(context.Context) error) error {
	ctx, stop := unwatched.WithTimeout(ctx, within)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(wanted, func() { cancel(context.Cause(wanted)) })()
	err := do(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, promotion.ErrUnwanted): // it is not wrapped: nobody interrupted it
		return fmt.Errorf("%w: %s", promotion.ErrUnwanted, err.Error())
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("not done within %s, so it was ended: %s", definition.Duration(within), err.Error())
	}
	return err
}

// verifyNow applies what verifies a stage, with the variables of the tasks that run there.
func (c *Controller) verifyNow(ctx context.Context, name string, step promotion.Step, stage definition.Stage) error {
	if stage.Sighted() {
		return c.verifyHosts(ctx, name, step, stage)
	}
	v, err := c.verification(ctx, name, step, stage)
	if err != nil {
		return err
	}
	return c.Verify(ctx, v)
}

// verification is what a try applies. It is none where something was recorded since it was
// decided by which it is of no use, in whichever process: nothing else is recorded while that is
// looked at.
func (c *Controller) verification(ctx context.Context, name string, step promotion.Step, stage definition.Stage) (v environment.Verification, err error) {
	v = environment.Verification{Environment: step.Environment, Manifest: stage.Verify, Files: stage.VerifyFiles, Hosts: []string{}}
	err = c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(name)
		if err != nil {
			return err
		}
		if !p.Verifies(step) {
			return promotion.ErrUnwanted
		}
		if err := c.commands.Follow(ctx, 0); err != nil {
			return err
		}
		return c.commands.Ask(step.Environment, func(s *environment.State) error {
			active, ok := s.ActiveDeployment()
			if !ok || active.ID != step.Deployment {
				return promotion.ErrUnwanted
			}
			r, err := s.Revision(active.Revision)
			if err != nil {
				return err
			}
			v.Deployment, v.Revision, v.Vars = active.ID, active.Revision, r.Definition.Task.Vars
			for _, h := range s.Report().Hosts {
				if slices.ContainsFunc(h.Tasks, func(t report.TaskRow) bool { return t.Revision == active.Revision && t.Status == report.TaskHealthy }) {
					v.Hosts = append(v.Hosts, h.Host)
				}
			}
			return nil
		})
	})
	return v, err
}

// verifyHosts is verifyNow of a stage that is no environment.
func (c *Controller) verifyHosts(ctx context.Context, name string, step promotion.Step, stage definition.Stage) error {
	if c.Engines == nil {
		return errors.New("no engine can be reached from here")
	}
	of := targets.Stage{Pipeline: name, Name: step.Stage, Place: step.Environment, Targets: definition.Targets{Manifest: stage.Verify, Files: stage.VerifyFiles}}
	q, hosts := targets.Question{}, []string{}
	err := c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(name)
		if err != nil {
			return err
		}
		on, value, ok := p.MayVerify(step)
		if !ok {
			return promotion.ErrUnwanted
		}
		of.Variable = p.Definition().Promotion.Variable
		q, hosts = of.On("", promotion.Candidate{Revision: step.Revision, Value: value}), on
		return nil
	})
	if err != nil {
		return err
	}
	return c.Engines.VerifyTarget(ctx, q, hosts)
}

// dropVerifying ends what verifies stages of a pipeline and is of no use any more.
func (c *Controller) dropVerifying(s *promotion.State) {
	for _, stage := range s.Stages() {
		if v, is := c.verifying[stage]; is && !s.Verifies(v.step) {
			delete(c.verifying, stage)
			v.end(promotion.ErrUnwanted)
		}
	}
}
