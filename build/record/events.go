package record

// The events of a group.
const (
	GroupTriggered = "group-triggered"
	GroupCreated   = "group-created"
	JobsCreated    = "group-jobs-created" // its attempt is the part of the jobs, from 1
	GroupQueued    = "group-queued"
	GroupStarted   = "group-started"       // it is Dispatching
	JobsEligible   = "group-jobs-eligible" // jobs that need none
	GroupFinished  = "group-finished-successfully"
	GroupFailing   = "group-failing" // it is in FailureCleanup
	GroupFailed    = "group-failed"
	GroupCanceling = "group-canceling"
	GroupCanceled  = "group-canceled"
	GroupRetried   = "group-retried"
	GroupStalled   = "group-stalled" // nothing of it moves, and nothing says why: a fault of the program
)

// The events of a job. Those that name dependents have the target and the attempt of the
// job that causes them.
const (
	JobStarted            = "job-started" // it is Dispatched
	JobFinished           = "job-finished-successfully"
	JobFailed             = "job-failed"
	JobLost               = "job-lost"
	JobEligible           = "job-eligible" // again, after it was lost
	JobCanceled           = "job-canceled"
	JobDependentsEligible = "job-dependents-eligible"
	JobDependentsFailed   = "job-dependents-failed"
	JobSpoiled            = "job-spoiled" // its artifact is missing or altered: it is built again
)

// EventNames are the names of all events of build groups.
func EventNames() []string {
	return []string{
		GroupTriggered, GroupCreated, JobsCreated, GroupQueued, GroupStarted, JobsEligible, GroupFinished,
		GroupFailing, GroupFailed, GroupCanceling, GroupCanceled, GroupRetried, GroupStalled,
		JobStarted, JobFinished, JobFailed, JobLost, JobEligible, JobCanceled, JobDependentsEligible, JobDependentsFailed, JobSpoiled,
	}
}
