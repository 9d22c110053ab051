package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner"
)

// closeDead looks for runs of this target that started, have not ended, and
// whose process is gone. What of them is certain to be over is recorded; an
// action whose container still runs stays open until the resource is entered.
func (r *Run) closeDead(ctx context.Context) error {
	open, err := r.log.InProgress(ctx, r.target)
	if err != nil {
		return fmt.Errorf("looking for unfinished runs: %w", err)
	}
	for _, started := range open {
		unlock, err := r.log.TryLock(runLock(started.Deployment))
		if err != nil {
			continue // alive, or being closed by another run right now
		}
		err = r.closeRun(ctx, started)
		unlock()
		if err != nil {
			return fmt.Errorf("closing run %s, whose process died: %w", started.Deployment, err)
		}
	}
	return nil
}

func (r *Run) closeRun(ctx context.Context, started deploylog.Event) error {
	r.notice(fmt.Sprintf("run %s ended without a word at %s; its entries in the log are closed now",
		started.Deployment, started.CreatedAt.Format("2006-01-02 15:04:05 MST")))
	left, err := r.engine.Containers(ctx, map[string]string{
		runner.LabelLog: r.log.ID(), runner.LabelRun: started.Deployment,
	})
	if err != nil {
		return err
	}
	running := map[deploylog.Target]bool{}
	for _, c := range left {
		if c.Running && !observing(c) {
			running[actionTarget(c.Labels[runner.LabelResource], c.Labels[runner.LabelAction])] = true
			continue
		}
		if err := r.settle(ctx, c); err != nil {
			return err
		}
	}
	unfinished, err := r.unfinished(ctx, started.Deployment)
	if err != nil {
		return err
	}
	for _, e := range unfinished {
		if running[e.Target] {
			continue
		}
		p := payload{Abandoned: true, NoticedBy: r.id, Error: "the process of the run died before this ended"}
		if err := r.close(ctx, e, e.Target.Failed(), p); err != nil {
			return err
		}
	}
	return nil
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
	if errors.Is(err, engine.ErrNoContainer) {
		return nil
	}
	if err != nil && !stopped {
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
	name := started.Target.Succeeded()
	switch {
	case stopped:
		name = started.Target.Failed()
		p.Error = fmt.Sprintf("still running %s after its run had died was noticed; stopped", r.patience)
	case exit.Code != 0:
		name = started.Target.Failed()
		fallthrough
	default:
		p.Exit = &exit.Code
	}
	if stopped {
		if err := r.engine.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
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
func observing(c engine.Container) bool {
	switch c.Labels[runner.LabelAction] {
	case "init", "state":
		return true
	default:
		return false
	}
}
