package pipelines

import (
	"context"
	"errors"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// stepKey knows a step whatever its attempt is: work that was begun before a
// retry is not begun again beside it.
type stepKey struct {
	deployment string
	target     deploylog.Target
	event      string
}

// slotOf is where a step is done. One that only waits for an environment takes no
// slot.
func slotOf(s pipeline.Step) reconcile.Slot[stepKey] {
	return reconcile.Slot[stepKey]{
		Key: stepKey{s.Deployment, s.Target, s.Event}, Host: s.Host, Unslotted: s.Environment != "", Attempt: s.Attempt,
	}
}

// work is that of a step.
func (s *Scheduler) work(at reconcile.Slot[stepKey], step pipeline.Step, state *pipeline.State) *reconcile.Work[stepKey] {
	artifacts := state.Artifacts(step.Deployment)
	var completed []deploylog.Event
	return &reconcile.Work[stepKey]{
		Slot: at, What: string(step.Target),
		Do: func(ctx context.Context) error {
			made, err := s.Worker.Work(ctx, step, artifacts)
			if err == nil {
				completed, err = step.Completed(made)
			}
			return err
		},
		Result: func(err error, failures int) (events []deploylog.Event, again bool) {
			switch {
			case err == nil:
				return completed, false
			case failures > step.Retries || !s.active(at.Key, step.Attempt) || errors.Is(err, deploylog.ErrPoisoned):
				return []deploylog.Event{step.Failed(err.Error())}, false
			}
			if !s.Drain.Started() {
				s.loop.Notify(func() { s.Observer.Again(step, err, reconcile.Pause(failures)) })
			}
			return nil, true
		},
	}
}

// active reports whether the attempt of a step's deployment is under way, as far
// as is known.
func (s *Scheduler) active(key stepKey, attempt int) bool {
	name, _ := PipelineOf(key.target)
	state := s.pipelines.States[name]
	return state != nil && state.Active(key.deployment, attempt)
}
