// Package reconcile is the one loop that every controller runs.
//
// The deployment log is folded into entities of a kind, each a pure state machine. What
// may be done about one is derived from its state, never stored. A Loop follows the log
// and puts into its queue whatever has changed: an entity of which there is an event, for
// which time has passed, a slot is free, or something was observed outside the log. A
// pass takes the decide lock of the kind, reads what is new, decides about the queued
// entities, and appends what it decided; only then the work begins. So what is in the log
// was decided from all that is before it, and whoever comes after a crash finds what had
// begun. How work ended is a fact, and recorded in any case.
//
// A loop controls the entities whose lock it holds. It takes the locks of its Scope, and
// waits for those that another process holds. Locks are the kernel's: a process that dies
// leaves none.
//
// A Tenant supplies what is particular to a kind: what it observes, decides and does. The
// one in loop_test.go is the smallest, and shows what every loop stands.
//
// All of a loop is done by one goroutine, that of Run. Work and other jobs have their
// own, and come back as functions that the loop calls.
package reconcile
