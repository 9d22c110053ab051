package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner"
)

// closeDead looks for runs of this target that started, have not ended, and
// whose process is gone, and closes them as far as they are over.
func (r *Run) closeDead(ctx context.Context) error {
	open, err := r.log.InProgress(ctx, r.target)
	if err != nil {
		return fmt.Errorf("looking for unfinished runs: %w", err)
	}
	for _, started := range open {
		if err := r.closeRun(ctx, started.Deployment); err != nil {
			return err
		}
	}
	return r.sweep(ctx)
}

// sweep removes the processes that dead runs left to serve, but for those that
// may still be in the middle of an action: the run it belongs to is not closed.
func (r *Run) sweep(ctx context.Context) error {
	left, err := r.engine.Containers(ctx, map[string]string{runner.LabelLog: r.log.ID(), runner.LabelKind: runner.KindServe})
	if err != nil {
		return fmt.Errorf("looking for processes left serving: %w", err)
	}
	for _, c := range left {
		run := c.Labels[runner.LabelRun]
		if !r.dead(run) {
			continue
		}
		open, err := r.unfinished(ctx, run)
		if err != nil {
			return err
		}
		if c.Running && len(acting(open)) > 0 {
			continue
		}
		if err := r.engine.Remove(ctx, c.ID); err != nil {
			return fmt.Errorf("removing the process left serving by run %s: %w", run, err)
		}
	}
	return nil
}

// closeRun records the end of everything that a dead run left open. While one
// of its actions still runs, or may in a process that serves, that action, its
// resource and the run stay open: they are closed when the resource is entered.
// A run that lives, or that another run is closing right now, is left alone.
func (r *Run) closeRun(ctx context.Context, deployment string) error {
	if deployment == r.id {
		return nil
	}
	unlock, err := r.log.TryLock(runLock(deployment))
	if errors.Is(err, deploylog.ErrLocked) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("locking run %s: %w", deployment, err)
	}
	defer unlock()
	if err := r.closeEntries(ctx, deployment); err != nil {
		return fmt.Errorf("closing run %s, whose process died: %w", deployment, err)
	}
	return nil
}

func (r *Run) closeEntries(ctx context.Context, deployment string) error {
	if open, err := r.unfinished(ctx, deployment); err != nil || len(open) == 0 {
		return err
	}
	left, err := r.engine.Containers(ctx, map[string]string{
		runner.LabelLog: r.log.ID(), runner.LabelRun: deployment,
	})
	if err != nil {
		return err
	}
	running := map[string]bool{} // resources
	var serving []engine.Container
	for _, c := range left {
		switch {
		case c.Running && serves(c):
			serving = append(serving, c)
		case c.Running && !observing(c):
			running[c.Labels[runner.LabelResource]] = true
		default:
			if err := r.settle(ctx, c); err != nil {
				return err
			}
		}
	}
	open, err := r.unfinished(ctx, deployment)
	if err != nil {
		return err
	}
	if len(serving) > 0 {
		maps.Copy(running, acting(open)) // any of them may be in it
	}
	for _, e := range open {
		if stillRuns(e.Target, running) {
			continue
		}
		if e.Name == e.Target.Started() && e.Target.Kind() == "run" {
			r.notice(fmt.Sprintf("run %s, begun at %s, ended without a word; its entries in the log are closed now",
				deployment, e.CreatedAt.Format("2006-01-02 15:04:05 MST")))
		}
		p := payload{Abandoned: true, NoticedBy: r.id, Error: "the process of the run died before this ended"}
		if e.Target.Kind() == "action" {
			p.Error = "the process of the run died meanwhile; how this ended is not known"
		}
		if err := r.close(ctx, e, e.Target.Failed(), p); err != nil {
			return err
		}
	}
	return nil
}

// stillRuns tells whether a target is, or contains, one of the resources.
func stillRuns(t deploylog.Target, resources map[string]bool) bool {
	switch kind, rest, _ := strings.Cut(string(t), "/"); kind {
	case "run":
		return len(resources) > 0
	case "action":
		resource, _, _ := strings.Cut(rest, "/")
		return resources[resource]
	default:
		return resources[rest]
	}
}

// unfinished returns the started events of a deployment that have no end,
// innermost last started first.
func (r *Run) unfinished(ctx context.Context, deployment string) ([]deploylog.Event, error) {
	type key struct {
		target  deploylog.Target
		attempt int
	}
	var started []deploylog.Event
	ended := map[key]bool{}
	for e, err := range r.log.Read(ctx, deploylog.Filter{Deployment: deployment}) {
		if err != nil {
			return nil, err
		}
		switch e.Name {
		case e.Target.Started():
			started = append(started, e)
		case e.Target.Succeeded(), e.Target.Failed():
			ended[key{e.Target, e.Attempt}] = true
		}
	}
	var open []deploylog.Event
	for i := len(started) - 1; i >= 0; i-- {
		if e := started[i]; !ended[key{e.Target, e.Attempt}] {
			open = append(open, e)
		}
	}
	return open, nil
}

// close writes the end of something a dead run started. Another run may have
// done so already; that is as good.
func (r *Run) close(ctx context.Context, started deploylog.Event, name string, p payload) error {
	err := r.append(ctx, started.Deployment, started.Revision, started.Target, name, started.Attempt, p)
	if errors.Is(err, deploylog.ErrDuplicate) {
		return nil
	}
	return err
}

