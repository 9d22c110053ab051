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

// WithTimeout returns a context that is canceled, with the cause context.DeadlineExceeded, once d has
// passed while the process ran.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithCancelCause(ctx)
	stop := AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return bounded, func() {
		stop()
		cancel(nil)
	}
}
