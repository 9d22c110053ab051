package reconcile

import (
	"context"
	"errors"
	"maps"
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

	// Patient is work of which it may be recorded 5 ms later how it ended, with what was observed
	// meanwhile, see Setup.Together. Nothing is decided by that.
	Patient bool

	// Do does it. It is waited for, also when ctx ends.
	Do func(ctx context.Context) error

	// Result returns what is to be recorded of how it ended, which was the nth
	// failure in a row or, with 0, none. When it failed and is to be done again that is
	// after a pause, see Pause. It is called by the loop, which, unless the loop is Conditional,
	// may not have followed the newest commands: it must return what would be right had they
	// come after it.
	Result func(err error, failures int) (events []deploylog.Event, again bool)

	err   error // how it ended
	freed bool  // its slots were given back
}

// patience is for how long the end of Patient work waits to be recorded with something else.
const patience = 5 * time.Millisecond

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
	l.jobs.Go(func() {
		w.err = errors.New("the work did not return")
		defer func() {
			if p := recover(); p != nil {
				w.err = crash.New(p, "working on "+w.What)
			}
			l.inbox <- func() { l.ended(ctx, w) }
		}()
		w.err = w.Do(ctx)
	})
}

// ended receives how work ended. What was interrupted is not recorded: it is done
// again by whoever controls the entity next.
func (l *Loop[S, K]) ended(ctx context.Context, w *Work[K]) {
	l.slots.end(w)
	interrupted := w.err != nil && (ctx.Err() != nil || l.Drain.Started() && errors.Is(w.err, l.Interrupted))
	if interrupted {
		return
	}
	due := time.Now()
	if w.Patient {
		due = due.Add(patience)
	}
	if len(l.results) == 0 || due.Before(l.due) {
		l.due = due
	}
	l.results = append(l.results, w)
}

// Free gives the slots of work back though it has not ended: it is stuck, or nobody wants
// it any more. Until it ends none of its key begins.
func (l *Loop[S, K]) Free(w *Work[K]) {
	if !w.freed {
		l.slots.giveBack(w)
		l.slots.release(w.Host, w.Holder)
		l.queue.Add(w.Entity)
	}
}

// Hold has somebody hold a slot of a host, as if work of theirs had begun, unless others have
// all of them, and reports whether they hold one. Release gives it back.
func (l *Loop[S, K]) Hold(host string, holder K) bool {
	if !l.slots.roomOn(host, holder) {
		return false
	}
	l.slots.hold(host, holder)
	return true
}

// Release gives a slot of a host back that somebody holds.
func (l *Loop[S, K]) Release(host string, holder K) { l.slots.release(host, holder) }

// settle records how work ended. These are facts, whatever became of their entities
// and of this loop; so the decide lock is not needed, and others may take it, unless what
// they cause is conditional. Who has the lock for that records them by record, before it is
// released.
func (l *Loop[S, K]) settle(ctx context.Context, record func(ctx context.Context, facts []*transition[K]) error) error {
	if len(l.results) == 0 {
		return nil
	}
	recording := context.WithoutCancel(ctx)
	if !l.Conditional {
		return l.record(recording, l.judgeAll())
	}
	locking, end := context.WithCancel(recording)
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(l.late()), end) })()
	return l.Fold.Hold(locking, func() error { return record(recording, l.judgeAll()) })
}

// lastLock is for how long a loop that is to end at once waits for the decide lock in all, to
// record how work ended: a process ends within 2 s of the second signal.
const lastLock = 1500 * time.Millisecond

// judgeAll returns what is to be recorded of how work ended.
func (l *Loop[S, K]) judgeAll() []*transition[K] {
	var all []*transition[K]
	for _, w := range l.results {
		l.queue.Add(w.Entity) // for its slot is free now, even if nothing is recorded
		if events := l.judge(w); len(events) > 0 {
			all = append(all, &transition[K]{Observation: Observation{w.Entity, events}, fact: true})
		}
	}
	l.results = nil
	return all
}

// judge returns what is to be recorded of how work ended.
func (l *Loop[S, K]) judge(w *Work[K]) []deploylog.Event {
	f := failure{attempt: w.Attempt}
	if w.err != nil {
		if last := l.failures[w.Key]; last.attempt == w.Attempt {
			f = last
		}
		f.n++
	}
	events, again := w.Result(w.err, f.n)
	if again && w.err != nil {
		f.until = l.Now().Add(Pause(f.n))
		l.failures[w.Key] = f
	} else {
		delete(l.failures, w.Key)
	}
	return events
}

// Forget drops what is remembered of failed work that will not be tried again.
func (l *Loop[S, K]) Forget(over func(key K, attempt int) bool) {
	maps.DeleteFunc(l.failures, func(key K, f failure) bool { return over(key, f.attempt) })
}
