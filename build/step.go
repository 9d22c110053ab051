package build

import (
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// StepKind is what kind of step may be done.
type StepKind uint8

// The kinds of steps.
const (
	Settle   StepKind = iota // record what has become true and is not recorded
	Stalled                  // record that nothing of a group moves, and nothing says why: a fault of the program
	Start                    // pull a group in
	Dispatch                 // record that a worker has a job, and have it build that
	Resume                   // go on with what was begun; there is nothing to record
)

// Step is what may be done now.
type Step struct {
	Kind   StepKind
	Group  string            // id
	Task   Task              // of Dispatch and Resume
	Events []deploylog.Event // to be appended together
	Cause  string            // of Stalled
}

// Can is what whoever asks for steps is able to do.
type Can interface {
	// Worker is the name of a worker that serves a place and has room for one more job, ""
	// while there is none. A step that is yielded has begun before it is asked again.
	Worker(p record.Place) string

	// Resume reports whether a task that was begun is not being done here, and may be taken
	// up. Only the task's group, job, attempt, name, package, place and whether it is
	// canceling are filled in.
	Resume(t Task) bool
}
