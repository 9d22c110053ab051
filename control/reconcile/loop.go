package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// Loop reconciles the entities of one kind, see the package.
type Loop[S Machine, K comparable] struct {
	Setup[S, K]

	own      ownership
	share    share
	queue    OrderedSet[string] // entities to decide about
	wakes    DelayQueue[string] // and when to do so because time has passed
	slots    slots[K]
	failures map[K]failure
	scans    map[string]scan
	ticked   time.Time // last
	nextTick time.Time
	heart    heart
	refused  map[string]refusal

	life     context.Context //nolint:containedctx // of the jobs; it ends with the loop
	jobs     sync.WaitGroup  // and work
	inbox    chan func()
	results  []*Work[K]       // that has ended, which is not recorded yet
	due      time.Time        // when that is to be
	found    bool             // there is something observed to record
	next     time.Time        // when there is more to observe or to probe
	seen     bool             // all that is to be before anything is idle
	news     bool             // there is something that others recorded
	unkept   bool             // it was said that no snapshot can be kept
	over     bool             // it ends, and others are to control all but what is in flight
	yieldTo  time.Time        // until then the decide lock is left to others
	passed   time.Time        // when the last pass began
	deferred []func()         // notifications for when no lock is held
	late     func() time.Time // when the decide lock is waited for no more; called once the loop is to end at once

	grown  chan struct{} // receives when there is a newer event of the kind
	newest atomic.Int64  // which
	broken error         // why that is not known any more
}

// tickPause is how long a change of the world outside the log goes unnoticed at most.
const tickPause = time.Second

// New prepares a loop; Run starts it.
func New[S Machine, K comparable](s Setup[S, K]) *Loop[S, K] {
	s.Parallelism = max(1, s.Parallelism)
	if s.Scope == nil {
		s.Scope = All()
	}
	return &Loop[S, K]{
		Setup: s, own: ownership{held: map[string]func(){}, controlled: map[string]bool{}, taken: map[string]error{}, declined: map[string]string{}, noticed: map[string]string{}},
		slots: newSlots[K](s.Parallelism, s.Slots), failures: map[K]failure{}, scans: map[string]scan{}, refused: map[string]refusal{},
		inbox: make(chan func(), 2*s.Parallelism), grown: make(chan struct{}, 1),
		late: sync.OnceValue(func() time.Time { return time.Now().Add(lastLock) }),
	}
}

// Run reconciles until the context or a drain ends it, or, with UntilIdle, until no
// progress is possible. It returns when everything that it began has ended. An
// entity whose events the log refuses is left out until something new of it is in the
// log, and with UntilIdle the error names it. Run is called once.
func (l *Loop[S, K]) Run(ctx context.Context) (err error) {
	if !l.scoped(ctx) {
		return nil
	}
	if err := l.Fold.Follow(ctx, 0); err != nil {
		return err
	}
	for _, name := range l.Scope.given {
		if err := l.Fold.Ask(name, func(S) error { return nil }); err != nil {
			return err
		}
	}
	l.Fold.Subscribers = append(l.Fold.Subscribers, l.receiveEvent)
	life, end := context.WithCancel(ctx)
	l.life = life
	defer func() {
		end()
		if err != nil && ctx.Err() == nil && len(l.slots.keys) > 0 {
			l.Observer.Notice(fmt.Sprintf("the %s ends when what it has begun is done: %v", l.Role, err))
		}
		if failed := l.finish(ctx); err == nil {
			err = failed
		}
	}()
	l.watch()
	return l.run(ctx)
}

