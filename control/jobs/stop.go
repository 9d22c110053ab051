package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/inventory"
)

// The pauses between tries to stop a job whose engine does not answer; each is twice as long as
// the one before.
const (
	stopPause        = time.Second
	longestStopPause = 30 * time.Second
)

// awaitStop returns once a job has stopped that was canceled, and why: an engine that does not
// answer may still run it, so that it is asked again until it says that there is no container
// any more. A process that is to end leaves that to the next one. Where the worker is not in the
// inventory any more there is nobody to ask, and the job is lost.
func (a *attempt) awaitStop(ctx context.Context) error {
	if !a.exists {
		return builds.ErrCanceled
	}
	life := builds.Life(ctx)
	warned := false
	for pause := stopPause; ; pause = min(2*pause, longestStopPause) {
		err := a.removeContainers(life)
		var gone *inventory.NoHostError
		switch {
		case err == nil:
			return builds.ErrCanceled
		case life.Err() != nil:
			return errLeft
		case errors.As(err, &gone):
			return fmt.Errorf("it was canceled, and nobody can say whether its container has stopped: %w", err)
		}
		if !warned {
			warned = true
			a.Logger.WarnContext(ctx, "a job that was canceled may still run: its worker is asked until it says that it does not, or is not in the inventory any more",
				"job", a.task.Target(), "worker", a.task.Worker, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-life.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// removeContainers stops and removes what the worker has of the attempt.
func (a *attempt) removeContainers(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	on, err := a.Worker(bounded, a.task.Worker)
	if err != nil {
		return err
	}
	left, err := on.Engine.Containers(bounded, a.labels())
	if err != nil {
		return err
	}
	for _, c := range left {
		if err := on.Engine.Remove(bounded, c.ID); err != nil {
			return err
		}
	}
	return nil
}
