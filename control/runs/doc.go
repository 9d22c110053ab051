// Package runs is the run of a manifest in the deployment log. A Run holds the run's
// lock, turns what the runner reports into events, keeps two runs from working on one
// resource at once, and clears up after runs whose process died: their containers are
// waited for or removed, and their open entries in the log are closed with what can
// still be known. Locks are held by the kernel for a living process, so there never is
// a stale one to break by hand.
package runs
