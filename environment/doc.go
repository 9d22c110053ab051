// Package environment decides what runs on which hosts (seed "Blox Deployments
// User Experience").
//
// An environment is a task, a query over the inventory and a way to deploy.
// Each change of it is a revision, which does nothing until it is deployed: then
// one task of it comes to every host, and those of other revisions go, never
// faster than the deployment configuration allows. That goes on after the
// revision is active: hosts come and go, tasks die and drift.
//
// State is folded from the deployment log by Apply. Decide yields what may be
// done now, Completed and Probed turn what became of that into events, Propose
// does it with what people want, and Status and Explain tell. Everything is a
// pure function of the log and the time: nothing here waits, asks or remembers.
package environment
