package reason

// Code says why something of a build group does not move. Its values never change their
// meaning.
type Code string

// The reasons of groups.
const (
	NotStarted   Code = "not-started" // no worker has time for it
	OlderFirst   Code = "older-first" // an older group has its turn
	NoWorker     Code = "no-worker"   // none serves it
	GroupStalled Code = "stalled"     // a fault of the program
	Unbuildable  Code = "unbuildable" // some packages
	Canceling    Code = "canceling"   // it is waited for what runs
	Canceled     Code = "canceled"    // also of jobs
	Failing      Code = "failing"     // it has failed, and some jobs still run
	GroupFailed  Code = "failed"
	NotQueued    Code = "not-queued"    // its submission has not ended
	NoDispatcher Code = "no-dispatcher" // nobody is at work
)

// The reasons of jobs.
const (
	Ready            Code = "ready"
	InProgress       Code = "in-progress"
	GroupWaits       Code = "group-not-started"
	WaitsForJobs     Code = "waits-for-jobs"
	WorkersBusy      Code = "workers-busy"
	Rests            Code = "rests" // it was lost, and is tried again later
	JobFailed        Code = "job-failed"
	DependencyFailed Code = "dependency-failed"
)

// Reason is why something does not move.
type Reason struct {
	Target  string `json:"target"`
	Code    Code   `json:"reason"`
	Message string `json:"message"`
	Change  string `json:"change"` // what would change it
	Seq     int64  `json:"event,omitempty"`
}
