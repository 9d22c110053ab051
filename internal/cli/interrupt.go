package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interruption turns signals into the runner's two steps: the first asks to
// stop, the second kills what runs.
type interruption struct {
	stop    chan struct{}
	signals chan os.Signal
	count   atomic.Int32
}

// interruptible returns a context that a second signal cancels, and calls
// notice at the first with what happens now.
func interruptible(ctx context.Context, notice func(string)) (context.Context, *interruption) {
	ctx, cancel := context.WithCancel(ctx)
	i := &interruption{stop: make(chan struct{}), signals: make(chan os.Signal, 2)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of the output that went away must not end a run in its midst.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		defer cancel()
		for range i.signals {
			if i.count.Add(1) == 1 {
				close(i.stop)
				notice("stopping: running actions finish first; interrupt again to kill them")
				continue
			}
			notice("killing what runs")
			return
		}
	}()
	return ctx, i
}

// stoppable returns a context that ends with the first signal.
func (i *interruption) stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-i.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// done gives the signals back to the process's default handling.
func (i *interruption) done() {
	signal.Stop(i.signals)
	close(i.signals)
}
