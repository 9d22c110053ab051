package docker

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// release returns once a held program may start, and starts the time limit of the
// run then. Until that, a shim that waits for a whole input learns that it is still
// to come.
func (e *Engine) release(ctx context.Context, spec engine.Spec, in *input, fail context.CancelCauseFunc) error {
	if spec.Hold == nil {
		return nil
	}
	var due <-chan time.Time // of the next sign; never for an input without a reader that waits
	if in != nil && in.framed {
		signs := time.NewTicker(e.idle / 4)
		defer signs.Stop()
		due = signs.C
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-spec.Hold:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			spec.Limit(ctx, fail)
			return nil
		case <-due:
			_ = entrypoint.KeepAlive(in.to.Conn)
		}
	}
}
