// Package promotion is what the commands of pipelines do for those that promote by observed
// state.
package promotion

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// Levels are the pipelines of a log that promote by observed state, with their environments,
// as of one moment.
type Levels struct {
	query.Promotions
	at int64
}

// Open folds them as they were after an event; 0 is now. Where there are none nothing is read.
func Open(ctx context.Context, log deploylog.Log, now func() time.Time, at int64) (*Levels, error) {
	l := &Levels{Promotions: query.Promotions{Promotions: promotions.NewReader(log, now), Environments: environments.New(log, now), Past: at != 0}, at: at}
	has, err := promotions.Has(ctx, log, "", at)
	if err != nil || !has {
		return l, err
	}
	return l, l.Follow(ctx)
}

// Follow folds what is new.
func (l *Levels) Follow(ctx context.Context) error {
	return errors.Join(l.Promotions.Follow(ctx, l.at), l.Environments.Follow(ctx, l.at))
}

// Is reports whether a name is that of one.
func (l *Levels) Is(name string) bool { return slices.Contains(l.Present(), name) }

// Split is which of some names are of these pipelines, and which are not. Without names it is
// all there are.
func (l *Levels) Split(names []string) (mine, others []string) {
	if len(names) == 0 {
		return l.Present(), nil
	}
	for _, name := range names {
		if l.Is(name) {
			mine = append(mine, name)
		} else {
			others = append(others, name)
		}
	}
	return mine, others
}

// ask is what a function makes of a pipeline and what is observed.
func ask[T any](l *Levels, name string, of func(*promotion.State, promotion.Observed) T) (value T, err error) {
	err = l.Ask(name, func(s *promotion.State) error {
		value = of(s, l.Observe(name, s))
		return nil
	})
	return value, err
}

// within has something done with the pipelines of the log, if name is one of them; is is false
// where it is not, or there is no log.
func within(ctx context.Context, a *app.App, name string, at int64, do func(l *Levels) error) (is bool, err error) {
	err = a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		has, err := promotions.Has(ctx, log, name, max(at, 0))
		if err != nil || !has || name == "" {
			return err
		}
		l, err := Open(ctx, log, a.Now, at)
		if err != nil {
			return err
		}
		if l.Head() < at {
			return exit.Usage("--at %d: the log ends with event %d", at, l.Head())
		}
		is = true
		return do(l)
	})
	if errors.Is(err, app.ErrNoLog) {
		return false, nil // what the command does then makes one, or says why not
	}
	return is, err
}
