// Package reconcile holds what every controller of a kind of thing needs: the
// states of all of them, folded from the log and changed under one lock; the lock of
// the one controller that is the leader; what is due when; what is left out because
// the log refuses it.
package reconcile
