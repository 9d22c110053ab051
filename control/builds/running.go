package builds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
)

// canceledGrace is how long a job may take to stop whose group is canceled. Then its slot is
// given to others, and its end recorded when it comes.
const canceledGrace = time.Minute

// drainGrace is how long a process that is to end waits for a job to stop whose group is
// canceled. Where its engine does not answer by then, the next process goes on with that.
const drainGrace = 20 * time.Second

// running is a job that this controller has begun or taken up.
type running struct {
	work     *reconcile.Work[job]
	stop     context.CancelCauseFunc
	canceled time.Time // when its group was seen to be; zero is not
}

// cancel has it stopped.
func (r *running) cancel(now time.Time) {
	if r.canceled.IsZero() {
		r.canceled = now
		r.stop(ErrCanceled)
	}
}

// cancel has all jobs of a group stopped that are being done here.
func (c *Controller) cancel(group string) {
	for key, r := range c.running {
		if key.group == group {
			r.cancel(c.Now())
		}
	}
}

// freeStuck gives back the slots of jobs that were stopped some time ago and do not end,
// because their engines do not answer.
func (c *Controller) freeStuck() {
	for _, r := range c.running {
		if !r.canceled.IsZero() && c.Now().Sub(r.canceled) > canceledGrace {
			c.loop.Free(r.work)
		}
	}
}

// build is the work of a job that begins.
func (c *Controller) build(t build.Task) *reconcile.Work[job] {
	return c.work(t, c.Builder.Build, func(r build.Result) {
		if c.fleet.ended(t.Worker, r) {
			c.fleetChanged()
		}
	})
}

// resume is the work of a job that others began. Where it is lost that is because these died.
func (c *Controller) resume(t build.Task) *reconcile.Work[job] {
	return c.work(t, c.resumed, func(build.Result) {})
}

// resumed is how a job ended that others began.
func (c *Controller) resumed(ctx context.Context, t build.Task) build.Result {
	r := c.Builder.Resume(ctx, t)
	if r.Lost != nil && len(r.Lost.Spoiled) == 0 && !r.Lost.Mistaken {
		lost := *r.Lost
		lost.Abandoned = true
		r.Lost = &lost
	}
	return r
}

// work is that of a job. How it ends is recorded whatever became of its group meanwhile.
func (c *Controller) work(t build.Task, do func(context.Context, build.Task) build.Result, note func(build.Result)) *reconcile.Work[job] {
	var ended build.Result
	over, stop := context.WithCancelCause(context.Background())
	r := &running{stop: stop}
	at := slot(t)
	r.work = &reconcile.Work[job]{
		Slot: at, What: string(record.Job(t.Group, t.Job)),
		Do: func(ctx context.Context) error {
			life, end := context.WithCancelCause(ctx)
			defer end(nil)
			bounded, cancel := context.WithCancelCause(WithLife(life))
			defer cancel(nil)
			if over.Err() != nil {
				cancel(context.Cause(over))
			}
			defer context.AfterFunc(over, func() {
				cancel(context.Cause(over))
				c.endUnstopped(life, end)
			})()
			ended = do(bounded, t)
			if life.Err() != nil && ended == (build.Result{}) {
				return context.Cause(life) // before a canceled job has stopped: the next one waits for that
			}
			if cause := context.Cause(bounded); cause != nil && !errors.Is(cause, ErrCanceled) && ended.Finished == nil {
				return cause // what else it says may be because of that
			}
			return nil
		},
		Result: func(err error, _ int) (events []deploylog.Event, again bool) {
			delete(c.running, at.Key)
			stop(nil)
			if err != nil { // it panicked
				ended = build.Result{Failed: &record.Failed{Cause: deploylog.Cause(err.Error()), Worker: t.Worker}}
			}
			ended = sound(ended, t, !r.canceled.IsZero())
			note(ended)
			return c.builds.States[record.Entity].Ended(t, ended, c.Now()), false
		},
	}
	c.running[at.Key] = r
	return r.work
}

// endUnstopped ends the life of a job that is being stopped and does not, some time after this
// process was told to end.
func (c *Controller) endUnstopped(life context.Context, end context.CancelCauseFunc) {
	select {
	case <-life.Done():
		return
	case <-c.Drain:
	}
	select {
	case <-life.Done():
	case <-time.After(drainGrace):
		end(fmt.Errorf("%w: the job was canceled, and has not stopped yet", runner.ErrInterrupted))
	}
}

// lifeKey is of the context of the process in that of a job.
type lifeKey struct{}

// WithLife returns a context for a job that a process has done until life ends.
func WithLife(life context.Context) context.Context {
	return context.WithValue(life, lifeKey{}, life)
}

// Life returns, of the context of a job, that of the process which has it done: it goes on when
// the group of the job is canceled, and ends when the process is to end at once. A Builder needs
// it that waits until a job that was canceled has really stopped.
func Life(ctx context.Context) context.Context {
	if life, is := ctx.Value(lifeKey{}).(context.Context); is {
		return life
	}
	return context.WithoutCancel(ctx)
}

// mostRecorded is how large the data of the end of a job may be, in bytes: what the log takes
// in one event, and some room.
const mostRecorded = deploylog.MaxData / 2

// sound is how a job ended, if that can be: the log must never refuse the end of a job,
// for it would be waited for.
func sound(r build.Result, t build.Task, canceled bool) build.Result {
	failed := func(format string, args ...any) build.Result {
		return build.Result{Failed: &record.Failed{Cause: fmt.Sprintf(format, args...), Worker: t.Worker}}
	}
	var data any
	switch {
	case r.Finished != nil:
		data = r.Finished
	case r.Failed != nil:
		data = r.Failed
	case r.Lost != nil:
		data = r.Lost
	case r.Canceled != nil && !canceled:
		return build.Result{Lost: &record.Lost{Cause: "it was stopped, and nobody had canceled it", Worker: t.Worker}}
	case r.Canceled != nil:
		data = r.Canceled
	default:
		return failed("it ended, and nothing says how; this is a fault of the program")
	}
	switch text, err := json.Marshal(data); {
	case err != nil:
		return failed("how it ended cannot be recorded: %v", err)
	case len(text) > mostRecorded:
		return failed("how it ended cannot be recorded: that is %d bytes of data, more than %d; metadata and output of a job must be smaller", len(text), mostRecorded)
	}
	return r
}
