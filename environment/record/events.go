package record

// The events of environments. With the markers of the log they are all that
// happens to one.
const (
	EnvironmentCreated    = "environment-created"
	EnvironmentUpdated    = "environment-updated"
	UpdateAsked           = "environment-update-asked" // by who may not bring what it carries
	UpdateDeclined        = "environment-update-declined"
	EnvironmentStarted    = "environment-started" // a deployment
	EnvironmentFinished   = "environment-finished-successfully"
	EnvironmentFailed     = "environment-failed" // another deployment came before it had finished
	EnvironmentStuck      = "environment-stuck"
	BakeFailed            = "environment-bake-failed" // too many hosts failed soon after the end
	EnvironmentPaused     = "environment-paused"
	EnvironmentResumed    = "environment-resumed"
	HostsChanged          = "environment-hosts-changed"
	HostsHeld             = "environment-hosts-held"   // too many would leave at once; see SetHosts
	StepReached           = "environment-step-reached" // its hosts are healthy
	EnvironmentPromoted   = "environment-promoted"     // to the next step
	StepVerifying         = "environment-verifying"    // something is applied that says whether it goes on
	StepVerified          = "environment-verified"
	StepVerifyFailed      = "environment-verify-failed"
	StepVerifyEnded       = "environment-verify-ended" // nobody waits for its result any more
	HostsZoned            = "environment-hosts-zoned"  // by the attribute that orders them
	HostsCordoned         = "environment-hosts-cordoned"
	HostsUncordoned       = "environment-hosts-uncordoned"
	EnvironmentWatched    = "environment-watched"     // again, after nobody had for a while
	TasksTaken            = "environment-tasks-taken" // of a deleted environment by another; of both
	EnvironmentDeleted    = "environment-deleted"
	TaskStarted           = "task-started"
	TaskLaunched          = "task-launched" // it has to stay healthy for a while
	TaskFinished          = "task-finished-successfully"
	TaskFailed            = "task-failed"
	TaskDeadlinePassed    = "task-healthy-deadline-passed"
	TaskDied              = "task-died"
	TaskLost              = "task-lost" // its host does not answer
	TaskDrifted           = "task-drifted"
	TaskRecovered         = "task-recovered"        // without any action of ours
	TaskCounted           = "task-restarts-counted" // from this number of restarts on
	TaskAdopted           = "task-adopted"          // it is what a later revision wants, and was not touched
	TaskCheckFailed       = "task-check-failed"     // it could not be started, so nothing was stopped for it
	TaskChecked           = "task-checked"          // it could, after that
	TaskTerminating       = "task-terminating"
	TaskTerminated        = "task-terminated"
	TaskTerminationFailed = "task-termination-failed"
)

// EventNames are the names of all events of environments and their tasks.
func EventNames() []string {
	return []string{
		EnvironmentCreated, EnvironmentUpdated, UpdateAsked, UpdateDeclined, EnvironmentStarted, EnvironmentFinished, EnvironmentFailed, EnvironmentStuck, BakeFailed, EnvironmentPaused, EnvironmentResumed, HostsChanged, HostsHeld, StepReached, StepVerifying, StepVerified, StepVerifyFailed, StepVerifyEnded, EnvironmentPromoted, HostsZoned, HostsCordoned, HostsUncordoned, EnvironmentWatched, TasksTaken, EnvironmentDeleted,
		TaskStarted, TaskLaunched, TaskFinished, TaskFailed, TaskDeadlinePassed, TaskDied, TaskLost, TaskDrifted,
		TaskRecovered, TaskCounted, TaskAdopted, TaskCheckFailed, TaskChecked, TaskTerminating, TaskTerminated, TaskTerminationFailed,
	}
}
