package reconcile

import "context"

// Drain is closed when nothing new may begin and what runs may finish; nil never is.
// To end at once is what a context is for.
type Drain <-chan struct{}

// Started reports whether the drain has started.
func (d Drain) Started() bool {
	select {
	case <-d:
		return true
	default:
		return false
	}
}

// Context returns a context that also ends when the drain starts, for what is only
// waited for.
func (d Drain) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-d:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
