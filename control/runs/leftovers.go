package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/invoke"
)

// clearResource settles the containers that earlier runs left for a resource whose
// lock is held by this run, on this run's engine and on those of the runs that
// have no end: an action must be over before the state is observed; what only
// observed is removed when its run is dead.
func (r *Run) clearResource(ctx context.Context, resource string, waiting func(string)) error {
	if err := r.clearContainers(ctx, r.o.Engine, "", resource, waiting); err != nil {
		return err
	}
	open, err := r.o.Log.InProgress(ctx, resourceTarget(resource))
	if err != nil {
		return fmt.Errorf("looking for unfinished runs on %s: %w", resource, err)
	}
	for _, started := range open {
		if err := r.clearOrphan(ctx, started.Deployment, resource, waiting); err != nil {
			return err
		}
	}
	return nil
}

// clearOrphan settles what a run that has no end left for a resource, on the engine
// that it used.
func (r *Run) clearOrphan(ctx context.Context, deployment, resource string, waiting func(string)) error {
	if deployment == r.o.ID {
		return nil
	}
	h, err := readHistory(ctx, r.o.Log, deployment)
	if err != nil {
		return err
	}
	if h.lost && h.acts(resource) {
		// What of it serves may be at work on other resources: its end is that of the
		// run. Waiting for that could be mutual.
		if err := r.waitForProcess(ctx, deployment); err != nil {
			return err
		}
	}
	on, err := r.engineUsed(ctx, h)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil && !h.acts(resource):
		on = noContainers{} // it left nothing that could do harm
	case err != nil:
		return &HeldError{Run: h.unfinished(r.o.Log), Cause: err}
	}
	where := ""
	if on != r.o.Engine {
		where = " on " + h.used.String()
		if err := r.clearContainers(ctx, on, where, resource, waiting); err != nil {
			return err
		}
	}
	if err := r.waitForOrphan(ctx, on, where, deployment, resource, waiting); err != nil {
		return fmt.Errorf("process left serving by run %s: %w", deployment, err)
	}
	return r.closeOrphan(ctx, deployment)
}

// waitForProcess fails while the process of a run is alive. Another run may hold
// the lock of a dead one for a moment.
func (r *Run) waitForProcess(ctx context.Context, run string) error {
	short, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	unlock, err := r.o.Log.Lock(short, runLock(run))
	if err != nil {
		return fmt.Errorf("run %s, which did not see the end of an action of it, still works on other resources: try again when that has ended (%w)", run, err)
	}
	unlock()
	return nil
}

// recoveryTimeout is how long others may take to record the end of a dead run.
const recoveryTimeout = 2 * time.Second

