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
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
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
	for _, e := range append(r.others(), r.engine) {
		if err := r.sweep(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the processes that dead runs left to serve on an engine, but for
// those that may still be in the middle of an action: the run it belongs to is
// not closed.
func (r *Run) sweep(ctx context.Context, on Containers) error {
	left, err := on.Containers(ctx, map[string]string{invoke.LabelLog: r.log.ID(), invoke.LabelKind: invoke.KindServe})
	if err != nil {
		return r.unanswered(ctx, on, fmt.Errorf("looking for processes left serving: %w", err))
	}
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if !r.dead(run) {
			continue
		}
		s, err := storyOf(ctx, r.log, run)
		if err != nil {
			return err
		}
		if c.Running && len(s.acting()) > 0 {
			continue
		}
		if err := on.Remove(ctx, c.ID); err != nil {
			return r.unanswered(ctx, on, fmt.Errorf("removing the process left serving by run %s: %w", run, err))
		}
	}
	return nil
}

// unanswered fails where the engine of this run does not do what it is asked. What
// is left on the engine of another run is in nobody's way, so there it is only told.
func (r *Run) unanswered(ctx context.Context, on Containers, err error) error {
	if on == r.engine || ctx.Err() != nil {
		return err
	}
	r.notice(fmt.Sprintf("an engine that a dead run used stopped answering (%s): processes that serve may be left there, which the next run looks for", firstLine(err)))
	return nil
}

// closeRun records the end of everything that a dead run left open. While one
// of its actions still runs, or may in a process that serves or on an engine that
// can not be asked, that action, its resource and the run stay open: they are
// closed when the resource is entered. A run that lives, or that another run is
// closing right now, is left alone.
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
	s, err := storyOf(ctx, r.log, deployment)
	if err != nil || len(s.open) == 0 {
		return err
	}
	var left []engine.Container
	on, err := r.asking(ctx, s)
	if err == nil {
		left, err = on.Containers(ctx, map[string]string{
			invoke.LabelLog: r.log.ID(), invoke.LabelRun: deployment,
		})
	}
	switch {
	case err == nil:
	case ctx.Err() != nil, on == r.engine:
		return err
	case len(s.acting()) > 0 && !s.abandoned:
		return nil // Enter tells of it
	}
	// What can not be asked, and of which no action is open, was left nothing that
	// could do harm.
	running := map[string]bool{} // resources
	var serving []engine.Container
	for _, c := range left {
		switch {
		case c.Running && serves(c):
			serving = append(serving, c)
		case c.Running && !observing(c):
			running[c.Labels[invoke.LabelResource]] = true
		default:
			if err := r.settle(ctx, on, c); err != nil {
				return err
			}
		}
	}
	if s, err = storyOf(ctx, r.log, deployment); err != nil {
		return err
	}
	if len(serving) > 0 {
		for _, a := range s.acting() {
			running[a.Resource] = true // any of them may be in it
		}
	}
	for _, e := range s.open {
		if stillRuns(e.Target, running) {
			continue
		}
		if e.Name == e.Target.Started() && e.Target.Kind() == "run" {
			how := "exited without output"
			if s.lost {
				how = "did not see the end of an action"
			}
			r.notice(fmt.Sprintf("run %s, begun at %s, %s; its entries in the log are closed now",
				deployment, e.CreatedAt.Format("2006-01-02 15:04:05 MST"), how))
		}
		p := payload{Abandoned: true, NoticedBy: r.id, EventData: runner.EventData{Error: "the process of the run died before this ended"}}
		switch {
		case e.Target.Kind() != "action":
		case s.abandoned:
			p.Error = "the run was abandoned; how this ended is not known"
		case s.lost:
			p.Error = "the engine was lost meanwhile; how this ended is not known"
		default:
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
// lock is held by this run, on this run's engine and on those of the runs that
// have no end: an action must be over before the state is observed; what only
// observed is removed when its run is dead.
func (r *Run) clear(ctx context.Context, resource string, waiting func(string)) error {
	if err := r.clearOn(ctx, r.engine, "", resource, waiting); err != nil {
		return err
	}
	open, err := r.log.InProgress(ctx, resourceTarget(resource))
	if err != nil {
		return fmt.Errorf("looking for unfinished runs on %s: %w", resource, err)
	}
	for _, started := range open {
		if err := r.clearRun(ctx, started.Deployment, resource, waiting); err != nil {
			return err
		}
	}
	return nil
}

// clearRun deals with what a run that has no end left for a resource, on the
// engine that it used.
func (r *Run) clearRun(ctx context.Context, deployment, resource string, waiting func(string)) error {
	if deployment == r.id {
		return nil
	}
	s, err := storyOf(ctx, r.log, deployment)
	if err != nil {
		return err
	}
	if s.lost && s.acts(resource) {
		// What of it serves may be at work on other resources: its end is that of the
		// run. Waiting for that could be mutual.
		if err := r.over(ctx, deployment); err != nil {
			return err
		}
	}
	on, err := r.asking(ctx, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil && !s.acts(resource):
		on = nothing{} // it left nothing that could do harm
	case err != nil:
		return &HeldError{Run: s.unfinished(r.log), Cause: err}
	}
	where := ""
	if on != r.engine {
		where = " on " + s.used.String()
		if err := r.clearOn(ctx, on, where, resource, waiting); err != nil {
			return err
		}
	}
	if err := r.outwait(ctx, on, where, deployment, resource, waiting); err != nil {
		return fmt.Errorf("process left serving by run %s: %w", deployment, err)
	}
	return r.closeRun(ctx, deployment)
}

// over fails while the process of a run is there. Somebody else may hold the lock
// of one that is gone for a moment.
func (r *Run) over(ctx context.Context, run string) error {
	short, cancel := context.WithTimeout(ctx, recovering)
	defer cancel()
	unlock, err := r.log.Lock(short, runLock(run))
	if err != nil {
		return fmt.Errorf("run %s, which did not see the end of an action of it, still works on other resources: try again when that has ended (%w)", run, err)
	}
	unlock()
	return nil
}

// recovering is how long others may take to record the end of a dead run.
const recovering = 2 * time.Second

// clearOn deals with the containers that earlier runs left for a resource on an
// engine, which is where.
func (r *Run) clearOn(ctx context.Context, on Containers, where, resource string, waiting func(string)) error {
	left, err := on.Containers(ctx, map[string]string{invoke.LabelLog: r.log.ID(), invoke.LabelResource: resource})
	if err != nil {
		return fmt.Errorf("looking for containers left for %s%s: %w", resource, where, err)
	}
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if run == r.id || observing(c) && !r.dead(run) {
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

// outwait waits until no process that a dead run left serving can still be in
// the middle of an action on the resource. Its stdin has ended with the run: it
// finishes what it was asked and ends. Nobody heard how the action went.
//
// That the run is dead needs no look at its lock, which somebody else may hold
// for a moment to find that out: a run that lives and is in the middle of an
// action holds the lock of the resource, and that is this run's.
func (r *Run) outwait(ctx context.Context, on Containers, where, deployment, resource string, waiting func(string)) error {
	s, err := storyOf(ctx, r.log, deployment)
	if err != nil || !s.acts(resource) {
		return err
	}
	left, err := on.Containers(ctx, map[string]string{
		invoke.LabelLog: r.log.ID(), invoke.LabelRun: deployment, invoke.LabelKind: invoke.KindServe,
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
	for _, e := range s.open {
		if stopped && isActionOf(e.Target, resource) {
			if err := r.close(ctx, e, e.Target.Failed(), payload{Abandoned: true, NoticedBy: r.id, EventData: runner.EventData{Error: r.outlasted()}}); err != nil {
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
func (r *Run) wait(ctx context.Context, on Containers, c engine.Container) (exit engine.Exit, ended bool, err error) {
	patient, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	exit, err = on.Wait(patient, c.ID)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
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
	return on.Remove(ctx, c.ID)
}

// action finds the beginning of the action that a container was made for, which
// has no name when the log has none, and tells whether it has an end.
func (r *Run) action(ctx context.Context, c engine.Container) (started deploylog.Event, ended bool, err error) {
	attempt, err := strconv.Atoi(c.Labels[invoke.LabelAttempt])
	if err != nil || attempt < 1 {
		attempt = 1
	}
	for e, err := range r.log.Read(ctx, deploylog.Filter{
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

// observing tells whether the container only looks: its type may be asked
// again at any time.
func observing(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindObserve }

// serves tells whether the container answered for many resources.
func serves(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindServe }

// isActionOf tells whether a target is an action of a resource.
func isActionOf(t deploylog.Target, resource string) bool {
	kind, rest, _ := strings.Cut(string(t), "/")
	of, _, _ := strings.Cut(rest, "/")
	return kind == "action" && of == resource
}

// acts tells whether an action of a resource has no end.
func (s *story) acts(resource string) bool {
	return slices.ContainsFunc(s.open, func(e deploylog.Event) bool { return isActionOf(e.Target, resource) })
}
