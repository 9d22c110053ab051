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
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
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

// done gives the signals back to the process's default handling.
func (i *interruption) done() {
	signal.Stop(i.signals)
	close(i.signals)
}
