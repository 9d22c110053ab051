// Package interrupt turns signals into the two steps in which a command stops.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/runner"
)

// Signals turns signals into the runner's two steps: the first asks to
// stop, the second kills what runs.
type Signals struct {
	Stop    <-chan struct{} // closed by the first signal
	first   context.Context // done with the first signal
	signals chan os.Signal
}

// killTime is how long what runs has to end after the second signal. Then the process
// ends without it: an engine that does not answer would keep it for as long. What is left
// behind then is found by the next run, as after any other death of the process.
const killTime = 1800 * time.Millisecond

// abort ends the process at once.
var abort = func() { os.Exit(exit.Code(runner.ErrInterrupted)) }

// Handle returns a context that a second signal cancels, and calls notice at each with what
// happens now. When the command has not called Done some time after the second one the
// process ends.
func Handle(ctx context.Context, notice func(string)) (context.Context, *Signals) {
	return Announce(ctx, [2]string{"stopping: running actions finish first; interrupt again to kill them", "killing what runs"}, notice)
}

// Announce is Handle for a command of which the two signals do something else to what runs:
// the steps say what.
func Announce(ctx context.Context, steps [2]string, notice func(string)) (context.Context, *Signals) {
	ctx, kill := context.WithCancel(ctx)
	first, stop := context.WithCancel(context.Background())
	i := &Signals{Stop: first.Done(), first: first, signals: make(chan os.Signal, 2)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of the output that went away must not end a run in its midst.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		defer kill()
		for n, step := range steps {
			if _, came := <-i.signals; !came {
				return
			}
			stop()
			if n > 0 {
				kill()
			}
			notice(step)
		}
		i.abortLate()
	}()
	return ctx, i
}

// abortLate ends the process unless the signals are given back in time.
func (i *Signals) abortLate() {
	late := time.After(killTime)
	for {
		select {
		case _, came := <-i.signals:
			if !came {
				return
			}
		case <-late:
			_, _ = fmt.Fprintln(os.Stderr, "the process ends now, though an engine has not answered: the next run finds out what became of what it was asked")
			abort()
			return
		}
	}
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
