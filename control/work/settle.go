package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner/invoke"
)

// LeftError is a failure after which a run may still be at work.
type LeftError struct {
	Run   string
	Cause error
}

func (e *LeftError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Cause }

// LeftRun is the run.
func (e *LeftError) LeftRun() string { return e.Run }

// Settle implements pipelines.Worker: it closes the runs of work that were left by a
// process that died, and waits for what they left running.
func (w *StepWorker) Settle(ctx context.Context, left step.Work) (err error) {
	defer w.guard(&err, "finding out what became of "+string(left.Target))
	if left.Manifest == "" {
		return nil // a former version began it, which left nothing that could be found by it
	}
	target := w.runTarget(left.Manifest, left.Host)
	unfinished, err := w.unfinished(ctx, target)
	if err != nil || len(unfinished) == 0 {
		return err
	}
	on, err := w.pool.Connection(ctx, left.Host)
	if err != nil { // the host may have left the inventory; the engine of the run is another matter
		on, err = w.pool.Connection(ctx, "")
	}
	if err == nil {
		err = w.closeRuns(ctx, on, target, left.Host, unfinished)
	}
	return w.leftBehind(ctx, target, err)
}

// closeRuns closes dead runs of a target, and waits for what they left running.
func (w *StepWorker) closeRuns(ctx context.Context, on *Connection, target deploylog.Target, host string, dead []runs.Unfinished) error {
	held, err := runs.Begin(ctx, runs.Options{
		Log: w.Log, Engine: on.Engine, Engines: on.Recovery, ID: newID(w.Now()), Place: host, Target: target,
		OrphanTimeout: orphanTimeout, Notice: w.Notice,
	})
	if err != nil {
		return err
	}
	defer held.End()
	for _, u := range dead {
		for _, a := range u.Acting {
			leave, failed := held.Enter(ctx, strings.TrimSuffix(a.Resource, invoke.Placed("", host)), w.Notice)
			if failed == nil {
				leave()
			}
			err = cmp.Or(err, failed)
		}
	}
	return err
}

// leftBehind is an error that names a dead run of a target that may still be at work;
// without one it is the error itself.
func (w *StepWorker) leftBehind(ctx context.Context, target deploylog.Target, err error) error {
	unfinished, failed := w.unfinished(context.WithoutCancel(ctx), target)
	if failed != nil {
		return errors.Join(err, failed)
	}
	for _, u := range unfinished {
		if len(u.Acting) > 0 && !u.Abandoned {
			return &LeftError{Run: u.Run, Cause: cmp.Or(err, fmt.Errorf("%s", u))}
		}
	}
	return err
}

// unfinished are the runs of a target that have no end, nor a process.
func (w *StepWorker) unfinished(ctx context.Context, target deploylog.Target) ([]runs.Unfinished, error) {
	all, err := runs.UnfinishedRuns(ctx, w.Log, target)
	return slices.DeleteFunc(all, func(u runs.Unfinished) bool { return u.Alive }), err
}

// runTarget is the target of the runs of a manifest at a place.
func (w *StepWorker) runTarget(name, place string) deploylog.Target {
	return deploylog.Target(invoke.Placed(string(runs.RunTarget(w.Workspace, []string{w.path(name)})), place))
}