// clear deals with the containers that earlier runs left for a resource whose
// lock is held by this run: an action must be over before the state is
// observed; what only observed is removed when its run is dead.
func (r *Run) clear(ctx context.Context, resource string, waiting func(string)) error {
	left, err := r.engine.Containers(ctx, map[string]string{runner.LabelLog: r.log.ID(), runner.LabelResource: resource})
	if err != nil {
		return fmt.Errorf("looking for containers left for %s: %w", resource, err)
	}
	for _, c := range left {
		run := c.Labels[runner.LabelRun]
		if run == r.id || observing(c) && !r.dead(run) {
			continue
		}
		if c.Running && !observing(c) {
			waiting(fmt.Sprintf("waits for action %q that run %s left running", c.Labels[runner.LabelAction], run))
		}
		if err := r.settle(ctx, c); err != nil {
			return fmt.Errorf("container left by run %s for %s: %w", run, resource, err)
		}
	}
	open, err := r.log.InProgress(ctx, resourceTarget(resource))
	if err != nil {
		return fmt.Errorf("looking for unfinished runs on %s: %w", resource, err)
	}
	for _, started := range open {
		if err := r.outwait(ctx, started.Deployment, resource, waiting); err != nil {
			return fmt.Errorf("process left serving by run %s: %w", started.Deployment, err)
		}
		if err := r.closeRun(ctx, started.Deployment); err != nil {
			return err
		}
	}
	return nil
}

// outwait waits until no process that a dead run left serving can still be in
// the middle of an action on the resource. Its stdin has ended with the run: it
// finishes what it was asked and ends. Nobody heard how the action went.
//
// That the run is dead needs no look at its lock, which somebody else may hold
// for a moment to find that out: a run that lives and is in the middle of an
// action holds the lock of the resource, and that is this run's.
func (r *Run) outwait(ctx context.Context, deployment, resource string, waiting func(string)) error {
	open, err := r.unfinished(ctx, deployment)
	if err != nil || !acting(open)[resource] {
		return err
	}
	left, err := r.engine.Containers(ctx, map[string]string{
		runner.LabelLog: r.log.ID(), runner.LabelRun: deployment, runner.LabelKind: runner.KindServe,
	})
	if err != nil {
		return err
	}
	stopped := false
	for _, c := range left {
		if c.Running {
			waiting(fmt.Sprintf("waits for an action that run %s left running in a process that serves", deployment))
			_, ended, err := r.wait(ctx, c)
			if err != nil && !errors.Is(err, engine.ErrNoContainer) {
				return err
			}
			stopped = stopped || err == nil && !ended
		}
		if err := r.engine.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	for _, e := range open {
		if stopped && acting([]deploylog.Event{e})[resource] {
			if err := r.close(ctx, e, e.Target.Failed(), payload{Abandoned: true, NoticedBy: r.id, Error: r.outlasted()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// outlasted tells of an action that was stopped when patience was at its end.
func (r *Run) outlasted() string {
	return fmt.Sprintf("it still ran %s after its run was found dead, and was stopped", r.patience)
}

// wait waits for the end of a container, as long as there is patience. It fails
// with engine.ErrNoContainer when the container is gone.
func (r *Run) wait(ctx context.Context, c engine.Container) (exit engine.Exit, ended bool, err error) {
	patient, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	exit, err = r.engine.Wait(patient, c.ID)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		return engine.Exit{}, false, nil
	}
	return exit, err == nil, err
}

// settle brings one container of a dead run to its end, records how an action
// ended, and removes it. One that was made ready for an action that never began
// is only removed.
func (r *Run) settle(ctx context.Context, c engine.Container) error {
	if observing(c) || serves(c) || !c.Started {
		return r.engine.Remove(ctx, c.ID)
	}
	started, ended, err := r.action(ctx, c)
	if err != nil {
		return err
	}
	if started.Name == "" {
		return r.engine.Remove(ctx, c.ID)
	}
	exit, over, err := r.wait(ctx, c)
	gone := errors.Is(err, engine.ErrNoContainer)
	if err != nil && !gone {
		return err
	}
	p := payload{Abandoned: true, NoticedBy: r.id}
	name := started.Target.Failed()
	switch {
	case gone:
		p.Error = "its container was removed by somebody else; how it ended is not known"
	case !over:
		p.Error = r.outlasted()
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
	return r.engine.Remove(ctx, c.ID)
}

// action finds the beginning of the action that a container was made for, which
// has no name when the log has none, and tells whether it has an end.
func (r *Run) action(ctx context.Context, c engine.Container) (started deploylog.Event, ended bool, err error) {
	attempt, err := strconv.Atoi(c.Labels[runner.LabelAttempt])
	if err != nil || attempt < 1 {
		attempt = 1
	}
	for e, err := range r.log.Read(ctx, deploylog.Filter{
		Deployment: c.Labels[runner.LabelRun],
		Target:     actionTarget(c.Labels[runner.LabelResource], c.Labels[runner.LabelAction]),
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

// observing tells whether the container only looks: its type may be asked
// again at any time.
func observing(c engine.Container) bool { return c.Labels[runner.LabelKind] == runner.KindObserve }

// serves tells whether the container answered for many resources.
func serves(c engine.Container) bool { return c.Labels[runner.LabelKind] == runner.KindServe }

// acting returns the resources of which an action is among the started events.
func acting(open []deploylog.Event) map[string]bool {
	resources := map[string]bool{}
	for _, e := range open {
		if kind, rest, _ := strings.Cut(string(e.Target), "/"); kind == "action" {
			resource, _, _ := strings.Cut(rest, "/")
			resources[resource] = true
		}
	}
	return resources
}
