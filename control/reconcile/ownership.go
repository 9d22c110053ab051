package reconcile

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// ownership is which entities a loop controls: those whose lock it holds and that
// are to be controlled. It holds the lock of another one only until the work on it
// has ended.
type ownership struct {
	held       map[string]func()  // locks
	controlled map[string]bool    // and to be controlled
	candidates OrderedSet[string] // to be controlled, perhaps; their locks are to be tried
	elsewhere  OrderedSet[string] // controlled by others
	waits      string             // the one of them whose lock is waited for
	endWait    func()
}

func newOwnership() ownership {
	return ownership{held: map[string]func(){}, controlled: map[string]bool{}}
}

// lockOf is the lock of whoever controls an entity.
func lockOf(one, name string) string { return one + "/" + name }

// Controlled reports whether some loop controls an entity of a kind, of which one is
// called so.
func Controlled(log deploylog.Log, one, name string) bool {
	unlock, err := log.TryLock(lockOf(one, name))
	if err != nil {
		return true
	}
	unlock()
	return false
}

// wanted reports whether an entity is one to control.
func (l *Loop[S, K]) wanted(name string) bool {
	s, ok := l.fold.States[name]
	return ok && l.Scope.has(name) && l.fold.Exists(s)
}

// Controls reports whether the loop controls an entity.
func (l *Loop[S, K]) Controls(name string) bool { return l.own.controlled[name] }

// consider has it found out whether an entity is to be controlled.
func (l *Loop[S, K]) consider(names ...string) { l.own.candidates.Add(names...) }

// considerAll does so for all there are, when the scope has changed.
func (l *Loop[S, K]) considerAll() {
	if l.Scope.all {
		for name := range l.fold.States {
			l.consider(name)
		}
		return
	}
	l.consider(l.Scope.named()...)
	for name := range l.own.controlled {
		l.consider(name)
	}
}

// acquireShare is how long locks are taken at a time, about: ten thousand take seconds.
const acquireShare = 50 * time.Millisecond

// acquire takes the locks of the candidates, of as many as there is time for, and gives
// up what is not to be controlled any more. What is controlled then is followed to the newest event, for
// another process may have controlled it until now.
func (l *Loop[S, K]) acquire(ctx context.Context) error {
	var fresh []string
	var taken error // by somebody else
	waited := l.own.elsewhere.Len()
	for started := time.Now(); l.own.candidates.Len() > 0 && time.Since(started) < acquireShare; {
		name := l.own.candidates.Pop()
		switch wanted := l.wanted(name); {
		case !wanted:
			l.giveUp(name)
		case l.own.controlled[name]:
		default:
			err := l.lock(name)
			switch {
			case err == nil:
				l.own.elsewhere.Remove(name)
				fresh = append(fresh, name)
			case errors.Is(err, deploylog.ErrLocked):
				if l.own.elsewhere.Add(name); taken == nil {
					taken = fmt.Errorf("another %s is at work on %s (%w): standing by", l.Role, name, err)
				}
			default:
				return l.cannotLock(name, err)
			}
		}
	}
	switch left := l.own.elsewhere.Len(); {
	case left > 0 && waited == 0:
		l.notice(taken.Error())
	case left == 0 && waited > 0 && len(fresh) > 0:
		l.notice(fmt.Sprintf("the other %s has ended: taking over", l.Role))
	}
	l.waitForOne()
	if len(fresh) == 0 {
		return nil
	}
	if err := l.fold.Follow(ctx, 0); err != nil {
		return err
	}
	for _, name := range fresh {
		l.own.controlled[name] = true
		l.tenant.Acquired(name)
		l.queue.Add(name)
	}
	return nil
}

// cannotLock is why an entity could not be locked, though nobody else has it.
func (l *Loop[S, K]) cannotLock(name string, cause error) error {
	err := fmt.Errorf("locking %s %s: %w", l.fold.One, name, cause)
	if errors.Is(cause, syscall.EMFILE) {
		return fmt.Errorf("%w; each of the %s that a %s controls keeps a file open: raise the limit (ulimit -n), or name fewer of them", err, l.fold.Many, l.Role)
	}
	return err
}

// lock takes the lock of an entity, unless the loop still has it.
func (l *Loop[S, K]) lock(name string) error {
	if l.own.held[name] != nil {
		return nil
	}
	if n := len(l.own.held); l.MaxEntities > 0 && n >= l.MaxEntities {
		return fmt.Errorf("%d are controlled already, and the work on them needs files, too: %w", n, syscall.EMFILE)
	}
	unlock, err := l.Log.TryLock(lockOf(l.fold.One, name))
	if err == nil {
		l.own.held[name] = unlock
	}
	return err
}

// giveUp controls an entity no more.
func (l *Loop[S, K]) giveUp(name string) {
	l.own.elsewhere.Remove(name)
	if l.own.controlled[name] {
		delete(l.own.controlled, name)
		delete(l.moving, name)
		l.wakes.Set(name, never)
		l.tenant.Released(name)
	}
}

// release unlocks the entities that it does not control and on which nothing is in
// flight any more.
func (l *Loop[S, K]) release() {
	if len(l.own.held) == len(l.own.controlled) || len(l.results) > 0 {
		return
	}
	for name, unlock := range l.own.held {
		if !l.own.controlled[name] && l.slots.of[name] == 0 {
			unlock()
			delete(l.own.held, name)
		}
	}
}

// waitForOne waits for the lock of one of those that others control. When that is
// free the others may be, too.
func (l *Loop[S, K]) waitForOne() {
	if l.own.waits != "" && l.own.elsewhere.Has(l.own.waits) || l.own.waits == "" && l.own.elsewhere.Len() == 0 {
		return
	}
	if l.own.waits != "" {
		l.own.endWait()
		l.own.waits = ""
	}
	if l.own.elsewhere.Len() == 0 {
		return
	}
	name := l.own.elsewhere.First(1)[0]
	l.own.elsewhere.Add(name) // as the last
	l.own.waits = name
	l.own.endWait = l.Go(func(ctx context.Context) func() {
		unlock, err := l.Log.Lock(ctx, lockOf(l.fold.One, name))
		return func() {
			if l.own.waits == name {
				l.own.waits = ""
			}
			if err != nil {
				return
			}
			if l.own.held[name] != nil || !l.own.elsewhere.Has(name) {
				unlock()
				return
			}
			l.own.held[name] = unlock
			l.consider(l.own.elsewhere.All()...)
		}
	})
}

// triedAtOnce is how many of the locks that others hold are tried at each tick.
const triedAtOnce = 64

// retryElsewhere tries the locks of some of those that others control.
func (l *Loop[S, K]) retryElsewhere() {
	some := l.own.elsewhere.First(triedAtOnce)
	l.own.elsewhere.Add(some...)
	l.consider(some...)
}
