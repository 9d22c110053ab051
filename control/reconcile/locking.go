package reconcile

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/deployster-go/deployster/deploylog"
)

// manyLocks is of how many entities the locks are taken, or given up, at once, where the log can do
// that.
const manyLocks = 2000

// lockedAtOnce is of how many entities the locks are taken, or given up, at once.
func (l *Loop[S, K]) lockedAtOnce() int {
	if _, can := l.Log.(deploylog.ManyLocker); can {
		return manyLocks
	}
	return 1
}

// lock takes the locks of entities that the loop does not have yet, and returns for each why it did not get it.
func (l *Loop[S, K]) lock(names ...string) (failed []error) {
	failed = make([]error, len(names))
	var locks []string
	var of []int // the entities of locks
	for i, name := range names {
		n := len(l.own.held) + len(locks)
		switch {
		case l.own.held[name] != nil:
		case l.MaxEntities > 0 && n >= l.MaxEntities:
			failed[i] = l.needsFiles(fmt.Errorf("%d are controlled already, and the work on them needs files, too: %w", n, syscall.EMFILE))
		default:
			locks, of = append(locks, lockOf(l.Fold.One, name)), append(of, i)
		}
	}
	for n, tried := range l.tryLocks(locks) {
		i := of[n]
		if failed[i] = tried.Err; tried.Err == nil {
			l.own.held[names[i]] = tried.Unlock
		} else if errors.Is(tried.Err, syscall.EMFILE) {
			failed[i] = l.needsFiles(tried.Err)
		}
	}
	return failed
}

func (l *Loop[S, K]) needsFiles(err error) error {
	return fmt.Errorf("%w; each of the %s that a %s controls keeps a file open: raise the limit (ulimit -n), or name fewer of them", err, l.Fold.Many, l.Role)
}

// tryLocks tries locks, at once where the log can do that.
func (l *Loop[S, K]) tryLocks(names []string) (all []deploylog.TriedLock) {
	if log, can := l.Log.(deploylog.ManyLocker); can {
		return log.TryLocks(names...)
	}
	for _, name := range names {
		unlock, err := l.Log.TryLock(name)
		all = append(all, deploylog.TriedLock{Unlock: unlock, Err: err})
	}
	return all
}

// unlock gives up the locks of entities that the loop has, at once where the log can do that.
func (l *Loop[S, K]) unlock(names ...string) {
	if len(names) == 0 {
		return
	}
	log, can := l.Log.(deploylog.ManyLocker)
	var locks []string
	for _, name := range names {
		if can {
			locks = append(locks, lockOf(l.Fold.One, name))
		} else {
			l.own.held[name]()
		}
		delete(l.own.held, name)
	}
	if can {
		log.UnlockAll(locks...)
	}
}
