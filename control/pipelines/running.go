package pipelines

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// The grace periods after which work that has not ended gives its slots back: since its
// deployment ended, and since its timeout stopped it.
const (
	endedGrace   = time.Minute
	timeoutGrace = 10 * time.Second
)

// running is the work of a step that this scheduler has begun.
type running struct {
	work    *reconcile.Work[stepKey]
	freed   bool
	stopped atomic.Pointer[time.Time] // when its timeout did that; nil is not
	ended   time.Time                 // when its deployment was first seen to have ended
	waits   bool                      // it applies nothing, but waits for an environment or a build group
	giveUp  func()                    // has it end if it waits, or has not applied anything yet
	givenUp bool
}

// ErrGivenUp is why work ends whose deployment has ended, where nothing of it is being done.
var ErrGivenUp = errors.New("its deployment has ended meanwhile")

// giveUp ends the work of deployments that have ended where nothing of it is being done: the
// waits for environments and build groups, as long as which last nobody else enters the stage,
// not even a rollback of what the environment does not get done; and what an engine, which may
// not have answered for long, has not begun.
func (s *Scheduler) giveUp(name string) {
	for key, r := range s.running {
		if at, _ := record.NameOf(key.target); at == name && !r.givenUp && !s.inProgress(key) {
			r.givenUp = true
			r.giveUp()
		}
	}
}

// within does something, which is stopped by a timeout.
func (r *running) within(ctx context.Context, timeout time.Duration, do func(context.Context) (map[string]string, error)) (map[string]string, error) {
	if timeout <= 0 {
		return do(ctx)
	}
	bounded, cancel := unwatched.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(bounded, func() {
		now := time.Now()
		r.stopped.Store(&now)
	})()
	made, err := do(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = timeoutError{timeout, err}
	}
	return made, err
}

// timeoutError is why work failed that took too long. The cause is not wrapped: nobody
// interrupted it.
type timeoutError struct {
	timeout time.Duration
	cause   error
}

func (e timeoutError) Error() string {
	return fmt.Sprintf("it took longer than its timeout of %s, and was stopped: %s", definition.Duration(e.timeout), e.cause)
}

// LeftRun is the run that may still be at work.
func (e timeoutError) LeftRun() string { return leftRun(e.cause) }

// inProgress reports whether the deployment of work is, as far as is known.
func (s *Scheduler) inProgress(key stepKey) bool {
	name, _ := record.NameOf(key.target)
	state := s.pipelines.States[name]
	return state != nil && state.InProgress(key.deployment)
}

// freeStuck gives the slots of work back that does not end: of a deployment that did some
// time ago, or that was stopped and whose engine does not answer. Its end is recorded
// when it comes.
func (s *Scheduler) freeStuck() {
	now := time.Now()
	for key, r := range s.running {
		switch stopped := r.stopped.Load(); {
		case stopped != nil && now.Sub(*stopped) > timeoutGrace:
			r.freed = true
			s.loop.Free(r.work)
		case s.inProgress(key):
			r.ended = time.Time{}
		case r.ended.IsZero():
			r.ended = now
		case now.Sub(r.ended) > endedGrace:
			r.freed = true
			s.loop.Free(r.work)
		}
	}
}

// work is that of a step.
func (s *Scheduler) work(at reconcile.Slot[stepKey], step step.Step, state *pipeline.State) *reconcile.Work[stepKey] {
	artifacts := state.Artifacts(step.Deployment)
	var completed []deploylog.Event
	over, giveUp := context.WithCancel(context.Background())
	r := &running{waits: step.Environment != "" || step.Packages != "", giveUp: giveUp}
	wanted := func() error {
		if over.Err() != nil {
			return ErrGivenUp
		}
		return nil
	}
	r.work = &reconcile.Work[stepKey]{
		Slot: at, What: string(step.Target),
		Do: func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			if r.waits {
				defer context.AfterFunc(over, func() { cancel(ErrGivenUp) })()
			}
			made, err := r.within(ctx, step.Timeout, func(ctx context.Context) (map[string]string, error) {
				return s.Worker.Work(ctx, step, artifacts, wanted)
			})
			if err == nil {
				completed, err = step.Completed(made)
			}
			return err
		},
		Result: func(err error, _ int) (events []deploylog.Event, again bool) { // failures are counted from the log
			delete(s.running, at.Key)
			giveUp()
			s.ceases(at.Key)
			failures := step.Tries.Failed + 1
			switch {
			case err == nil:
				return completed, false
			case r.givenUp && (r.waits || errors.Is(err, ErrGivenUp) && leftRun(err) == ""):
				return []deploylog.Event{step.Settled(s.NewID(), s.By)}, false
			case failures > step.Retries || !s.active(at.Key, step.Attempt) || errors.Is(err, deploylog.ErrPoisoned):
				events = append(events, step.Failed(err.Error(), s.By))
				if run := leftRun(err); run != "" {
					events = append(events, step.Lost(s.NewID(), s.By, run, err.Error()))
				}
				return events, false
			}
			if !s.Drain.Started() {
				s.loop.Notify(func() { s.Observer.Again(step, err, deployment.Pause(failures)) })
			}
			return []deploylog.Event{step.TryFailed(s.NewID(), s.By, leftRun(err), err.Error())}, false
		},
	}
	s.running[at.Key] = r
	return r.work
}
