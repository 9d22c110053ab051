package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Tenant is what the loop serves: entities of one kind, each with a state machine.
// All methods are called by the goroutine of the loop; none may wait.
type Tenant[S Machine, K comparable] interface {
	// Acquired and Released tell that the loop controls an entity from now on, or no
	// more.
	Acquired(name string)
	Released(name string)

	// Noted receives an event of an entity that the loop controls, and reports
	// whether more may be possible by it.
	Noted(name string, e deploylog.Event) (more bool)

	// Ended tells that work has ended, before its result is recorded.
	Ended(w *Work[K])

	// Tick is called each second, and before anything else.
	Tick()

	// Observe looks at the world outside the log, for a share of a second at most, and
	// reports whether there is something to record. No lock is held, so it may take
	// long where it must.
	Observe() (found bool)

	// Observed returns what is to be recorded of that, a batch at a time until there
	// is none. The decide lock is held.
	Observed() []Observation

	// Decide adds what may be done about an entity now. The decide lock is held.
	Decide(name string, s S, d *Decision[K])

	// Idle reports whether nothing is under way that the log tells of.
	Idle(s S) bool

	// Probe begins the probes that are due (see Loop.Go). It returns when there is
	// more to observe or to probe, zero is never, and whether all is seen that is to be
	// before anything can be called idle.
	Probe() (next time.Time, seen bool)
}

// Bare is embedded by tenants that need less: it observes and probes nothing.
type Bare[K comparable] struct{}

// Acquired implements Tenant.
func (Bare[K]) Acquired(string) {}

// Released implements Tenant.
func (Bare[K]) Released(string) {}

// Noted implements Tenant.
func (Bare[K]) Noted(string, deploylog.Event) bool { return true }

// Ended implements Tenant.
func (Bare[K]) Ended(*Work[K]) {}

// Tick implements Tenant.
func (Bare[K]) Tick() {}

// Observe implements Tenant.
func (Bare[K]) Observe() bool { return false }

// Observed implements Tenant.
func (Bare[K]) Observed() []Observation { return nil }

// Probe implements Tenant.
func (Bare[K]) Probe() (time.Time, bool) { return never, true }

// Observer is told what a loop does, one call at a time, in the order in which it
// happened. The loop goes on when the call returns; it holds no lock meanwhile.
type Observer interface {
	Recorded(e deploylog.Event)
	Notice(text string)
}

// Options are those of every loop. All fields are required but where it says otherwise.
type Options struct {
	Log         deploylog.Log
	Scope       *Scope // what it is to control; nil is all
	Parallelism int    // work that is done at once; also, so many probes are
	MaxEntities int    // controlled at once, each of which keeps a file open; 0 is any number
	UntilIdle   bool   // end when no progress is possible
	Drain       Drain  // may be nil
	Now         func() time.Time
}

// Setup is what makes a loop that of a tenant.
type Setup[S Machine, K comparable] struct {
	Options
	Fold        *Fold[S] // of nobody else
	Tenant      Tenant[S, K]
	Observer    Observer
	Role        string                // what people call the process: controller
	Slots       func(host string) int // how much work may be done on a host at once
	Interrupted error                 // what work fails with that gave up because of a drain
}

// Loop reconciles the entities of one kind, see the package.
type Loop[S Machine, K comparable] struct {
	Setup[S, K]
	fold   *Fold[S]
	tenant Tenant[S, K]

	own      ownership
	queue    OrderedSet[string] // entities to decide about
	wakes    DelayQueue[string] // and when to do so because time has passed
	moving   map[string]bool    // controlled entities that are not idle; only with UntilIdle
	slots    slots[K]
	running  int // work that was started and has not come back
	failures map[K]failure
	scans    map[string]scan
	ticks    int
	ticked   time.Time
	refused  Refusals

	life      context.Context //nolint:containedctx // of the jobs; it ends with the loop
	jobs      sync.WaitGroup
	inbox     chan func()
	results   []result[K] // not recorded yet
	recording bool        // what is noted is recorded by this loop
	found     bool        // there is something observed to record
	next      time.Time   // when there is more to observe or to probe
	seen      bool        // all that is to be before anything is idle
	news      bool        // there is something that others recorded
	newest    atomic.Int64
	yieldTo   time.Time // until then the decide lock is left to others
	deferred  []func()  // notifications for when no lock is held
}

var never time.Time

// tickPause is how long a change of the world outside the log goes unnoticed at most.
const tickPause = time.Second

// New prepares a loop; Run starts it.
func New[S Machine, K comparable](s Setup[S, K]) *Loop[S, K] {
	s.Parallelism = max(1, s.Parallelism)
	if s.Scope == nil {
		s.Scope = All()
	}
	l := &Loop[S, K]{
		Setup: s, fold: s.Fold, tenant: s.Tenant, own: newOwnership(), moving: map[string]bool{},
		slots: newSlots[K](s.Parallelism, s.Slots), failures: map[K]failure{}, scans: map[string]scan{},
		inbox: make(chan func(), 2*s.Parallelism),
	}
	l.refused = l.fold.Refusals()
	return l
}

// Run reconciles until the context or a drain ends it, or, with UntilIdle, until no
// progress is possible. It returns when everything that it began has ended. An
// entity whose events the log refuses is left out until something new of it is in the
// log; with UntilIdle the error tells. Run is called once.
func (l *Loop[S, K]) Run(ctx context.Context) error {
	if !l.scoped(ctx) {
		return nil
	}
	if err := l.fold.Follow(ctx, 0); err != nil {
		return err
	}
	for _, name := range l.Scope.given {
		if err := l.fold.Ask(name, func(S) error { return nil }); err != nil {
			return err
		}
	}
	l.fold.Told = append(l.fold.Told, l.note)
	return l.run(ctx)
}

