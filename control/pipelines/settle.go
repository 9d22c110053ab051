package pipelines

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner"
)

func keyOf(w step.Work) stepKey { return stepKey{w.Deployment, w.Target, w.Event} }

// underway reports whether work has begun and not ended, as far as is known.
func (s *Scheduler) underway(key stepKey) bool {
	name, _ := record.NameOf(key.target)
	state := s.pipelines.States[name]
	return state != nil && state.Underway(key.deployment, key.target, key.event)
}

// leftRun is the run that may still be at work, though what had it done has failed; "" is
// none.
func leftRun(err error) string {
	var left interface{ LeftRun() string }
	if errors.As(err, &left) {
		return left.LeftRun()
	}
	return ""
}

// settle finds out what became of work that nobody does any more, and records its end. As
// long as that cannot be found out it is tried again after a pause, and only a new error
// is recorded. A drain does not wait for it.
func (s *Scheduler) settle(at reconcile.Slot[stepKey], w step.Work) *reconcile.Work[stepKey] {
	return &reconcile.Work[stepKey]{
		Slot: at, What: string(w.Target),
		Do: func(ctx context.Context) error {
			waiting, cancel := s.Drain.Context(ctx)
			defer cancel()
			err := s.Worker.Settle(waiting, w)
			if err != nil && waiting.Err() != nil {
				err = fmt.Errorf("%w: %w", runner.ErrInterrupted, err)
			}
			return err
		},
		Result: func(err error, _ int) (events []deploylog.Event, again bool) {
			switch run := leftRun(err); {
			case err == nil:
				return []deploylog.Event{w.Settled(s.NewID(), s.By)}, false
			case w.Cause != err.Error() || w.Run != run:
				s.loop.Notify(func() {
					s.Observer.Notice(fmt.Sprintf("it is not known whether %s of %s, for revision %s, is still being done: %v", w.Event, w.Target, w.Revision, err))
				})
				return []deploylog.Event{w.Lost(s.NewID(), s.By, run, err.Error())}, true
			}
			return nil, true
		},
	}
}
