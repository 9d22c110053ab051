package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// Docker hears of a lack of memory and of a container's end from two sides, and
// may tell of the end first. How long after it that can be depends on how busy the
// machine is, so whoever was killed by nobody that Docker knows of is waited for.
const (
	belated       = 10 * time.Millisecond
	belatedKilled = 5 * time.Second
)

// killed is the exit code of what was ended by SIGKILL.
const killed = 128 + 9

// shortage hears of a lack of memory, which the state of an ended container
// does not show when Docker learns of the end first. It yields false for a
// container that was killed on request, and is nil for one without a limit, of
// which the state alone must do.
type shortage <-chan bool

// listen begins to hear of a container.
func (e *Engine) listen(ctx context.Context, id string, spec engine.Spec) shortage {
	if spec.Memory == 0 {
		return nil
	}
	filters := client.Filters{}
	filters.Add("container", id)
	filters.Add("event", "oom", "kill", "destroy")
	told := e.client.Events(ctx, client.EventsListOptions{Filters: filters})
	heard := make(chan bool, 1)
	go func() {
		lacking, err := heardOfLack(ctx, told.Messages, told.Err)
		if err != nil && ctx.Err() == nil {
			e.log.DebugContext(ctx, "whether a container lacks memory is not told", "container", id, "error", err)
		}
		heard <- lacking
	}()
	return heard
}

// heardOfLack waits for the event that settles whether a container lacked memory. A
// signal other than SIGKILL does not: whoever got it may have worked on.
func heardOfLack(ctx context.Context, messages <-chan events.Message, failed <-chan error) (bool, error) {
	for {
		select {
		case m := <-messages:
			switch {
			case m.Action == events.ActionOOM:
				return true, nil
			case m.Action == events.ActionDestroy, m.Action == events.ActionKill && m.Actor.Attributes["signal"] == "9":
				return false, nil
			}
		case err := <-failed:
			return false, err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// happened reports whether a container that ended with a code lacked memory. It
// waits no longer than ctx.
func (s shortage) happened(ctx context.Context, code int) bool {
	if s == nil {
		return false
	}
	patience := belated
	if code == killed {
		patience = belatedKilled
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case lacking := <-s:
		return lacking
	case <-ctx.Done():
		return false
	}
}
