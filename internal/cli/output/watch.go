package output

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

// watchPause is how often a status is shown again at most.
const watchPause = 200 * time.Millisecond

// CanWatch refuses to watch what does not change, or where nothing can be redrawn.
func (p *Printer) CanWatch(at int64) error {
	switch {
	case at != 0:
		return exit.Usage("--watch shows the present, --at a moment that has passed")
	case p.Format != "text" || !p.Terminal(p.Out):
		return exit.Usage("--watch needs a terminal; elsewhere, deployster log follow prints every event")
	}
	return nil
}

// folded is what is folded from the log.
type folded interface {
	Head() int64
	Follow(ctx context.Context, until int64) error
}

// Watch shows something again whenever there is something new in the log, until it
// is interrupted.
func (p *Printer) Watch(ctx context.Context, f folded, show func() error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for shown := int64(-1); ; {
		if f.Head() != shown {
			shown = f.Head()
			if err := p.Printf("\x1b[H\x1b[2J"); err != nil {
				return err
			}
			if err := show(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause):
		}
		if err := f.Follow(ctx, 0); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
