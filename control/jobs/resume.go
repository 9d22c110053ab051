package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/engine"
)

// Resume goes on with a job that a process began which has died. The job ends as it would
// have ended there; it is lost where nothing tells how it went on.
func (j *Jobs) Resume(ctx context.Context, t build.Task) build.Result {
	defer j.forget(resultsKept)
	a := j.attempt(t)
	if known := noted(a.dir + resultSuffix).Result; known != nil && *known != (build.Result{}) {
		a.kept()
		a.discard()
		return *known
	}
	if _, err := os.Lstat(a.dir); err != nil && t.Reuse != nil && ctx.Err() == nil {
		return j.reuse(ctx, t)
	}
	a.exists = true
	return a.conclude(ctx, func() (*record.Finished, error) {
		e, err := a.end(ctx)
		if err != nil {
			return nil, err
		}
		return a.collect(ctx, e)
	})
}

// end finds out how the container ended, or waits for it.
func (a *attempt) end(ctx context.Context) (e end, err error) {
	known := noted(a.progress())
	if b := known.Begun; b != nil {
		a.began, a.image, a.engine = b.At, b.Image, b.Engine
	}
	longer, cancel := stopping(ctx)
	defer cancel()
	unready := errors.Join(a.load(), a.resolve(longer))
	ended := unready == nil && ctx.Err() == nil && known.Ended != nil
	if ended {
		e = *known.Ended
	}
	// What is built is not lost because its worker is gone by now. See exited.
	if err := a.reach(longer); err != nil && (!ended || e.Exit.Code > 128) {
		return end{}, err
	}
	if ended {
		return e, nil
	}
	left, err := a.worker.Engine.Containers(longer, a.labels())
	if err != nil {
		return end{}, err
	}
	var container *engine.Container
	for i, c := range left {
		if c.Started && container == nil && unready == nil && ctx.Err() == nil {
			container = &left[i]
			continue
		}
		if err := a.worker.Engine.Remove(longer, c.ID); err != nil {
			return end{}, err
		}
	}
	if err := errors.Join(interrupted(ctx), unready); err != nil {
		return end{}, err
	}
	if container == nil {
		return end{}, errors.New("the process that did it has died, and its container is gone")
	}
	return a.await(ctx, *container)
}

// stopTimeout is how long it may take to stop a container.
const stopTimeout = time.Minute

// stopping is a context for what is to be done also where the job is canceled.
func stopping(ctx context.Context) (context.Context, context.CancelFunc) {
	if !errors.Is(context.Cause(ctx), builds.ErrCanceled) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
}

// await waits for the end of a container that goes on, collects its log, and removes it.
func (a *attempt) await(ctx context.Context, c engine.Container) (end, error) {
	if a.began.IsZero() {
		a.began = c.Created
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.writes(running, stop)
	go a.watchDisk(running)
	late := fmt.Errorf("%w after %s", engine.ErrTimeout, a.recipe.Timeout)
	if a.recipe.Timeout > 0 && c.Running {
		timer := time.AfterFunc(a.began.Add(a.recipe.Timeout).Sub(a.Now()), func() { stop(late) })
		defer timer.Stop()
	}
	a.takeLog(ctx, c.ID)
	e := end{Began: a.began}
	exit, err := a.worker.Engine.Wait(running, c.ID)
	if err := interrupted(ctx); errors.Is(err, errLeft) {
		return end{}, err
	}
	switch {
	case running.Err() != nil && (err != nil || c.Running || ctx.Err() != nil):
		err = context.Cause(running)
	case err == nil && !c.Running && a.recipe.Timeout > 0 && exit.Ended.After(a.began.Add(a.recipe.Timeout)) && exit.Ended.Sub(c.Created) > a.recipe.Timeout:
		err = late // it ended while nobody was there to stop it in time, also by the clock of the engine
	}
	e.Exit, e.Ended = exit, exit.Ended
	if e.Exit.Ended = (time.Time{}); c.Running {
		e.Ended = a.Now()
	}
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	a.takeLog(longer, c.ID)
	if err == nil {
		err = a.noteEnd(e)
	} else {
		err = a.waitFailed(err, e.within(a.Now()).took())
	}
	if removed := a.worker.Engine.Remove(longer, c.ID); removed != nil {
		a.Logger.WarnContext(ctx, "a container is left behind", "container", c.ID, "error", removed)
	}
	return e, err
}

// waitFailed says whose fault it is that the end of a container was not awaited.
func (a *attempt) waitFailed(err error, took time.Duration) error {
	if errors.Is(err, engine.ErrTimeout) || errors.Is(err, errDisk) || errors.Is(err, errCrowded) {
		return a.explain(err, took)
	}
	return fmt.Errorf("waiting for its container: %w", err)
}

// takeLog makes the log of what the engine kept of the output. Of a container that wrote more
// than is kept, it begins with what is left of the beginning.
func (a *attempt) takeLog(ctx context.Context, id string) {
	keeper, keeps := a.worker.Engine.(engine.Keeper)
	if !keeps {
		return
	}
	taken := a.logPath() + ".new"
	log, err := createLog(taken)
	if err != nil {
		a.Logger.WarnContext(ctx, "the log of a job is not whole", "log", a.log, "error", err)
		return
	}
	out, flush := a.secret.hidden.Masked(log)
	err = errors.Join(keeper.Logs(ctx, id, engine.IO{Stdout: out, Stderr: out}), flush())
	size := log.size
	err = errors.Join(err, log.close())
	if _, had := a.hasLog(); err == nil && (size >= had || size > maxLog) {
		err = os.Rename(taken, a.logPath())
	}
	_ = os.Remove(taken)
	if err != nil {
		a.Logger.WarnContext(ctx, "the log of a job is not whole", "log", a.log, "error", err)
	}
}
