package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Scope is what a loop is to control. It is safe for concurrent use.
type Scope struct {
	given   []string
	mu      sync.Mutex
	names   map[string]int // how often each was asked for; nil is all
	changed chan struct{}
}

// All is every entity that there is, and that there will be.
func All() *Scope { return &Scope{} }

// Only is the entities that are named, and those that are added.
func Only(names ...string) *Scope {
	s := &Scope{given: names, names: map[string]int{}, changed: make(chan struct{}, 1)}
	for _, name := range names {
		s.names[name]++
	}
	return s
}

// Of is the entities that are named, or all when none is.
func Of(names ...string) *Scope {
	if len(names) == 0 {
		return All()
	}
	return Only(names...)
}

// Add has an entity controlled until remove is called.
func (s *Scope) Add(name string) (remove func()) {
	s.count(name, 1)
	return sync.OnceFunc(func() { s.count(name, -1) })
}

func (s *Scope) count(name string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] += by; s.names[name] == 0 {
		delete(s.names, name)
	}
	select {
	case s.changed <- struct{}{}:
	default: // the loop has not seen the last change yet
	}
}

// has reports whether an entity is to be controlled.
func (s *Scope) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names == nil || s.names[name] > 0
}

// named returns the entities of a scope, unless it is all.
func (s *Scope) named() (names []string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names)), s.names == nil
}

// ownership is which entities a loop controls: those whose lock it holds and that
// are to be controlled. It holds the lock of another one only until the work on it
// has ended.
//
// What is to be controlled anywhere is, as far as the loop knows, in one of these; with share.go:
//
//	controlled          it has the lock, and decides; in leaving until it gives that up to another loop
//	candidates          to be considered, whatever else it is in
//	elsewhere           another has the lock, which is tried again: nobody else is to have it
//	share.theirs        another is to have it, and the lock is not tried; in due when it will be
//	declined            it is not to be controlled here
//
// Of controlled, elsewhere, share.theirs and declined each excludes the others. What is in
// share.kept is controlled, or a candidate, though another was to have it.
type ownership struct {
	held       map[string]func()  // locks
	behind     bool               // there was no time to unlock all that are to be
	controlled map[string]bool    // and to be controlled
	candidates OrderedSet[string] // to be controlled, perhaps; their locks are to be tried
	elsewhere  OrderedSet[string] // controlled by others
	retried    time.Time          // when locks of those were tried again, the last time

	// Of these the observer is notified together, when all candidates were tried.
	taken    map[string]error // turned out to be controlled by others, and who has the lock
	released []string         // by others, and controlled here

	declined map[string]string // why they are not to be controlled here
	noticed  map[string]string // of those, what the observer was notified of
}

const (
	// acquireShare is how long locks are taken, or given up, before all else has its turn. What is
	// taken at once ends later where that takes longer: of thousands seconds, on a slow server.
	acquireShare = 50 * time.Millisecond

	// retryPause is how often the locks of others are tried again, and retriedAtOnce how
	// many of them. So what a process controlled that has ended is taken over at once,
	// for when one of its locks is free, all are tried.
	retryPause    = 100 * time.Millisecond
	retriedAtOnce = 8
)

// lockOf is the lock of whoever controls an entity.
func lockOf(one, name string) string { return one + "/" + name }

// Controlled reports whether some loop controls an entity.
func (f *Fold[S]) Controlled(name string) bool {
	held, err := f.log.Locked(lockOf(f.One, name))
	return held || err != nil
}

// Controls reports whether the loop controls an entity.
func (l *Loop[S, K]) Controls(name string) bool { return l.own.controlled[name] }

// considerAll has it found out of all there are whether they are to be controlled, when
// the scope has changed.
func (l *Loop[S, K]) considerAll() {
	names, all := l.Scope.named()
	if all {
		names = slices.Collect(maps.Keys(l.Fold.States))
	}
	l.own.candidates.Add(names...)
	l.own.candidates.Add(slices.Collect(maps.Keys(l.own.controlled))...)
	l.own.candidates.Add(l.own.elsewhere.members...)
}

// acquire takes the locks of the candidates, of as many as there is time for, and gives
// up what is not to be controlled any more. What is controlled then is followed to the
// newest event, for another process may have controlled it until now.
func (l *Loop[S, K]) acquire(ctx context.Context) error {
	l.recount(ctx)
	l.handOver()
	l.findUntaken(ctx)
	l.takeUntaken()
	l.retryElsewhere()
	own := &l.own
	var fresh []string
	for started := time.Now(); own.candidates.Len() > 0 && time.Since(started) < acquireShare; {
		taken, err := l.take(l.wanted(l.lockedAtOnce()))
		if err != nil {
			return err
		}
		fresh = append(fresh, taken...)
	}
	own.elsewhere.remove(fresh...)
	l.share.forget(fresh...)
	l.noticeOwnership()
	if len(fresh) == 0 {
		return nil
	}
	if err := l.Fold.Follow(ctx, 0); err != nil {
		return err
	}
	for _, name := range fresh {
		own.controlled[name] = true
		l.Tenant.Acquired(name)
		l.queue.Add(name)
	}
	return nil
}

