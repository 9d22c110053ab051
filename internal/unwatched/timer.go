package unwatched

import (
	"context"
	"sync"
	"time"
)

const (
	// longest is the part of a time that is waited for at once.
	longest = 10 * time.Second

	// tolerance is how much longer a part takes at least if the process was stopped meanwhile. A
	// busy machine is late by less.
	tolerance = 5 * time.Second
)

// AfterFunc calls f in a goroutine once d has passed while the process ran: one that was stopped, as by
// SIGSTOP, has time to look at what happened meanwhile before it is late. stop ends the wait. After Most
// such times, further ones count.
func AfterFunc(d time.Duration, f func()) (stop func()) { return afterFunc(d, f, time.Now) }

func afterFunc(d time.Duration, f func(), now func() time.Time) (stop func()) {
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	left, absences := d, 0
	part := func() time.Duration { return min(left, longest) }
	began := now()
	var fired func()
	fired = func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		waited, took := part(), now().Sub(began)
		if absent := took > 2*waited+tolerance; absent && absences < Most {
			absences++ // it is waited for again
		} else {
			left -= max(waited, took)
		}
		if left <= 0 {
			stopped = true
			go f()
			return
		}
		began = now()
		timer = time.AfterFunc(part(), fired)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(part(), fired)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// WithTimeout returns a context that ends as one of context.WithTimeout does, once d has passed while the process ran.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	t := &timed{Context: ctx, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		t.end(err)
		return t, func() {}
	}
	alone := context.AfterFunc(ctx, func() { t.end(ctx.Err()) })
	stop := AfterFunc(d, func() { t.end(context.DeadlineExceeded) })
	return t, func() {
		stop()
		alone()
		t.end(context.Canceled)
	}
}

// timed is a context with an end of its own.
type timed struct {
	context.Context
	done chan struct{}

	mu  sync.Mutex
	err error
}

func (t *timed) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.done)
	}
}

// Done implements context.Context.
func (t *timed) Done() <-chan struct{} { return t.done }

// Err implements context.Context.
func (t *timed) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
