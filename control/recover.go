package control

import (
	"context"
	"errors"
	"fmt"
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
	return nil
}

// closeRun records the end of everything that a dead run left open. While one
// of its actions still runs, that action, its resource and the run stay open:
// they are closed when the resource is entered. A run that lives, or that
// another run is closing right now, is left alone.
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
	for _, c := range left {
		if c.Running && !observing(c) {
			running[c.Labels[runner.LabelResource]] = true
			continue
		}
		if err := r.settle(ctx, c); err != nil {
			return err
		}
	}
	open, err := r.unfinished(ctx, deployment)
	if err != nil {
		return err
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
		if err := r.closeRun(ctx, started.Deployment); err != nil {
			return err
		}
	}
	return nil
}

// settle brings one container of a dead run to its end, records how an action
// ended, and removes it.
func (r *Run) settle(ctx context.Context, c engine.Container) error {
	if observing(c) || !c.Started {
		return r.engine.Remove(ctx, c.ID)
	}
	patient, cancel := context.WithTimeout(ctx, r.patience)
	exit, err := r.engine.Wait(patient, c.ID)
	stopped := err != nil && patient.Err() != nil && ctx.Err() == nil
	cancel()
	gone := errors.Is(err, engine.ErrNoContainer)
	if err != nil && !stopped && !gone {
		return err
	}
	p := payload{Abandoned: true, NoticedBy: r.id}
	started := deploylog.Event{
		Deployment: c.Labels[runner.LabelRun],
		Target:     actionTarget(c.Labels[runner.LabelResource], c.Labels[runner.LabelAction]),
		Attempt:    1,
	}
	if n, err := strconv.Atoi(c.Labels[runner.LabelAttempt]); err == nil && n > 0 {
		started.Attempt = n
	}
	name := started.Target.Failed()
	switch {
	case gone:
		p.Error = "its container was removed by somebody else; how it ended is not known"
	case stopped:
		p.Error = fmt.Sprintf("it still ran %s after its run was found dead, and was stopped", r.patience)
	default:
		p.Exit = &exit.Code
		if exit.Code == 0 {
			name = started.Target.Succeeded()
		}
	}
	// Recorded first: when this run dies here, the container is still there to
	// be found again.
	if err := r.record(ctx, started, name, p); err != nil {
		return err
	}
	return r.engine.Remove(ctx, c.ID)
}

// record closes an action unless it has an end already.
func (r *Run) record(ctx context.Context, started deploylog.Event, name string, p payload) error {
	for e, err := range r.log.Read(ctx, deploylog.Filter{Deployment: started.Deployment, Target: started.Target}) {
		if err != nil {
			return err
		}
		if e.Attempt != started.Attempt {
			continue
		}
		switch e.Name {
		case e.Target.Started():
			started.Revision = e.Revision
		case e.Target.Succeeded(), e.Target.Failed():
			return nil
		}
	}
	return r.close(ctx, started, name, p)
}

// observing tells whether the container only looks: its type may be asked
// again at any time.
func observing(c engine.Container) bool { return c.Labels[runner.LabelKind] == runner.KindObserve }
