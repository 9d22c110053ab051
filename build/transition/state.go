package transition

import (
	"fmt"
	"slices"
)

// Group is the state of a build group.
type Group uint8

// The states of a group.
const (
	NoGroup        Group = iota
	Triggered            // what is to be built is known
	Created              // the plan is
	Queued               // there are jobs, none of which has started
	Dispatching          // its jobs are being built
	Complete             // all were built
	FailureCleanup       // it has failed, and some jobs still run
	Failed
	Canceling // it was canceled, and some jobs still run
	Canceled
)

// Job is the state of a job of a group.
type Job uint8

// The states of a job.
const (
	NoJob            Job = iota
	Pending              // its group has not started
	Schedulable          // it waits for other jobs
	Eligible             // it waits for a worker
	Dispatched           // a worker has it
	Built                // its artifact is there
	JobFailed            // it could not be built
	DependencyFailed     // what it needs was not built
	JobLost              // its worker, or something that it uses, is gone
	CancelPending        // it was canceled, and still runs
	CancelComplete       // it was canceled
	jobStates            // how many there are
)

var (
	groupNames = []string{"", "Triggered", "Created", "Queued", "Dispatching", "Complete", "FailureCleanup", "Failed", "Canceling", "Canceled"}
	jobNames   = []string{"", "Pending", "Schedulable", "Eligible", "Dispatched", "Built", "JobFailed", "DependencyFailed", "JobLost", "CancelPending", "CancelComplete"}
)

// AllGroups are the states of groups.
func AllGroups() []Group { return all[Group](groupNames) }

// AllJobs are the states of jobs.
func AllJobs() []Job { return all[Job](jobNames) }

func all[S ~uint8](names []string) (states []S) {
	for i := 1; i < len(names); i++ {
		states = append(states, S(i))
	}
	return states
}

// String is the name of a state, as the seed has it.
func (g Group) String() string { return nameOf(groupNames, g) }

// String is the name of a state, as the seed has it.
func (j Job) String() string { return nameOf(jobNames, j) }

func nameOf[S ~uint8](names []string, s S) string {
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", s)
}

// MarshalText implements encoding.TextMarshaler.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (j Job) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Group) UnmarshalText(text []byte) (err error) {
	*g, err = parse[Group](groupNames, string(text), "group")
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *Job) UnmarshalText(text []byte) (err error) {
	*j, err = parse[Job](jobNames, string(text), "job")
	return err
}

func parse[S ~uint8](names []string, text, of string) (S, error) {
	i := slices.Index(names, text)
	if i < 0 {
		return 0, fmt.Errorf("%.40q is no state of a %s", text, of)
	}
	return S(i), nil
}

// Ended reports whether a group is done, unless it is tried again.
func (g Group) Ended() bool { return g == Complete || g == Failed || g == Canceled }

// Runs reports whether jobs of a group in this state may be under way.
func (g Group) Runs() bool { return g == Dispatching || g == FailureCleanup || g == Canceling }

// Ended reports whether a job is done, unless its group is tried again.
func (j Job) Ended() bool { return j == Built || j.Unbuilt() }

// Unbuilt reports whether a job has ended without an artifact, so that what needs it cannot
// be built.
func (j Job) Unbuilt() bool { return j == JobFailed || j == DependencyFailed || j == CancelComplete }

// InFlight reports whether a worker has the job.
func (j Job) InFlight() bool { return j == Dispatched || j == CancelPending }

// Waiting reports whether a job was neither begun nor has ended.
func (j Job) Waiting() bool { return j == Pending || j == Schedulable || j == Eligible || j == JobLost }
