package sqlite

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// Append implements deploylog.Log.
func (l *Log) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	return l.AppendThen(ctx, events, nil)
}

// AppendThen implements deploylog.ThenAppender. then may be nil.
func (l *Log) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	if len(events) == 0 {
		return nil, ctx.Err()
	}
	l.note()
	written, err := l.queue.Append(ctx, events, then)
	if err != nil {
		err = fmt.Errorf("append to deployment log: %w", l.writer.kept.Explain(explain(l.path, err)))
	}
	return written, err
}
