// Package interrupt turns signals into the two steps in which a command stops.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Interruption turns signals into the runner's two steps: the first asks to
// stop, the second kills what runs.
type Interruption struct {
	Stop    chan struct{}
	signals chan os.Signal
	Count   atomic.Int32
}

// Interruptible returns a context that a second signal cancels, and calls
// notice at the first with what happens now.
func Interruptible(ctx context.Context, notice func(string)) (context.Context, *Interruption) {
	ctx, cancel := context.WithCancel(ctx)
	i := &Interruption{Stop: make(chan struct{}), signals: make(chan os.Signal, 2)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of the output that went away must not end a run in its midst.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		defer cancel()
		for range i.signals {
			if i.Count.Add(1) == 1 {
				close(i.Stop)
				notice("stopping: running actions finish first; interrupt again to kill them")
				continue
			}
			notice("killing what runs")
			return
		}
	}()
	return ctx, i
}

// Stoppable returns a context that ends with the first signal.
func (i *Interruption) Stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-i.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Done gives the signals back to the process's default handling.
func (i *Interruption) Done() {
	signal.Stop(i.signals)
	close(i.signals)
}
