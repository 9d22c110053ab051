// Package pipelines is the tenant of the reconcile loop that carries revisions through
// pipelines. Pipelines folds and commands. A Scheduler does what may be done: it has the
// work of steps done by a Worker, whose beginning it records first. An Overview is what
// else the log tells of them.
package pipelines
