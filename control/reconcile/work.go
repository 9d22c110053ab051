package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// Work is done in a goroutine of its own, after the events of its transition were
// recorded. It must be safe to do again, for a process that died may have done it.
type Work[K comparable] struct {
	Slot[K]
	Entity string // set by Begin
	What   string // what it works on, for whoever reads of a panic

	// Do does it. It is waited for, also when ctx ends.
	Do func(ctx context.Context) error

	// Result returns what is to be recorded of how it ended, which was the nth
	// failure in a row or not one at all. When it is to be done again that is after a
	// pause, see Pause. It is called by the loop.
	Result func(err error, failures int) (events []deploylog.Event, again bool)
}

// result is how work ended.
type result[K comparable] struct {
	work *Work[K]
	err  error
}

// failure is what is remembered of work between two tries.
type failure struct {
	attempt, n int
	until      time.Time
}

// rests reports whether it is too early for another try. Where the clock was set back
// it is not.
func (f failure) rests(now time.Time) bool {
	left := f.until.Sub(now)
	return left > 0 && left <= Pause(f.n)
}

// Pause is how long work rests that failed so many times: a second at first, then
// double, up to a minute.
func Pause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(failures-1, doublings), time.Minute)
}

// start has work done. Whoever starts it has begun its slots.
func (l *Loop[S, K]) start(ctx context.Context, w *Work[K]) {
	l.running++
	go func() {
		err := errors.New("the work did not return")
		defer func() {
			if p := recover(); p != nil {
				err = crash.New(p, "working on "+w.What)
			}
			l.inbox <- func() { l.ended(ctx, w, err) }
		}()
		err = w.Do(ctx)
	}()
}

// ended receives how work ended. What was interrupted is not recorded: it is done
// again by whoever controls the entity next.
func (l *Loop[S, K]) ended(ctx context.Context, w *Work[K], err error) {
	l.running--
	l.slots.end(w)
	l.tenant.Ended(w)
	if err != nil && (ctx.Err() != nil || l.Drain.Started() && errors.Is(err, l.Interrupted)) {
		return
	}
	l.results = append(l.results, result[K]{w, err})
}

// settle records how work ended. These are facts, whatever became of their entities
// and of this loop; so the decide lock is not needed, and is free meanwhile.
func (l *Loop[S, K]) settle(ctx context.Context) error {
	if len(l.results) == 0 {
		return nil
	}
	results := l.results
	l.results = nil
	var all []*transition[K]
	for _, r := range results {
		l.queue.Add(r.work.Entity) // for its slot is free now, even if nothing is recorded
		if events := l.judge(r); len(events) > 0 {
			all = append(all, &transition[K]{entity: r.work.Entity, head: l.fold.States[r.work.Entity].Head(), events: events, fact: true})
		}
	}
	return l.record(context.WithoutCancel(ctx), all)
}

func (l *Loop[S, K]) judge(r result[K]) []deploylog.Event {
	w := r.work
	if r.err == nil {
		delete(l.failures, w.Key)
		events, _ := w.Result(nil, 0)
		return events
	}
	f := l.failures[w.Key]
	if f.attempt != w.Attempt {
		f = failure{attempt: w.Attempt}
	}
	f.n++
	events, again := w.Result(r.err, f.n)
	if again {
		f.until = l.Now().Add(Pause(f.n))
		l.failures[w.Key] = f
	} else {
		delete(l.failures, w.Key)
	}
	return events
}

// Forget drops what is remembered of failed work that will not be tried again.
func (l *Loop[S, K]) Forget(over func(key K, attempt int) bool) {
	for key, f := range l.failures {
		if over(key, f.attempt) {
			delete(l.failures, key)
		}
	}
}
