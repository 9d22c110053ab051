package build

import (
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// Task is one attempt to build a job.
type Task struct {
	Group   string // id
	Job     int    // number
	Attempt int
	Name    string // of the group: what is built
	Package string
	Version string
	Pass    int // from 1, of what is built more than once; 0 is once
	Worker  string
	Place   record.Place

	Carries   record.Carries // of the group
	Recipe    int            // index in the recipes that the group carries
	Commit    string         // of git, that the group was submitted at
	Source    *record.Source // that commit, and whether the sources are its; nil is not known
	Artifacts string         // repository of a registry that what is built is pushed to; "" is none

	Inputs string       // hash of all that goes into it
	Reuse  *Built       // what was built before of the same inputs; nil is none, or it must not be used
	Uses   []Dependency // all that it uses, each once: first what it needs directly

	Canceling bool // of a step Resume: it is to be stopped, not waited for
}

// Target is that of the job.
func (t Task) Target() deploylog.Target { return record.Job(t.Group, t.Job) }

// Dependency is what a job uses.
type Dependency struct {
	Package  string
	Artifact string // digest; "" of what was released, where that is not known
	Job      int    // of the group, that has built it; 0 is none: it was released
	Pass     int    // of that job, as in Task
	Direct   bool   // it needs it itself; otherwise what it needs does, to run
	Run      bool   // whoever uses the result needs it, too
}

// Built is an artifact with the job that has built it.
type Built struct {
	Group    string
	Job      int
	Attempt  int
	Seq      int64 // of the event with which it was there
	Finished record.Finished
}

// Target is that of the job.
func (b *Built) Target() deploylog.Target { return record.Job(b.Group, b.Job) }

// Result is how a task ended: one of these.
type Result struct {
	Finished *record.Finished
	Failed   *record.Failed
	Lost     *record.Lost
	Canceled *record.Canceled
}
