package session

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

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