// wanted considers candidates, and returns so many of them whose locks are to be taken, at most.
func (l *Loop[S, K]) wanted(most int) (names []string) {
	own := &l.own
	for own.candidates.Len() > 0 && len(names) < most {
		name := own.candidates.Pop()
		if s, ok := l.Fold.States[name]; !ok || !l.Scope.has(name) || !l.Fold.Exists(s) {
			l.giveUp(name)
			delete(own.declined, name)
			continue
		} else if why := l.Tenant.Declines(s); why != "" {
			l.giveUp(name)
			own.declined[name] = why
			continue
		}
		delete(own.declined, name)
		switch wanted := l.wants(name); {
		case own.controlled[name] && !wanted:
			l.share.leaving.Add(name)
		case own.controlled[name]:
		case !wanted:
			l.leaveTo(name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// take takes the locks of entities, and returns of which it got them. What another holds is
// remembered.
func (l *Loop[S, K]) take(names []string) (taken []string, err error) {
	own := &l.own
	for i, failed := range l.lock(names...) {
		switch name := names[i]; {
		case failed == nil:
			if (own.elsewhere.has[name] || l.share.theirs[name] != "") && own.taken[name] == nil {
				own.released = append(own.released, name)
			}
			delete(own.taken, name)
			taken = append(taken, name)
		case !errors.Is(failed, deploylog.ErrLocked):
			return nil, fmt.Errorf("locking %s %s: %w", l.Fold.One, name, failed)
		case !l.mine(name):
			delete(l.share.kept, name) // it is taken, by who is to have it or by another
		case !own.elsewhere.has[name]:
			l.share.forget(name)
			own.elsewhere.Add(name)
			own.taken[name] = failed
		}
	}
	return taken, nil
}

// retryElsewhere tries some of the locks that others hold. When one is free, more may be.
func (l *Loop[S, K]) retryElsewhere() {
	own := &l.own
	if own.elsewhere.Len() == 0 || l.share.standsBy() || time.Since(own.retried) < retryPause {
		return
	}
	own.retried = time.Now()
	some := own.elsewhere.First(retriedAtOnce)
	own.elsewhere.Add(some...)
	if slices.ContainsFunc(l.lock(some...), func(err error) bool { return !errors.Is(err, deploylog.ErrLocked) }) {
		own.candidates.Add(own.elsewhere.members...)
	}
}

// noticeOwnership notifies of what the loop stands by for, and of what it takes over.
func (l *Loop[S, K]) noticeOwnership() {
	own := &l.own
	if own.candidates.Len() > 0 {
		return
	}
	counted := func(names []string) string {
		if len(names) == 1 {
			return names[0]
		}
		return fmt.Sprintf("%d %s, such as %s", len(names), l.Fold.Many, names[0])
	}
	if names := slices.Sorted(maps.Keys(own.taken)); len(names) > 0 {
		l.notice("standing by for %s: another %s is at work on %s (%v)", counted(names), l.Role, names[0], own.taken[names[0]])
	}
	if names := own.released; len(names) > 0 {
		l.notice("taking over %s, which another %s has released", counted(names), l.Role)
	}
	for _, name := range slices.Sorted(maps.Keys(own.declined)) {
		why := own.declined[name]
		if own.noticed[name] == why {
			continue
		}
		var same []string
		for _, other := range slices.Sorted(maps.Keys(own.declined)) {
			if own.declined[other] == why && own.noticed[other] != why {
				same = append(same, other)
				own.noticed[other] = why
			}
		}
		l.notice("leaving %s alone: %s", counted(same), why)
	}
	maps.DeleteFunc(own.noticed, func(name, _ string) bool { return own.declined[name] == "" })
	clear(own.taken)
	own.released = nil
}

// Reconsider has it found out anew what is to be controlled here, when what a tenant
// declines may be another.
func (l *Loop[S, K]) Reconsider() { l.considerAll() }

// declined is the error about what was named and is declined.
func (l *Loop[S, K]) declined() error {
	var all []error
	for _, name := range l.Scope.given {
		if why := l.own.declined[name]; why != "" {
			all = append(all, fmt.Errorf("%s %s is left alone: %s", l.Fold.One, name, why))
		}
	}
	return errors.Join(all...)
}

// giveUp controls an entity no more.
func (l *Loop[S, K]) giveUp(name string) {
	l.own.elsewhere.remove(name)
	l.share.forget(name)
	delete(l.share.kept, name)
	delete(l.own.taken, name)
	if l.own.controlled[name] {
		delete(l.own.controlled, name)
		l.wakes.Set(name, never)
		l.Tenant.Released(name)
	}
}

// release unlocks the entities that it does not control, or not any more since it ends, and on
// which nothing is in flight any more: of those as many as there is time for.
func (l *Loop[S, K]) release() {
	own := &l.own
	if own.behind = false; len(own.held) == len(own.controlled) && !l.over || len(l.results) > 0 {
		return
	}
	var idle []string
	for name := range own.held {
		if (!own.controlled[name] || l.over) && l.slots.of[name] == 0 {
			idle = append(idle, name)
		}
	}
	started := time.Now()
	for some := range slices.Chunk(idle, l.lockedAtOnce()) {
		if own.behind = time.Since(started) >= acquireShare; own.behind {
			return
		}
		l.end(some...)
	}
}

// end unlocks entities, which are not controlled any more before others may have them.
func (l *Loop[S, K]) end(names ...string) {
	for _, name := range names {
		if l.own.controlled[name] {
			l.giveUp(name)
		}
	}
	l.unlock(names...)
}
