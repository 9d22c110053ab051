package docker

import (
	"context"

	"github.com/moby/moby/client"
)

// telling are the events after which a container may not be as it was. The end
// of one that is stopped or killed is a "die".
var telling = []string{"start", "die", "oom", "pause", "unpause", "health_status", "destroy"}

// Watch calls changed, from one goroutine, when a container of the engine has
// begun or ended, changed its health, or was removed. Containers that carry the
// label without are left out. Watch returns when ctx is done, or when the engine
// can not tell any more: always with an error. What happened before it began to
// watch, or after it failed, is never told.
func (e *Engine) Watch(ctx context.Context, without string, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := e.client.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", "container").Add("event", telling...),
	})
	for {
		select {
		case message := <-events.Messages:
			if _, leave := message.Actor.Attributes[without]; !leave {
				changed()
			}
		case err := <-events.Err:
			return e.wrap("hear of the engine's containers", err)
		}
	}
}