// scoped waits until there is something to control, and reports whether there is.
func (l *Loop[S, K]) scoped(ctx context.Context) bool {
	for !l.Scope.all && len(l.Scope.named()) == 0 {
		select {
		case <-l.Scope.changed:
		case <-l.Drain:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (l *Loop[S, K]) run(ctx context.Context) (err error) {
	life, end := context.WithCancel(ctx)
	l.life = life
	news := watch(life, l.Log, l.fold.Head(), l.fold.NameOf, &l.newest)
	tick := time.NewTicker(tickPause)
	defer func() {
		tick.Stop()
		end()
		if err != nil && ctx.Err() == nil && l.running > 0 {
			l.Observer.Notice(fmt.Sprintf("the %s ends when what it has begun is done: %v", l.Role, err))
		}
		if failed := l.finish(ctx); err == nil {
			err = failed
		}
		for range news { // until the watch has ended
		}
	}()
	l.considerAll()
	if err := l.acquire(ctx); err != nil {
		return err
	}
	l.tick()
	for {
		l.flush()
		more, err := l.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case l.Drain.Started():
			return nil
		case l.UntilIdle && !more && l.idle():
			if over, err := l.upToDate(ctx); over || err != nil {
				return errors.Join(err, l.refused.Err())
			}
			continue
		}
		if err := l.wait(ctx, more, news, tick.C); err != nil {
			return err
		}
	}
}

// note receives every event of the log, in order.
func (l *Loop[S, K]) note(e deploylog.Event) {
	name, ok := l.fold.NameOf(e.Target)
	if !ok {
		return
	}
	s, ok := l.fold.States[name]
	if !ok {
		return
	}
	if !l.own.controlled[name] || !l.fold.Exists(s) {
		l.consider(name)
	}
	if !l.own.controlled[name] {
		return
	}
	if !l.recording {
		delete(l.scans, name) // so that the next one is whole
	}
	if l.tenant.Noted(name, e) {
		l.queue.Add(name)
	}
	l.Notify(func() { l.Observer.Recorded(e) })
}

// tick looks whether the world has changed, of which nobody may have told.
func (l *Loop[S, K]) tick() {
	l.ticks++
	now := l.Now().Round(0)
	if now.Before(l.ticked) { // the clock was set back: what is due is not known any more
		for name := range l.own.controlled {
			l.queue.Add(name)
		}
	}
	l.ticked = now
	l.retryElsewhere()
	l.tenant.Tick()
}

// idle reports whether no progress is possible, here or by those that control what
// this loop cannot.
func (l *Loop[S, K]) idle() bool {
	if len(l.slots.keys) > 0 || len(l.moving) > 0 || len(l.results) > 0 || !l.seen {
		return false
	}
	for _, name := range l.own.elsewhere.members {
		if !l.tenant.Idle(l.fold.States[name]) {
			return false
		}
	}
	return true
}

// upToDate reports whether nothing has come that is not decided about: the observer,
// which was told everything just now, may give commands.
func (l *Loop[S, K]) upToDate(ctx context.Context) (bool, error) {
	err := l.fold.Follow(ctx, 0)
	return !l.more(), err
}

// wait receives what happens, and returns when there may be something to do. When
// there is more to do anyway it waits for nothing.
func (l *Loop[S, K]) wait(ctx context.Context, more bool, news <-chan error, tick <-chan time.Time) error {
	var due <-chan time.Time
	busy := make(chan struct{})
	if more {
		close(busy)
	} else if at := Earlier(l.wakes.Next(), l.next); !at.IsZero() {
		timer := time.NewTimer(at.Sub(l.Now()))
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-ctx.Done():
		case <-l.Drain:
		case <-busy:
		case <-due:
		case <-tick:
			l.tick()
		case <-l.Scope.changed:
			l.considerAll()
		case err, ok := <-news:
			if err := received(ctx, err, ok); err != nil {
				return err
			}
			if l.newest.Load() <= l.fold.Head() { // it is what was recorded here
				continue
			}
			l.news = true
		case receive := <-l.inbox:
			receive()
		}
		l.receive()
		return nil
	}
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

// finish lets what is being done end, and gives up all locks.
func (l *Loop[S, K]) finish(ctx context.Context) (err error) {
	ended := make(chan struct{})
	go func() {
		l.jobs.Wait()
		close(ended)
	}()
	for over := false; !over || l.running > 0; {
		select {
		case receive := <-l.inbox:
			receive()
			l.receive()
		case <-ended:
			over, ended = true, nil
		}
		if failed := l.settle(ctx); err == nil {
			err = failed
		}
		l.flush()
	}
	l.receive()
	if failed := l.settle(ctx); err == nil {
		err = failed
	}
	l.flush()
	for _, unlock := range l.own.held {
		unlock()
	}
	return err
}

// Go has a job done in a goroutine of its own, whose context ends with the loop, or by
// end. What it returns is called by the loop; it may be nil.
func (l *Loop[S, K]) Go(job func(ctx context.Context) (then func())) (end func()) {
	ctx, end := context.WithCancel(l.life)
	l.jobs.Go(func() {
		then := job(ctx)
		if then == nil {
			end()
			return
		}
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

func (l *Loop[S, K]) notice(text string) { l.Notify(func() { l.Observer.Notice(text) }) }

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

// SlotsChanged tells that hosts may have more slots now.
func (l *Loop[S, K]) SlotsChanged() { l.slots.changed() }

// LeftOut reports whether an entity is left out, because the log refuses its events.
func (l *Loop[S, K]) LeftOut(name string) bool { return l.refused.Out(name) }
