// Package environments is the tenant of the reconcile loop that keeps environments.
// Environments folds and commands. A Controller brings tasks to hosts, by Tasks: besides
// the log it observes the Inventory, for hosts come and go, and probes the tasks, for
// they die and drift. It records what has changed, never that it has looked, and
// depends on nobody notifying it.
package environments
