package deploylog

import "context"

// LockLister is a Log that can say which locks are held, by whichever processes of whichever
// machines. So those find each other that divide work among them.
type LockLister interface {
	// LocksHeld are the names that begin with prefix of the locks that somebody has, sorted.
	LocksHeld(ctx context.Context, prefix string) ([]string, error)
}
