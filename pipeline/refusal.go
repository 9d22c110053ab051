package pipeline

import (
	"errors"
	"fmt"
)

// RefusalCode says why a command is refused. Its values never change their
// meaning.
type RefusalCode string

// The reasons for which Propose refuses a command.
const (
	UnknownPipeline   RefusalCode = "unknown-pipeline"
	UnknownRevision   RefusalCode = "unknown-revision"
	UnknownStage      RefusalCode = "unknown-stage"
	UnknownGroup      RefusalCode = "unknown-host-group"
	UnknownArtifact   RefusalCode = "unknown-artifact-kind"
	OtherPipeline     RefusalCode = "other-pipeline" // the definition is of another
	NoStages          RefusalCode = "no-stages"
	AlreadyReleased   RefusalCode = "already-released"
	AlreadyReceived   RefusalCode = "already-received"
	AlreadyApproved   RefusalCode = "already-approved"
	MadeByManifest    RefusalCode = "made-by-manifest" // an artifact that is not received from elsewhere
	NoApprovalNeeded  RefusalCode = "no-approval-needed"
	NotReached        RefusalCode = "not-reached"
	Passed            RefusalCode = "passed"
	NotRunning        RefusalCode = "not-running"
	NothingToRetry    RefusalCode = "nothing-to-retry"
	TooLateToRetry    RefusalCode = "too-late-to-retry"
	NewerIsAhead      RefusalCode = "newer-is-ahead"
	BatchIsHeld       RefusalCode = "batch-is-held"
	DeploymentRunning RefusalCode = "deployment-running"
)

// Refusal is why a command is refused.
type Refusal struct {
	Code RefusalCode
	err  error
}

// Error says what was refused, why, and what to do instead.
func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap lets callers find ErrUnknown and ErrRepeated.
func (r *Refusal) Unwrap() error { return r.err }

func refuse(code RefusalCode, format string, args ...any) error {
	return &Refusal{Code: code, err: fmt.Errorf(format, args...)}
}

// The errors that a Refusal may wrap.
var (
	ErrUnknown  = errors.New("unknown") // a name that does not exist
	ErrRepeated = errors.New("already") // it happened before
)
