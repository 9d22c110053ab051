package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// silence is how long a registry may neither take nor give a byte before it is given up: a
// transfer may take as long as it goes on.
const silence = time.Minute

// silentError is that a registry has neither taken nor given anything for a while.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("nothing was sent or received for %s", e.after)
}

// impatient gives requests up on which nothing goes on.
type impatient struct {
	inner http.RoundTripper
	after time.Duration
}

func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, giveUp := context.WithCancelCause(r.Context())
	silent := &silentError{i.after}
	waiting := &deadline{after: i.after, timer: time.AfterFunc(i.after, func() { giveUp(silent) })}
	r = r.Clone(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sentBody{r.Body, waiting.extend}
		if again := r.GetBody; again != nil { // of a request that is sent once more, as where a connection has just been closed
			r.GetBody = func() (io.ReadCloser, error) {
				body, err := again()
				if err != nil {
					return nil, err
				}
				return &sentBody{body, waiting.extend}, nil
			}
		}
	}
	answer, err := i.inner.RoundTrip(r)
	waiting.end()
	if err != nil {
		if errors.Is(context.Cause(ctx), silent) {
			err = silent
		}
		giveUp(nil)
		return nil, err
	}
	answer.Body = &receivedBody{of: answer.Body, ctx: ctx, giveUp: giveUp, silent: silent}
	return answer, nil
}

// deadline is until when a request may be without a byte. What is sent of it once there is an
// answer extends it no more.
type deadline struct {
	after time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once it does not matter
}

func (d *deadline) extend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Reset(d.after)
	}
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	d.timer = nil
}

// sentBody notes that something of a request is sent.
type sentBody struct {
	io.ReadCloser
	sent func()
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.sent()
	n, err := b.ReadCloser.Read(p)
	b.sent()
	return n, err
}

// receivedBody is an answer, of which each read has to give something in time. Who reads it may
// take its time between them.
type receivedBody struct {
	of     io.ReadCloser
	ctx    context.Context
	giveUp context.CancelCauseFunc
	silent *silentError
}

func (b *receivedBody) Read(p []byte) (int, error) {
	timer := time.AfterFunc(b.silent.after, func() { b.giveUp(b.silent) })
	n, err := b.of.Read(p)
	timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), b.silent) {
		err = b.silent
	}
	return n, err
}

func (b *receivedBody) Close() error {
	b.giveUp(nil)
	return b.of.Close()
}
