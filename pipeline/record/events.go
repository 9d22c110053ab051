package record

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// The events that people and the steps of stages add to the markers of the log,
// KIND-started, KIND-finished-successfully and KIND-failed.
const (
	PipelineDefined    = "pipeline-defined"
	ReleaseAsked       = "pipeline-release-asked"    // by who may not bring what it carries
	ReleaseDeclined    = "pipeline-release-declined" // what was asked for, also by who asked
	FilesDefined       = "pipeline-files-defined"    // what the definition names itself is other by now
	PipelineDeleted    = "pipeline-deleted"
	MembersChanged     = "host-group-members-changed"
	MembersHeld        = "host-group-members-held" // the hosts that were selected and not taken over; see SetMembers
	PipelineCancelled  = "pipeline-cancelled"
	PipelineRetried    = "pipeline-retried" // its attempt is the one that begins
	PipelineSkipped    = "pipeline-skipped"
	PipelineSuperseded = "pipeline-superseded"    // by a newer revision
	EndRequested       = "pipeline-end-requested" // otherwise than well, once its stages with when have ended
	StageApproved      = "stage-approved"
	StageApprovalGiven = "stage-approval-given" // one of several that are needed; its data names the deployment
	StageRejected      = "stage-rejected"
	StageApplied       = "stage-manifest-applied"
	StageDeployed      = "stage-environment-deployed"
	StageBuilt         = "stage-group-built"    // its artifacts are in its data
	StepsBegun         = "pipeline-steps-begun" // their work; see Begun
	StepsEnded         = "pipeline-steps-ended" // work that ended without an event of its step; see TryFailed and Settled
	KeyAdded           = "pipeline-key-added"   // that may sign approvals
	KeyRevoked         = "pipeline-key-revoked"
	ApprovalRefused    = "pipeline-approval-refused" // which a key had signed: its nonce has served
	PipelinePaused     = "pipeline-paused"
	PipelineResumed    = "pipeline-resumed"
	StagePaused        = "stage-paused"
	StageResumed       = "stage-resumed"
)

// EventNames are the names of the events of all pipelines. Artifacts and the
// steps of hosts add others, which their definitions name; see Definition.
func EventNames() []string {
	return []string{
		PipelineDefined, FilesDefined, ReleaseAsked, ReleaseDeclined, PipelineDeleted, MembersChanged, MembersHeld, PipelineCancelled, PipelineRetried, PipelineSkipped, PipelineSuperseded, EndRequested, StageApproved, StageApprovalGiven, StageRejected, StageApplied, StageDeployed, StageBuilt, StepsBegun, StepsEnded,
		KeyAdded, KeyRevoked, ApprovalRefused, PipelinePaused, PipelineResumed, StagePaused, StageResumed,
		PipelineStarted, PipelineFinished, PipelineFailed, StageStarted, StageFinished, StageFailed,
		GroupStarted, GroupFinished, GroupFailed, HostStarted, HostFinished, HostFailed,
	}
}

// InProgress records for each deployment of a pipeline whether it is running, as
// folded from the events of the pipeline's own target, in order. What an ended
// deployment had started has no end of its own: a cancellation and a deletion have
// no marker, and a stage beside the one that failed, or that the definition lost,
// is not finished.
type InProgress map[string]bool

// Apply folds in an event.
func (u InProgress) Apply(e deploylog.Event) {
	switch e.Name {
	case PipelineStarted, PipelineRetried:
		u[e.Deployment] = true
	case PipelineFinished, PipelineFailed, PipelineCancelled, PipelineSkipped, PipelineSuperseded:
		u[e.Deployment] = false
	case PipelineDeleted:
		for deployment := range u {
			u[deployment] = false
		}
	}
}

// The markers of the log: of a pipeline, a stage, a host group and a host.
const (
	PipelineStarted  = "pipeline-started"
	PipelineFinished = "pipeline-finished-successfully"
	PipelineFailed   = "pipeline-failed"
	StageStarted     = "stage-started"
	StageFinished    = "stage-finished-successfully"
	StageFailed      = "stage-failed"
	GroupStarted     = "host-group-started"
	GroupFinished    = "host-group-finished-successfully"
	GroupFailed      = "host-group-failed"
	HostStarted      = "host-started"
	HostFinished     = "host-finished-successfully"
	HostFailed       = "host-failed"

	FailedAfter = "-failed"
)

// IsFailure reports whether an event records that something failed.
func IsFailure(event string) bool { return strings.HasSuffix(event, FailedAfter) }
