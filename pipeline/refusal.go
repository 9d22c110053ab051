package pipeline

import (
	"errors"

	"github.com/deployster-go/deployster/internal/refusal"
)

// The reasons for which Propose refuses a command.
const (
	UnknownPipeline   refusal.Code = "unknown-pipeline"
	UnknownRevision   refusal.Code = "unknown-revision"
	UnknownStage      refusal.Code = "unknown-stage"
	UnknownGroup      refusal.Code = "unknown-host-group"
	AmbiguousName     refusal.Code = "ambiguous-name" // of a stage or host group, by its last part, or of a revision that is under way twice
	UnknownArtifact   refusal.Code = "unknown-artifact-kind"
	OtherPipeline     refusal.Code = "other-pipeline" // the definition is of another
	NoStages          refusal.Code = "no-stages"
	AlreadyReleased   refusal.Code = "already-released"
	AlreadyReceived   refusal.Code = "already-received"
	AlreadyApproved   refusal.Code = "already-approved"
	ApprovalExpired   refusal.Code = "approval-expired" // nobody may approve any more: it failed for want of approval, or is about to
	CarriesOther      refusal.Code = "carries-other"    // than what was approved
	MadeByManifest    refusal.Code = "made-by-manifest" // an artifact that is not received from elsewhere
	NoApprovalNeeded  refusal.Code = "no-approval-needed"
	NotReached        refusal.Code = "not-reached"
	Passed            refusal.Code = "passed"
	NotWaiting        refusal.Code = "not-waiting" // to be skipped: it is at work
	WasOvertaken      refusal.Code = "superseded"
	NothingToRollBack refusal.Code = "nothing-to-roll-back"
	NothingToRepair   refusal.Code = "nothing-to-repair"
	NothingToRerun    refusal.Code = "nothing-to-rerun"
	CarriesNothing    refusal.Code = "carries-nothing" // for a stage that came later: send what the stage applies
	OtherStage        refusal.Code = "other-stage"     // it was something else when the revision finished it
	UnknownHost       refusal.Code = "unknown-host"
	RollbackRunning   refusal.Code = "rollback-running"
	NotRunning        refusal.Code = "not-running"
	NothingToRetry    refusal.Code = "nothing-to-retry"
	TooLateToRetry    refusal.Code = "too-late-to-retry"
	NewerIsAhead      refusal.Code = "newer-is-ahead"
	BatchIsHeld       refusal.Code = "batch-is-held"
	DeploymentRunning refusal.Code = "deployment-running"
	SelectsNoHost     refusal.Code = "selects-no-host"
	NothingToConfirm  refusal.Code = "nothing-to-confirm"
	NothingToTake     refusal.Code = "nothing-to-take" // of another pipeline, as an input
	InputsTooLarge    refusal.Code = "inputs-too-large"
	InputsMissing     refusal.Code = "inputs-missing" // of a release, or of a revision that is to adopt a definition
)

// The errors that a refusal may wrap.
var (
	ErrUnknown   = errors.New("unknown")   // a name that does not exist
	ErrAmbiguous = errors.New("ambiguous") // a name that may be of several things
	ErrRepeated  = errors.New("already")   // it happened before
)
