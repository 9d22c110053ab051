package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// Docker learns of a lack of memory and of a container's end on two ways, and may
// report the end first. These are for how long after the end the lack is waited
// for: longer for a container that was killed without a request that Docker knows
// of, because the delay depends on how busy the machine is.
const (
	oomTimeout       = 10 * time.Millisecond
	oomTimeoutKilled = 5 * time.Second
)

// killed is the exit code of what was ended by SIGKILL.
const killed = 128 + 9

// oomWatch receives whether a container lacked memory, which the state of an ended
// container does not show when Docker learns of the end first. It yields false for
// a container that was killed on request. It is nil for a container without a
// limit, for which the state alone is used.
type oomWatch <-chan bool

// watchMemory subscribes to the events of a container that has a memory limit.
func (e *Engine) watchMemory(ctx context.Context, id string, spec engine.Spec) oomWatch {
	if spec.Memory == 0 {
		return nil
	}
	filters := client.Filters{}
	filters.Add("container", id)
	filters.Add("event", "oom", "kill", "destroy")
	subscribed := e.client.Events(ctx, client.EventsListOptions{Filters: filters})
	result := make(chan bool, 1)
	go func() {
		lacking, err := awaitOOM(ctx, subscribed.Messages, subscribed.Err)
		if err != nil && ctx.Err() == nil {
			e.log.DebugContext(ctx, "cannot watch a container for a lack of memory", "container", id, "error", err)
		}
		result <- lacking
	}()
	return result
}

// awaitOOM waits for the event that settles whether a container lacked memory. A
// signal other than SIGKILL does not settle it: the container may have gone on.
func awaitOOM(ctx context.Context, messages <-chan events.Message, failed <-chan error) (bool, error) {
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
func (w oomWatch) happened(ctx context.Context, code int) bool {
	if w == nil {
		return false
	}
	timeout := oomTimeout
	if code == killed {
		timeout = oomTimeoutKilled
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case lacking := <-w:
		return lacking
	case <-ctx.Done():
		return false
	}
}
