// Package pipelines joins the state machine of pipelines with the deployment log.
// Pipelines folds the log into the states of all of them, and carries out what people
// want of them. A Scheduler does what may be done: it looks, has the work of steps done
// by a Worker, records, and looks again. Everything that decides by the state of
// pipelines holds one lock, the gate, from the last look to the append. An Overview is
// what the log tells besides.
package pipelines
