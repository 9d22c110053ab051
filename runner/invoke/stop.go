package invoke

import (
	"context"
	"errors"
	"fmt"
)

// ErrInterrupted is returned, wrapped, when something ended because of Stop or a
// cancelled context.
var ErrInterrupted = errors.New("interrupted")

// Stop is closed when nothing new is to begin and what runs is to finish. A nil
// Stop never is.
type Stop <-chan struct{}

// Requested reports whether nothing new is to begin.
func (s Stop) Requested() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

// Context returns a context that also ends when a stop is requested: for waiting,
// pulling and observing, which change nothing and can be cut short.
func (s Stop) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s == nil {
		return ctx, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-s:
			cancel(ErrInterrupted)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

// Interrupted turns the error of something that was cut short by a stop or by the
// context into ErrInterrupted.
func (s Stop) Interrupted(ctx context.Context, err error) error {
	if err != nil && (s.Requested() || ctx.Err() != nil) && !errors.Is(err, ErrInterrupted) {
		return fmt.Errorf("%w (%w)", ErrInterrupted, err)
	}
	return err
}
