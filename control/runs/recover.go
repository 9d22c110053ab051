package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Recovery comes in two steps. When a run begins, it closes the dead runs of its
// target as far as they are over, and waits for nobody. What may still be at work, on a
// resource, is waited for when that resource is entered.

// closeOrphanedRuns looks for runs of this target that started, have not ended, and
// whose process is gone, and closes them as far as they are over.
func (r *Run) closeOrphanedRuns(ctx context.Context) error {
	open, err := r.o.Log.InProgress(ctx, r.o.Target)
	if err != nil {
		return fmt.Errorf("looking for unfinished runs: %w", err)
	}
	for _, started := range open {
		if err := r.closeOrphan(ctx, started.Deployment); err != nil {
			return err
		}
	}
	for _, e := range r.opened {
		if e.containers != r.o.Engine {
			if err := r.removeOrphans(ctx, e.containers); err != nil {
				return err
			}
		}
	}
	// Whoever left a run open may have left more.
	if !r.o.Sweeps.due(r.o.Engine) && !r.recovered.Load() {
		return nil
	}
	err = r.removeOrphans(ctx, r.o.Engine)
	if err != nil {
		r.o.Sweeps.failed(r.o.Engine)
	}
	return err
}

// removeOrphans removes from an engine what dead runs left there and nobody has to wait
// for: processes that serve, and containers that were never started, which an engine
// makes also when who asked for them dies before they are there. What may be in the
// middle of an action, or is being started for one, stays: its run is not closed.
func (r *Run) removeOrphans(ctx context.Context, on Containers) error {
	left, err := r.left(ctx, on, map[string]string{})
	if err != nil {
		return r.engineFailed(ctx, on, fmt.Errorf("looking for processes left serving: %w", err))
	}
	alive := map[string]bool{r.o.ID: true} // many are of one run
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if c.Started && !serves(c) {
			continue
		}
		if _, asked := alive[run]; !asked {
			alive[run] = Alive(r.o.Log, run)
		}
		if alive[run] {
			continue
		}
		u, err := readRun(ctx, r.o.Log, run)
		if err != nil {
			return err
		}
		if c.Running && len(u.Acting) > 0 || !c.Started && u.acts(c.Labels[invoke.LabelResource]) {
			continue
		}
		switch err := on.Remove(ctx, c.ID); {
		case err == nil:
		case !c.Started && ctx.Err() == nil: // it does no harm
			r.o.Notice(fmt.Sprintf("a container that run %s never started was not removed: %s", run, firstLine(err)))
		default:
			return r.engineFailed(ctx, on, fmt.Errorf("removing the process left serving by run %s: %w", run, err))
		}
	}
	return nil
}

// engineFailed returns the error of the engine of this run. That of another engine
// becomes a notice: what is left there does not get in the way of this run.
func (r *Run) engineFailed(ctx context.Context, on Containers, err error) error {
	if on == r.o.Engine || ctx.Err() != nil {
		return err
	}
	r.o.Notice(fmt.Sprintf("an engine that a dead run used stopped answering (%s): processes that serve may be left there, which the next run looks for", firstLine(err)))
	return nil
}

// closeOrphan records the end of everything that a dead run left open. While one
// of its actions still runs, or may run in a process that serves or on an engine
// that cannot be asked, that action, its resource and the run stay open: they are
// closed when the resource is entered. A run that lives, or that another run is
// closing right now, is skipped.
func (r *Run) closeOrphan(ctx context.Context, run string) error {
	unlock, err := r.o.Log.TryLock(runLock(run))
	if errors.Is(err, deploylog.ErrLocked) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("locking run %s: %w", run, err)
	}
	defer forgetLock(r.o.Log, run)
	defer unlock()
	if err := r.closeEntries(ctx, run); err != nil {
		return fmt.Errorf("closing run %s, whose process died: %w", run, err)
	}
	return nil
}

func (r *Run) closeEntries(ctx context.Context, run string) error {
	u, err := readRun(ctx, r.o.Log, run)
	if err != nil || len(u.open) == 0 {
		return err
	}
	r.recovered.Store(true)
	var left []engine.Container
	on, err := r.engineUsed(ctx, u)
	if err == nil {
		left, err = r.left(ctx, on, map[string]string{invoke.LabelRun: run})
	}
	switch {
	case err == nil:
	case ctx.Err() != nil, on == r.o.Engine:
		return err
	case len(u.Acting) > 0 && !u.Abandoned:
		return nil // Enter reports it
	}
	// An engine that cannot be asked, and on which no action is open, was left
	// nothing that could do harm.
	busy, serving, err := r.settleAll(ctx, on, left)
	if err != nil {
		return err
	}
	if u, err = readRun(ctx, r.o.Log, run); err != nil {
		return err
	}
	if serving {
		for _, a := range u.Acting {
			busy[a.Resource] = true // any of them may be in the process that serves
		}
	}
	for _, e := range u.open {
		kind, resource, _ := parts(e.Target)
		if busy[resource] || kind == "run" && len(busy) > 0 {
			continue
		}
		if kind == "run" {
			ending := "exited without output"
			if u.lost {
				ending = "did not see the end of an action"
			}
			r.o.Notice(fmt.Sprintf("run %s, begun at %s, %s; its entries in the log are closed now", run, e.CreatedAt.Format(timeFormat), ending))
		}
		if err := appendOnce(ctx, r.o.Log, e, e.Target.Failed(), r.abandoned(e, u.unknownEnd(kind))); err != nil {
			return err
		}
	}
	return nil
}

