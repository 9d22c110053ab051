package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// belated is how long after a container's end Docker may still tell that it
// lacked memory.
const belated = 10 * time.Millisecond

// shortage hears of a lack of memory, which the state of an ended container
// does not show when Docker learns of the end first. It is nil for a container
// without a limit, of which the state alone must do.
type shortage <-chan struct{}

// listen begins to hear of a container.
func (e *Engine) listen(ctx context.Context, id string, spec engine.Spec) shortage {
	if spec.Memory == 0 {
		return nil
	}
	filters := client.Filters{}
	filters.Add("container", id)
	filters.Add("event", "oom")
	events := e.client.Events(ctx, client.EventsListOptions{Filters: filters})
	heard := make(chan struct{})
	go func() {
		select {
		case <-events.Messages:
			close(heard)
		case <-ctx.Done():
		}
	}()
	return heard
}

// happened says whether an ended container lacked memory.
func (s shortage) happened() bool {
	if s == nil {
		return false
	}
	select {
	case <-s:
		return true
	case <-time.After(belated):
		return false
	}
}
