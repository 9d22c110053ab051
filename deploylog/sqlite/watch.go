package sqlite

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// watchPause is how often a watch looks for what other processes appended;
// appends of this process wake it at once.
const watchPause = 50 * time.Millisecond

// Watch implements deploylog.Log.
func (l *Log) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if f.Until != 0 {
			yield(deploylog.Event{}, errors.New("watch deployment log: a watch has no end, do not set Until"))
			return
		}
		parent := ctx
		ctx, cancel := l.whileOpen(ctx)
		defer cancel()
		quiet := func(e deploylog.Event, err error) bool {
			if err != nil && parent.Err() != nil {
				return false // the caller has gone, which is no error
			}
			return yield(e, err)
		}
		grown := l.writer.growth() // taken before looking, so that nothing is missed
		after, until, err := l.span(ctx, f)
		s := newSelection(f)
		for {
			if err != nil {
				quiet(deploylog.Event{}, l.readError(ctx, err))
				return
			}
			if until > after && !l.deliver(ctx, s, after, until, quiet) {
				return
			}
			after = max(after, until)
			select {
			case <-grown:
			case <-time.After(watchPause):
			case <-ctx.Done():
				err = ctx.Err()
				continue
			}
			grown = l.writer.growth()
			until, err = l.newest(ctx)
		}
	}
}
