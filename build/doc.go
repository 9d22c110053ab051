// Package build decides which jobs of build groups are built when (seed "Implementation of
// build manifest based builds").
//
// State is all build groups of a deployment log, folded from its events by Apply. Propose
// turns a command into events or refuses it, Decide yields what may be done now, Ended turns
// the result of a job into events with all that it causes, Report and Jobs are the status,
// Explain says why something does not move, and Forecast when it will be done. Everything is
// a pure function of the log and the time: no I/O, no clock, no goroutine.
//
// The states and what moves them are in the tables of package transition. State changes by
// events alone: what one causes is in the same append, and should it be missing all the
// same, Decide yields it.
//
// What happens to a job costs as much as there are jobs that need it, however many jobs
// there are: each knows how many of those are missing that it needs, and those that may be
// dispatched are kept in their order.
package build