// scoped waits until there is something to control, and reports whether there is.
func (l *Loop[S, K]) scoped(ctx context.Context) bool {
	for {
		if names, all := l.Scope.named(); all || len(names) > 0 {
			return true
		}
		select {
		case <-l.Scope.changed:
		case <-l.Drain:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (l *Loop[S, K]) run(ctx context.Context) error {
	l.nextTick = time.Now().Add(tickPause)
	l.heart.start(l.Log)
	defer l.heart.stop()
	if err := l.join(ctx); err != nil {
		return err
	}
	l.considerAll()
	if err := l.acquire(ctx); err != nil {
		return err
	}
	l.tick()
	for {
		l.beat()
		err := l.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case l.broken != nil:
			return l.broken
		case l.Drain.Started():
			return nil
		case l.UntilIdle && !l.more() && l.idle():
			// The observer, which was notified of everything just now, may give commands.
			if err := l.Fold.Follow(ctx, 0); err != nil || !l.more() {
				return errors.Join(err, l.leftOut(), l.declined())
			}
			continue
		}
		l.wait(ctx)
	}
}

// watch has it noticed that there is a new event of the kind in the log.
func (l *Loop[S, K]) watch() {
	after := l.Fold.Head()
	l.Go(func(ctx context.Context) func() {
		err := crash.Do("watching the log", func() error {
			for e, err := range l.Log.Watch(ctx, deploylog.Filter{After: after}) {
				if err != nil {
					return fmt.Errorf("watching the log: %w", err)
				}
				if _, ok := l.Fold.NameOf(e.Target); !ok {
					continue
				}
				l.newest.Store(e.Seq)
				select {
				case l.grown <- struct{}{}:
				default: // the last one was not received yet
				}
			}
			return errors.New("watching the log: it ended")
		})
		return func() { l.broken = err }
	})
}

// receiveEvent receives every event of the log, in order.
func (l *Loop[S, K]) receiveEvent(e deploylog.Event) {
	name, _ := l.Fold.NameOf(e.Target)
	s, ok := l.Fold.States[name]
	if !ok {
		return
	}
	if !l.own.controlled[name] || !l.Fold.Exists(s) || l.Tenant.Declines(s) != "" {
		l.own.candidates.Add(name)
	}
	if !l.own.controlled[name] {
		return
	}
	if !l.Fold.own {
		delete(l.scans, name) // so that the next one is whole
	}
	if l.Tenant.Received(name, e) {
		l.queue.Add(name)
	}
	l.Notify(func() { l.Observer.Recorded(e) })
}

// tick looks whether the world has changed, of which there may have been no event.
func (l *Loop[S, K]) tick() {
	clear(l.scans)
	now := l.Now().Round(0)
	if now.Before(l.ticked) { // the clock was set back: what is due is not known any more
		for name := range l.own.controlled {
			l.queue.Add(name)
		}
	}
	l.ticked = now
	l.keepSnapshot()
	l.Tenant.Tick()
}

// idle reports whether no progress is possible, here or by those that control what
// this loop cannot.
func (l *Loop[S, K]) idle() bool {
	if len(l.slots.keys) > 0 || len(l.results) > 0 || !l.seen {
		return false
	}
	for name := range l.own.controlled {
		if !l.LeftOut(name) && !l.Tenant.Idle(l.Fold.States[name]) {
			return false
		}
	}
	return !slices.ContainsFunc(l.own.elsewhere.members, func(name string) bool { return !l.Tenant.Idle(l.Fold.States[name]) })
}

// wait receives what happens, and returns when there may be something to do. When there
// is more to do anyway it only waits while the decide lock is left to others, and
// what ends in that time is recorded together.
func (l *Loop[S, K]) wait(ctx context.Context) {
	pause := tickPause
	if at := Earlier(l.wakes.Next(), l.next); !at.IsZero() {
		pause = min(pause, at.Sub(l.Now()))
	}
	if len(l.results) > 0 {
		pause = min(pause, time.Until(l.due))
	}
	if l.own.elsewhere.Len() > 0 {
		pause = min(pause, retryPause)
	}
	if l.share.among != nil {
		pause = min(pause, recountPause)
	}
	yields := false
	if l.more() {
		now := time.Now()
		pause = max(l.yieldTo.Sub(now), l.Commands.until(now, l.passed).Sub(now))
		yields = pause > 0
	}
	due := atOnce()
	if pause = min(pause, time.Until(l.nextTick)); pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	for waiting := true; waiting; {
		waiting = false
		select {
		case <-ctx.Done():
		case <-l.Drain:
		case <-due:
		case <-l.Scope.changed:
			l.considerAll()
		case <-l.grown:
			waiting = l.newest.Load() <= l.Fold.Head() // it is what was recorded here
			l.news = l.news || !waiting
		case receive := <-l.inbox:
			receive()
			waiting = yields
		}
	}
	runtime.Gosched() // what is about to end is recorded with what has ended
	l.receive()
	l.tickWhenDue()
}

// tickWhenDue ticks once for all ticks that are due, and keeps to their times. They have no timer of
// their own: a loop with much to do would look at it only by chance.
func (l *Loop[S, K]) tickWhenDue() {
	if late := time.Since(l.nextTick); late >= 0 {
		l.nextTick = l.nextTick.Add(late.Truncate(tickPause) + tickPause)
		l.tick()
	}
}

// atOnce is from which a receive need not wait. Timers that are due already would do, but two of
// them at the same time in a bubble of testing/synctest crash the race detector of Go 1.26.
func atOnce() <-chan time.Time {
	ready := make(chan time.Time)
	close(ready)
	return ready
}

// receive takes what else has come.
func (l *Loop[S, K]) receive() {
	for {
		select {
		case receive := <-l.inbox:
			receive()
		default:
			return
		}
	}
}

// finish lets what is being done end, and gives up all locks: those at once on whose entities
// nothing is done, where others share them. Until then it follows the log, for somebody may not
// want any more what is being done.
func (l *Loop[S, K]) finish(ctx context.Context) (err error) {
	l.leave()
	ended := make(chan struct{})
	go func() {
		l.jobs.Wait()
		close(ended)
	}()
	tick := time.NewTicker(tickPause)
	defer tick.Stop()
	l.release()
	for over := false; !over; {
		var more <-chan time.Time
		if l.own.behind {
			more = atOnce()
		}
		select {
		case <-more:
		case <-tick.C:
			if ctx.Err() == nil && err == nil {
				err = l.Fold.Follow(ctx, 0)
			}
		case receive := <-l.inbox:
			receive()
		case <-ended:
			over = true
		}
		l.receive()
		if failed := l.settle(ctx, l.record); err == nil {
			err = failed
		}
		l.flush()
		l.release()
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(l.own.held)), manyLocks) {
		l.end(some...)
	}
	return err
}

// Go has a job done in a goroutine of its own, whose context ends with the loop, or by
// end. What it returns is called by the loop.
func (l *Loop[S, K]) Go(job func(ctx context.Context) (then func())) (end func()) {
	ctx, end := context.WithCancel(l.life)
	l.jobs.Go(func() {
		then := job(ctx)
		l.inbox <- func() {
			then()
			end()
		}
	})
	return end
}

// Post has something called by the loop, unless that has ended. It may be called by
// every goroutine that Go has begun.
func (l *Loop[S, K]) Post(receive func()) {
	select {
	case l.inbox <- receive:
	case <-l.life.Done():
	}
}

// Notify has something called when no lock is held: the observer may be slow, and
// others wait for the locks.
func (l *Loop[S, K]) Notify(what func()) { l.deferred = append(l.deferred, what) }

func (l *Loop[S, K]) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.Notify(func() { l.Observer.Notice(text) })
}

func (l *Loop[S, K]) flush() {
	for _, what := range l.deferred {
		what()
	}
	l.deferred = l.deferred[:0]
}

// Enqueue has an entity decided about.
func (l *Loop[S, K]) Enqueue(name string) {
	if l.own.controlled[name] {
		l.queue.Add(name)
	}
}

// Busy reports whether work with a key is being done.
func (l *Loop[S, K]) Busy(key K) bool { return l.slots.keys[key] }

// CountBusy counts the work that is being done whose keys are such.
func (l *Loop[S, K]) CountBusy(such func(K) bool) (n int) {
	for key := range l.slots.keys {
		if such(key) {
			n++
		}
	}
	return n
}

// SlotsChanged lets hosts have more slots than before, if they do.
func (l *Loop[S, K]) SlotsChanged() { l.slots.changed() }
