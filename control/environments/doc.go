// Package environments joins the state machine of environments with the deployment
// log, the hosts and the tasks on them. Environments folds and commands, and a
// Controller does what may be done, by Tasks. Besides the log it looks at the
// Inventory, for hosts come and go, and at the tasks, for they die and drift. It
// records what has changed, never that it has looked, and depends on nobody telling
// it anything. There is one Controller of all environments at a time; without it those
// of some work beside each other, and no two at once on an environment.
package environments
