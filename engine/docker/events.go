package docker

import (
	"context"

	"github.com/moby/moby/client"
)

// watched are the events after which a container may not be as it was. The end
// of one that is stopped or killed is a "die".
var watched = []string{"start", "die", "oom", "pause", "unpause", "health_status", "destroy"}

// Watch calls changed, from one goroutine, when a container of the engine has
// begun or ended, changed its health, or was removed. Containers that carry the
// label without are left out. Watch returns when ctx is done, or when the engine
// stops sending events: always with an error. Changes before the subscription and
// after its end are not reported.
func (e *Engine) Watch(ctx context.Context, without string, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := e.client.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", "container").Add("event", watched...),
	})
	for {
		select {
		case message := <-events.Messages:
			if _, leave := message.Actor.Attributes[without]; !leave {
				changed()
			}
		case err := <-events.Err:
			return e.wrap("watch the engine's containers", err)
		}
	}
}
