// Package control joins what decides and does with the deployment log.
//
// Its first tenant is the run of a manifest. A Run holds the run's lock, turns
// what the runner reports into events, keeps two runs from working on one
// resource at once, and clears up after runs whose process died: their
// containers are waited for or removed, and their open entries in the log are
// closed with what can still be known. Locks are held by the kernel for a
// living process, so there never is a stale one to break by hand.
//
// The second is pipelines. Pipelines folds the log into the states of all of
// them, and carries out what people want of them. A Scheduler does what may be
// done: it looks, has the work of steps done by a Worker, records, and looks again.
// Everything that decides by the state of pipelines holds one lock, the gate, from
// the last look to the append. An Overview is what the log tells besides.
//
// The third is environments, in the same way: Environments folds and commands, and a
// Controller does what may be done, by Tasks. Besides the log it looks at the
// Inventory, for hosts come and go, and at the tasks, for they die and drift. It
// records what has changed, never that it has looked, and depends on nobody telling
// it anything. There is one Controller of all environments at a time; without it those
// of some work beside each other, and no two at once on an environment.
package control