// clearContainers settles the containers that earlier runs left for a resource on
// an engine; where names that engine in messages.
func (r *Run) clearContainers(ctx context.Context, on Containers, where, resource string, waiting func(string)) error {
	left, err := on.Containers(ctx, map[string]string{invoke.LabelLog: r.o.Log.ID(), invoke.LabelResource: resource})
	if err != nil {
		return fmt.Errorf("looking for containers left for %s%s: %w", resource, where, err)
	}
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if run == r.o.ID || observing(c) && !r.dead(run) {
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

// waitForOrphan waits until no process that a dead run left serving can still be in
// the middle of an action on the resource. Its stdin has ended with the run: it
// finishes what it was asked and ends. Nobody received how the action went.
//
// That the run is dead needs no look at its lock, which somebody else may hold
// for a moment to find that out: a run that lives and is in the middle of an
// action holds the lock of the resource, and that is this run's.
func (r *Run) waitForOrphan(ctx context.Context, on Containers, where, deployment, resource string, waiting func(string)) error {
	h, err := readHistory(ctx, r.o.Log, deployment)
	if err != nil || !h.acts(resource) {
		return err
	}
	left, err := on.Containers(ctx, map[string]string{
		invoke.LabelLog: r.o.Log.ID(), invoke.LabelRun: deployment, invoke.LabelKind: invoke.KindServe,
	})
	if err != nil {
		return err
	}
	stopped := false
	for _, c := range left {
		if c.Running {
			waiting(fmt.Sprintf("waits for an action that run %s left running in a process that serves%s", deployment, where))
			_, ended, err := r.wait(ctx, on, c)
			if err != nil && !errors.Is(err, engine.ErrNoContainer) {
				return err
			}
			stopped = stopped || err == nil && !ended
		}
		if err := on.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, e := range h.open {
		if stopped && isActionOf(e.Target, resource) {
			if err := r.close(ctx, e, e.Target.Failed(), r.abandoned(r.timedOut())); err != nil {
				return err
			}
		}
	}
	return nil
}

// timedOut is why an action of a dead run was stopped.
func (r *Run) timedOut() string {
	return fmt.Sprintf("it still ran %s after its run was found dead, and was stopped", r.o.OrphanTimeout)
}

// wait waits for the end of a container, up to the OrphanTimeout. It fails with
// engine.ErrNoContainer when the container is gone.
func (r *Run) wait(ctx context.Context, on Containers, c engine.Container) (exit engine.Exit, ended bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, r.o.OrphanTimeout)
	defer cancel()
	exit, err = on.Wait(bounded, c.ID)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return engine.Exit{}, false, nil
	}
	return exit, err == nil, err
}

// settle brings one container of a dead run to its end, records how an action
// ended, and removes it. One that was made ready for an action that never began
// is only removed.
func (r *Run) settle(ctx context.Context, on Containers, c engine.Container) error {
	if observing(c) || serves(c) || !c.Started {
		return on.Remove(ctx, c.ID)
	}
	started, ended, err := r.action(ctx, c)
	if err != nil {
		return err
	}
	if started.Name == "" {
		return on.Remove(ctx, c.ID)
	}
	exit, over, err := r.wait(ctx, on, c)
	gone := errors.Is(err, engine.ErrNoContainer)
	if err != nil && !gone {
		return err
	}
	if gone { // by another run that recovers, it was recorded first
		if _, ended, err = r.action(ctx, c); err != nil {
			return err
		}
	}
	p := r.abandoned("")
	name := started.Target.Failed()
	switch {
	case gone:
		p.Error = "its container was removed by somebody else; how it ended is not known"
	case !over:
		p.Error = r.timedOut()
	default:
		p.Exit = &exit.Code
		if exit.Code == 0 {
			name = started.Target.Succeeded()
		}
	}
	// Recorded first: when this run dies here, the container is still there to
	// be found again.
	if !ended {
		if err := r.close(ctx, started, name, p); err != nil {
			return err
		}
	}
	return on.Remove(ctx, c.ID)
}

// action finds the beginning of the action that a container was made for, which
// has no name when the log has none, and reports whether it has an end.
func (r *Run) action(ctx context.Context, c engine.Container) (started deploylog.Event, ended bool, err error) {
	attempt, err := strconv.Atoi(c.Labels[invoke.LabelAttempt])
	if err != nil || attempt < 1 {
		attempt = 1
	}
	for e, err := range r.o.Log.Read(ctx, deploylog.Filter{
		Deployment: c.Labels[invoke.LabelRun],
		Target:     actionTarget(c.Labels[invoke.LabelResource], c.Labels[invoke.LabelAction]),
	}) {
		if err != nil {
			return started, ended, err
		}
		if e.Attempt != attempt {
			continue
		}
		switch e.Name {
		case e.Target.Started():
			started = e
		case e.Target.Succeeded(), e.Target.Failed():
			ended = true
		}
	}
	return started, ended, nil
}

// observing reports whether the container only looks: its type may be asked
// again at any time.
func observing(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindObserve }

// serves reports whether the container answered for many resources.
func serves(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindServe }

// isActionOf reports whether a target is an action of a resource.
func isActionOf(t deploylog.Target, resource string) bool {
	kind, rest, _ := strings.Cut(string(t), "/")
	of, _, _ := strings.Cut(rest, "/")
	return kind == "action" && of == resource
}

// acts reports whether an action of a resource has no end.
func (h *history) acts(resource string) bool {
	return slices.ContainsFunc(h.open, func(e deploylog.Event) bool { return isActionOf(e.Target, resource) })
}
