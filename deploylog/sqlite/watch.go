package sqlite

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// watchPause is how often a watch looks for what other processes appended;
// appends of this process wake it at once.
const watchPause = 50 * time.Millisecond

// growth is what one batch of this process has appended. Who waits for it need not read that.
type growth struct {
	after         int64 // the last event of the batch before; -1 is not known
	over          chan struct{}
	from, through int64             // once over is closed: it is (from, through]
	events        []deploylog.Event // all of these, or none of so much that it is not kept
}

func growthAfter(seq int64) *growth { return &growth{after: seq, over: make(chan struct{})} }

const keptEvents, keptBytes = 2048, 1 << 20 // of a batch, at most

// copied returns the events of the batch, unless there is too much of them.
func (b *batch) copied() (events []deploylog.Event) {
	if len(b.marks) > keptEvents {
		return nil
	}
	events = make([]deploylog.Event, 0, len(b.marks))
	size := 0
	for _, m := range b.marks {
		if size += len(m.event.Data); size > keptBytes {
			return nil
		}
		e := *m.event
		e.Data = slices.Clone(e.Data)
		events = append(events, e)
	}
	return events
}

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
			looks := true
			select {
			case <-grown.over:
				if grown.from == after && grown.events != nil && ctx.Err() == nil {
					for _, e := range grown.events {
						if f.Selects(e) && !quiet(e, nil) {
							return
						}
					}
					after, looks = grown.through, false
				}
			case <-time.After(watchPause):
			case <-ctx.Done():
				err = ctx.Err()
				continue
			}
			if grown = l.writer.growth(); !looks && grown.after == after {
				continue
			}
			until, err = l.newest(ctx)
		}
	}
}
