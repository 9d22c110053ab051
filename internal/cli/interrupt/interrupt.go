// Package interrupt turns signals into the two steps in which a command stops.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/deployster-go/deployster/runner"
)

// Signals turns signals into the runner's two steps: the first asks to
// stop, the second kills what runs.
type Signals struct {
	Stop    <-chan struct{} // closed by the first signal
	first   context.Context // done with the first signal
	signals chan os.Signal
}

// Handle returns a context that a second signal cancels, and calls
// notice at the first with what happens now.
func Handle(ctx context.Context, notice func(string)) (context.Context, *Signals) {
	ctx, kill := context.WithCancel(ctx)
	first, stop := context.WithCancel(context.Background())
	i := &Signals{Stop: first.Done(), first: first, signals: make(chan os.Signal, 2)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of the output that went away must not end a run in its midst.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		defer kill()
		for _, step := range []string{"stopping: running actions finish first; interrupt again to kill them", "killing what runs"} {
			if _, came := <-i.signals; !came {
				return
			}
			stop()
			notice(step)
		}
	}()
	return ctx, i
}

// Interrupted reports whether there was a signal.
func (i *Signals) Interrupted() bool { return i.first.Err() != nil }

// Context returns a context that ends with the first signal.
func (i *Signals) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(i.first, cancel)
	return ctx, cancel
}

// Within does something until the first signal, and marks the error that comes of
// that as an interruption.
func Within(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", runner.ErrInterrupted, err)
	}
	return err
}

// Done gives the signals back to the process's default handling.
func (i *Signals) Done() {
	signal.Stop(i.signals)
	close(i.signals)
}
