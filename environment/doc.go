// Package environment decides what runs on which hosts (seed "Blox Deployments
// User Experience").
//
// An environment is a task, a query over the inventory and a way to deploy.
// Each change of it is a revision, which does nothing until it is deployed: then
// one task per host is started and those of other revisions are stopped, never
// faster than the deployment configuration allows. That continues while the
// revision is active: hosts join and leave, tasks die and drift.
//
// State is folded from the deployment log by Apply. Decide yields what may be
// done now, Completed and Probed turn the results into events, Propose turns a
// command into events or refuses it, Report is the status, and Explain says why
// something is not in the desired state. Everything is a pure function of the log
// and the time: no I/O, no clock, no goroutine.
package environment
