package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/duration"
)

// failedError is the fault of a job. All other errors are those of what does it.
type failedError struct {
	cause       string
	exit        int
	unbuildable bool // it could not even begin, whichever worker had it
	took        time.Duration
	unpushed    *record.Finished // what it has built, where the fault is that this could not be pushed
}

func (e *failedError) Error() string { return e.cause }

// unbuildable is the fault of what the group carries.
func unbuildable(format string, args ...any) error {
	return &failedError{cause: fmt.Sprintf(format, args...), unbuildable: true}
}

// spoiledError is that artifacts which a job uses are not there as they were made.
type spoiledError struct {
	cause   string
	digests []string
}

func (e *spoiledError) Error() string { return e.cause }

// errLeft is why a job has no result: this process is about to end.
var errLeft = errors.New("left to the next process")

// interrupted is why a context has ended; nil if it has not.
func interrupted(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), builds.ErrCanceled):
		return builds.ErrCanceled
	default:
		return errLeft
	}
}

// conclude has a job done, keeps what came of it until that is recorded, and removes all
// else. A result is nothing where the job is left as it is.
func (a *attempt) conclude(ctx context.Context, do func() (*record.Finished, error)) build.Result {
	beside := false
	defer func() {
		if !beside {
			a.wrote()
		}
	}()
	finished, err := do()
	if stopped := interrupted(ctx); stopped != nil && err != nil {
		err = stopped
	}
	err = a.unwritten(err)
	if errors.Is(err, builds.ErrCanceled) {
		err = a.awaitStop(ctx)
	}
	if errors.Is(err, errLeft) {
		return build.Result{}
	}
	r := a.result(finished, err)
	if r.Canceled == nil && a.keep(r) != nil {
		if r.Finished != nil {
			return r // who resumes it collects again; what is left is removed when it is recorded
		}
		defer func() { _ = a.keep(r) }() // there may be room then
	}
	if beside = r.Finished != nil; beside {
		a.discardBeside()
		return r
	}
	a.discard()
	return r
}

// result is what is recorded of the end of a job.
func (a *attempt) result(finished *record.Finished, err error) build.Result {
	log, size := a.hasLog()
	var failed *failedError
	var spoiled *spoiledError
	switch {
	case err == nil:
		finished.Log, finished.LogBytes = log, size
		return build.Result{Finished: finished}
	case errors.Is(err, builds.ErrCanceled):
		return build.Result{Canceled: &record.Canceled{Worker: a.task.Worker, Log: log}}
	case errors.As(err, &failed):
		if failed.unpushed != nil {
			failed.unpushed.Log, failed.unpushed.LogBytes = log, size
		}
		return build.Result{Failed: &record.Failed{
			Cause: a.secret.mask(failed.cause), Exit: failed.exit, Unbuildable: failed.unbuildable, Worker: a.task.Worker, Took: failed.took,
			Output: lastLines(a.logPath()), Log: log, LogBytes: size, Unpushed: failed.unpushed,
		}}
	case errors.As(err, &spoiled):
		return build.Result{Lost: &record.Lost{Cause: spoiled.cause, Worker: a.task.Worker, Spoiled: spoiled.digests}}
	default:
		a.Unanswered(a.task.Worker) // where the container may be left
		return build.Result{Lost: &record.Lost{Cause: a.secret.mask(err.Error()), Worker: a.task.Worker, Crowded: errors.Is(err, errCrowded) || a.isCrowded()}}
	}
}

// explain says whose fault it is that a container could not be run to its end.
func (a *attempt) explain(err error, took time.Duration) error {
	switch {
	case errors.Is(err, engine.ErrTimeout):
		return &failedError{cause: "timed out after " + duration.Duration(a.recipe.Timeout).String(), took: took}
	case errors.Is(err, errDisk):
		return &failedError{cause: err.Error(), took: took}
	case errors.Is(err, errCrowded), errors.Is(err, engine.ErrUnavailable), errors.Is(err, engine.ErrNoImage), momentary(err), !impossible(err):
		return err
	default:
		// The engine was given the image by its id.
		return &failedError{cause: strings.ReplaceAll(err.Error(), a.image.ID, a.image.Ref), unbuildable: true}
	}
}

// impossible reports whether an engine says that no container can be made of what the job
// runs. All else may be trouble of the engine or its machine: the job is lost then, and fails
// only when that has happened too often.
func impossible(err error) bool { return errors.As(err, new(*engine.SpecError)) }

// momentary reports whether an error is that of a machine which lacks something at the moment.
func momentary(err error) bool {
	return engine.Exhausted(err) || strings.Contains(err.Error(), "signal: killed")
}

// exited is the fault of a job whose container ended with another code than 0. A container
// that was killed may be one whose engine was stopped.
func (a *attempt) exited(ctx context.Context, exit engine.Exit, took time.Duration) error {
	if exit.Code > 128 && !exit.OOMKilled {
		asking, cancel := context.WithTimeout(ctx, answering)
		defer cancel()
		if _, err := a.worker.Engine.Info(asking); err != nil {
			return fmt.Errorf("its container %s, and %w", exit, err)
		}
	}
	cause := exit.String()
	if exit.OOMKilled {
		cause += "; give it more with `memory`, or let it use less"
	}
	switch by, says := a.attributeFull(false); {
	case by == anotherJob:
		return fmt.Errorf("its container %s, while another job had filled the disk: make room, `deployster gc` removes what nobody needs any more", exit)
	case says != "":
		cause += "; " + says
	case a.unlogged:
		cause += "; while it ran the disk was full: make room, `deployster gc` removes what nobody needs any more"
	}
	return &failedError{cause: cause, exit: exit.Code, took: took}
}

// answering is how long an engine may take to say that it is there.
const answering = 10 * time.Second
