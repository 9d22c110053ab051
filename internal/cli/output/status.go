package output

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// watchPause is how often a status is shown again at most.
const watchPause = 200 * time.Millisecond

// StatusFlags are the flags of commands that show a status.
type StatusFlags struct {
	At           int64
	Hosts, Watch bool
}

// ShowsStatus makes a command one that shows the status of what it is given the names
// of; hosts says what --hosts shows.
func (p *Printer) ShowsStatus(c *cobra.Command, hosts string, run func(ctx context.Context, names []string, o StatusFlags) error) *cobra.Command {
	var o StatusFlags
	arguments.RegisterAt(c, &o.At)
	c.Flags().BoolVar(&o.Hosts, "hosts", false, hosts)
	c.Flags().BoolVar(&o.Watch, "watch", false, "show the status again whenever it changes, until interrupted")
	c.RunE = func(c *cobra.Command, names []string) error {
		switch {
		case o.Watch && o.At != 0:
			return exit.Usage("--watch shows the present, --at a moment that has passed")
		case o.Watch && (p.Format != "text" || !p.Terminal(p.Out)):
			return exit.Usage("--watch needs a terminal; elsewhere, deployster log follow prints every event")
		}
		return run(c.Context(), names, o)
	}
	return c
}

// Status shows a status; to watch it is to show it again whenever there is something
// new in the log, until it is interrupted.
func (p *Printer) Status(ctx context.Context, o StatusFlags, f arguments.Folded, show func() error) error {
	if !o.Watch {
		return show()
	}
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
