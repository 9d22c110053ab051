package client

import (
	"context"
	"fmt"
	"io"
	"time"
)

// idle ends what makes no progress for a time, however long it takes as a whole.
type idle struct {
	after time.Duration
	timer *time.Timer
}

// unlessIdle is a context that ends with cancel, or after a time without progress.
func unlessIdle(ctx context.Context, after time.Duration) (_ context.Context, i *idle, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	i = &idle{after: after, timer: time.AfterFunc(after, func() { end(fmt.Errorf("nothing has been sent for %v", after)) })}
	return ctx, i, func() {
		i.timer.Stop()
		end(nil)
	}
}

// progress is a reader of which each part that is read is progress.
func (i *idle) progress(r io.Reader) io.Reader { return progress{r, i} }

type progress struct {
	io.Reader
	idle *idle
}

// Read implements io.Reader.
func (p progress) Read(into []byte) (n int, err error) {
	if n, err = p.Reader.Read(into); n > 0 {
		p.idle.timer.Reset(p.idle.after)
	}
	return n, err
}
