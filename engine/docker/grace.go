package docker

import (
	"context"
	"time"
)

// gracePeriod is how long a cancelled run may still talk to the engine, to
// learn the id of a container being created and to remove it.
const gracePeriod = 15 * time.Second

// grace returns a context that outlives ctx by gracePeriod. A container is
// created and removed under it: a create request that is cut short may still
// create the container, and nobody would know its id.
func grace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(gracePeriod, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() {
		stop()
		cancel()
	}
}
