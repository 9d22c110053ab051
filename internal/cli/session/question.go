package session

import (
	"context"
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
}

// RegisterLast adds the flag of lists of what grows.
func (q *Question) RegisterLast(c *cobra.Command) { arguments.RegisterLast(c, &q.Last) }

// Asked makes a command one that shows the present or the past. more registers what else
// it can be asked.
func Asked(a *app.App, c *cobra.Command, run func(context.Context, *app.App, Question) error, more ...func(*Question, *cobra.Command)) *cobra.Command {
	var q Question
	arguments.RegisterAt(c, &q.At)
	for _, register := range more {
		register(&q, c)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		q.Names = args
		return run(c.Context(), a, q)
	}
	return c
}

// Folded is what is folded from the log, in which things have names.
type Folded interface {
	arguments.Folded
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