// settleAll settles the containers of a dead run, except those that still run: busy
// holds the resources of their actions, and serving says whether one of them serves
// any resource.
func (r *Run) settleAll(ctx context.Context, on Containers, left []engine.Container) (busy map[string]bool, serving bool, err error) {
	busy = map[string]bool{}
	for _, c := range left {
		switch {
		case c.Running && serves(c):
			serving = true
		case c.Running && !observing(c):
			busy[c.Labels[invoke.LabelResource]] = true
		default:
			if err := r.settle(ctx, on, c); err != nil {
				return nil, false, err
			}
		}
	}
	return busy, serving, nil
}

// unknownEnd is why the end of something of this kind that a dead run began is not
// known.
func (u *Unfinished) unknownEnd(kind string) string {
	switch {
	case kind != "action":
		return "the process of the run died before this ended"
	case u.Abandoned:
		return "the run was abandoned; how this ended is not known"
	case u.lost:
		return "the engine was lost; how this ended is not known"
	default:
		return "the process of the run died; how this ended is not known"
	}
}

// abandoned is the data of the end of something that a dead run began.
func (r *Run) abandoned(began deploylog.Event, reason string) Data {
	return Data{Abandoned: true, NoticedBy: r.o.ID, Fields: encoding.Fields{Error: reason}, ID: DataOf(began).ID}
}

// clearResource settles what earlier runs left for a resource whose lock is held by
// this run, on this run's engine and on those of the runs that have no end: an action
// must be over before the state is observed; what only observed is removed when its run
// is dead.
func (r *Run) clearResource(ctx context.Context, resource string, waiting func(string)) error {
	if err := r.clearContainers(ctx, r.o.Engine, "", resource, waiting); err != nil {
		return err
	}
	open, err := r.o.Log.InProgress(ctx, resourceTarget(resource))
	if err != nil {
		return fmt.Errorf("looking for unfinished runs on %s: %w", resource, err)
	}
	for _, started := range open {
		if started.Deployment == r.o.ID {
			continue
		}
		if err := r.clearOrphan(ctx, started.Deployment, resource, waiting); err != nil {
			return err
		}
	}
	return nil
}

// recoveryTimeout is how long others may take to record the end of a dead run.
const recoveryTimeout = 2 * time.Second

// clearOrphan settles what a run that has no end left for a resource, on the engine
// that it used.
func (r *Run) clearOrphan(ctx context.Context, run, resource string, waiting func(string)) error {
	u, err := readRun(ctx, r.o.Log, run)
	if err != nil {
		return err
	}
	if u.lost && u.acts(resource) {
		// Its process may be alive, and what of it serves at work on other resources,
		// whose end is that of the run. Waiting for that could be mutual. Another run
		// may hold the lock of a dead one for a moment.
		short, cancel := context.WithTimeout(ctx, recoveryTimeout)
		unlock, err := r.o.Log.Lock(short, runLock(run))
		cancel()
		if err != nil {
			return fmt.Errorf("run %s, which did not see the end of an action of it, still works on other resources: try again when that has ended (%w)", run, err)
		}
		unlock()
	}
	on, err := r.engineUsed(ctx, u)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case u.acts(resource):
		return &HeldError{Run: *u, Cause: err}
	default:
		on = nil // it left nothing that could do harm
	}
	where := ""
	if on != r.o.Engine {
		where = " on " + u.Used.String()
		if err := r.clearContainers(ctx, on, where, resource, waiting); err != nil {
			return err
		}
	}
	if err := r.waitForServing(ctx, on, where, run, resource, waiting); err != nil {
		return fmt.Errorf("process left serving by run %s: %w", run, err)
	}
	return r.closeOrphan(ctx, run)
}

// clearContainers settles the containers that earlier runs left for a resource on
// an engine; where names that engine in messages.
func (r *Run) clearContainers(ctx context.Context, on Containers, where, resource string, waiting func(string)) error {
	left, err := r.left(ctx, on, map[string]string{invoke.LabelResource: resource})
	if err != nil {
		return fmt.Errorf("looking for containers left for %s%s: %w", resource, where, err)
	}
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if run == r.o.ID || observing(c) && Alive(r.o.Log, run) {
			continue
		}
		if c.Running && !observing(c) {
			waiting(fmt.Sprintf("waits for action %q that run %s left running%s", c.Labels[invoke.LabelAction], run, where))
		}
		if err := r.settle(ctx, on, c); err != nil {
			return fmt.Errorf("container left by run %s for %s%s: %w", run, resource, where, err)
		}
	}
	return nil
}

// waitForServing waits until no process that a dead run left serving can still be in
// the middle of an action on the resource. Its stdin has ended with the run: it
// finishes what it was asked and ends. Nobody received how the action went.
//
// That the run is dead needs no look at its lock, which somebody else may hold
// for a moment to find that out: a run that lives and is in the middle of an
// action holds the lock of the resource, and that is this run's.
func (r *Run) waitForServing(ctx context.Context, on Containers, where, run, resource string, waiting func(string)) error {
	u, err := readRun(ctx, r.o.Log, run)
	if err != nil || !u.acts(resource) {
		return err
	}
	left, err := r.left(ctx, on, map[string]string{invoke.LabelRun: run, invoke.LabelKind: invoke.KindServe})
	if err != nil {
		return err
	}
	stopped := ""
	for _, c := range left {
		if c.Running {
			waiting(fmt.Sprintf("waits for an action that run %s left running in a process that serves%s", run, where))
			_, late, err := r.wait(ctx, on, c)
			if err != nil {
				return err
			}
			stopped = cmp.Or(late, stopped)
		}
		if err := on.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, e := range u.open {
		if kind, of, _ := parts(e.Target); stopped != "" && kind == "action" && of == resource {
			if err := appendOnce(ctx, r.o.Log, e, e.Target.Failed(), r.abandoned(e, stopped)); err != nil {
				return err
			}
		}
	}
	return nil
}
