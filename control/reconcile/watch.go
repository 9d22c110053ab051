package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// watch reports that there is a new event in the log which is ours, and in newest
// which, or why that is no longer known. The channel is closed when the watch ends.
func watch(ctx context.Context, log deploylog.Log, after int64, ours func(deploylog.Target) (string, bool), newest *atomic.Int64) <-chan error {
	news := make(chan error, 1)
	go func() {
		defer close(news)
		defer func() {
			if p := recover(); p != nil {
				news <- crash.New(p, "watching the log")
			}
		}()
		for e, err := range log.Watch(ctx, deploylog.Filter{After: after}) {
			if err != nil {
				news <- fmt.Errorf("watching the log: %w", err)
				return
			}
			if _, ok := ours(e.Target); !ok {
				continue
			}
			newest.Store(e.Seq)
			select {
			case news <- nil:
			default: // the last one was not received yet
			}
		}
	}()
	return news
}

// received is what came from a watch: an error when it has ended before its time.
func received(ctx context.Context, err error, ok bool) error {
	if err != nil || ok || ctx.Err() != nil {
		return err
	}
	return errors.New("watching the log: it ended")
}
