package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
)

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
	for _, e := range append(r.otherEngines(), r.o.Engine) {
		if err := r.removeOrphans(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans removes the processes that dead runs left to serve on an engine. A
// process that may be in the middle of an action stays: its run is not closed.
func (r *Run) removeOrphans(ctx context.Context, on Containers) error {
	left, err := on.Containers(ctx, map[string]string{invoke.LabelLog: r.o.Log.ID(), invoke.LabelKind: invoke.KindServe})
	if err != nil {
		return r.engineFailed(ctx, on, fmt.Errorf("looking for processes left serving: %w", err))
	}
	for _, c := range left {
		run := c.Labels[invoke.LabelRun]
		if !r.dead(run) {
			continue
		}
		h, err := readHistory(ctx, r.o.Log, run)
		if err != nil {
			return err
		}
		if c.Running && len(h.acting()) > 0 {
			continue
		}
		if err := on.Remove(ctx, c.ID); err != nil {
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
func (r *Run) closeOrphan(ctx context.Context, deployment string) error {
	if deployment == r.o.ID {
		return nil
	}
	unlock, err := r.o.Log.TryLock(runLock(deployment))
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
	h, err := readHistory(ctx, r.o.Log, deployment)
	if err != nil || len(h.open) == 0 {
		return err
	}
	left, on, err := r.containersOf(ctx, h)
	switch {
	case err == nil:
	case ctx.Err() != nil, on == r.o.Engine:
		return err
	case len(h.acting()) > 0 && !h.abandoned:
		return nil // Enter reports it
	}
	// An engine that cannot be asked, and on which no action is open, was left
	// nothing that could do harm.
	running, serving, err := r.settleAll(ctx, on, left)
	if err != nil {
		return err
	}
	if h, err = readHistory(ctx, r.o.Log, deployment); err != nil {
		return err
	}
	if serving {
		for _, a := range h.acting() {
			running[a.Resource] = true // any of them may be in the process that serves
		}
	}
	for _, e := range h.open {
		if stillRuns(e.Target, running) {
			continue
		}
		if e.Name == e.Target.Started() && e.Target.Kind() == "run" {
			r.o.Notice(fmt.Sprintf("run %s, begun at %s, %s; its entries in the log are closed now",
				deployment, e.CreatedAt.Format("2006-01-02 15:04:05 MST"), h.ending()))
		}
		if err := r.close(ctx, e, e.Target.Failed(), r.abandoned(h.unknownEnd(e.Target))); err != nil {
			return err
		}
	}
	return nil
}

// containersOf are those that a run left on the engine that it used.
func (r *Run) containersOf(ctx context.Context, h *history) ([]engine.Container, Containers, error) {
	on, err := r.engineUsed(ctx, h)
	if err != nil {
		return nil, on, err
	}
	left, err := on.Containers(ctx, map[string]string{invoke.LabelLog: r.o.Log.ID(), invoke.LabelRun: h.id})
	return left, on, err
}

// settleAll settles the containers of a dead run, except those that still run:
// running holds the resources of their actions, and serving says whether one of
// them serves any resource.
func (r *Run) settleAll(ctx context.Context, on Containers, left []engine.Container) (running map[string]bool, serving bool, err error) {
	running = map[string]bool{}
	for _, c := range left {
		switch {
		case c.Running && serves(c):
			serving = true
		case c.Running && !observing(c):
			running[c.Labels[invoke.LabelResource]] = true
		default:
			if err := r.settle(ctx, on, c); err != nil {
				return nil, false, err
			}
		}
	}
	return running, serving, nil
}

// ending is how a dead run ended, for people.
func (h *history) ending() string {
	if h.lost {
		return "did not see the end of an action"
	}
	return "exited without output"
}

// unknownEnd is why the end of something that a dead run began is not known.
func (h *history) unknownEnd(t deploylog.Target) string {
	switch {
	case t.Kind() != "action":
		return "the process of the run died before this ended"
	case h.abandoned:
		return "the run was abandoned; how this ended is not known"
	case h.lost:
		return "the engine was lost; how this ended is not known"
	default:
		return "the process of the run died; how this ended is not known"
	}
}

// stillRuns reports whether a target is, or contains, one of the resources.
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

// abandoned is the data of the end of something that a dead run began.
func (r *Run) abandoned(reason string) payload {
	return payload{Abandoned: true, NoticedBy: r.o.ID, EventData: runner.EventData{Error: reason}}
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
