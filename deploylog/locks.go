package deploylog

import "context"

// LockLister is a Log that can say which locks are held, by whichever processes of whichever
// machines. So those find each other that divide work among them.
type LockLister interface {
	// LocksHeld are the names that begin with prefix of the locks that somebody has, sorted.
	LocksHeld(ctx context.Context, prefix string) ([]string, error)
}

// ManyLocker is a Log that takes many locks, and gives many up, at about the cost of one: who takes
// over what a process had that has ended may need thousands, and so may who hands over to another.
type ManyLocker interface {
	// TryLocks tries each of the named locks, and returns what TryLock would of each, in their
	// order: it takes all that are free, whatever becomes of the others.
	TryLocks(names ...string) []TriedLock

	// UnlockAll gives up those of the named locks that TryLocks has taken and that were not
	// unlocked since, as TriedLock.Unlock does, which does nothing for them any more. What Lock
	// or TryLock took must not be named.
	UnlockAll(names ...string)
}

// TriedLock is what TryLock returns of one lock of many.
type TriedLock struct {
	Unlock func() // nil where it was not taken
	Err    error  // and why it was not
}
