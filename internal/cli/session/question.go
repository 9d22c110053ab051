package session

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// Question is what a command is asked that shows the present or the past.
type Question struct {
	Names []string // its arguments
	At    int64    // the event right after which it was so; 0 is now
	Last  int      // only so many of the newest; 0 is all
	Hosts bool     // with every host

	Inventory string // file, of the hosts that there are here
	Listed    bool   // that file was named
	watch     bool   // again whenever it changes
}

// RegisterLast adds the flag of lists of what grows.
func (q *Question) RegisterLast(c *cobra.Command) { arguments.RegisterLast(c, &q.Last) }

// RegisterStatus returns what adds the flags of commands that show a status; hosts says
// what --hosts shows.
func RegisterStatus(a *app.App, hosts string) func(*Question, *cobra.Command) {
	return func(q *Question, c *cobra.Command) {
		c.Flags().BoolVar(&q.Hosts, "hosts", false, hosts)
		RegisterWatch(a)(q, c)
	}
}

// RegisterWatch is RegisterStatus without hosts.
func RegisterWatch(a *app.App) func(*Question, *cobra.Command) {
	return func(q *Question, c *cobra.Command) {
		a.RegisterWhole(c)
		arguments.RegisterInventory(c, &q.Inventory)
		c.Flags().BoolVar(&q.watch, "watch", false, "show the status again whenever it changes, until interrupted")
		c.PreRunE = func(*cobra.Command, []string) error {
			switch {
			case q.watch && q.At != 0:
				return exit.Usage("--watch shows the present, --at a moment that has passed")
			case q.watch && (a.Format != "text" || !a.Terminal(a.Out)):
				return exit.Usage("--watch needs a terminal; elsewhere, deployster log follow prints every event")
			}
			return nil
		}
	}
}

// Asked makes a command one that shows the present or the past. more registers what else
// it can be asked.
func Asked(a *app.App, c *cobra.Command, run func(context.Context, *app.App, Question) error, more ...func(*Question, *cobra.Command)) *cobra.Command {
	var q Question
	arguments.RegisterAt(c, &q.At)
	for _, register := range more {
		register(&q, c)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		q.Names, q.Listed = args, c.Flags().Changed("inventory")
		return run(c.Context(), a, q)
	}
	return c
}

// Folded is what is folded from the log, in which things have names.
type Folded interface {
	Head() int64
	Follow(ctx context.Context, until int64) error
	Check(name string) error // refuses the name of what there is not
}

// AsOf has something done with what is folded from the log, as it was right after an
// event; 0 is now. What the names name there must have been then.
func AsOf[F Folded](
	ctx context.Context, a *app.App, fold func(deploylog.Log, func() time.Time) F, names []string, at int64, do func(F) error,
) error {
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		if at < 0 {
			return exit.Usage("--at %d: it must be the number of an event, from 1", at)
		}
		f := fold(log, a.Now)
		if err := f.Follow(ctx, at); err != nil {
			return err
		}
		if f.Head() < at {
			return exit.Usage("--at %d: the log ends with event %d", at, f.Head())
		}
		for _, name := range names {
			if err := f.Check(name); err != nil {
				return err
			}
		}
		return do(f)
	})
}

// watchPause is how often a status is shown again at most.
const watchPause = 200 * time.Millisecond

// Status shows a status; to watch it is to show it again whenever there is something
// new in the log, until it is interrupted.
func (q Question) Status(ctx context.Context, a *app.App, f Folded, show func() error) error {
	if !q.watch {
		return show()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for shown := int64(-1); ; {
		if f.Head() != shown {
			shown = f.Head()
			if err := a.Printf("\x1b[H\x1b[2J"); err != nil {
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
