package build

import (
	"errors"

	"github.com/deployster-go/deployster/internal/refusal"
)

// The reasons for which Propose refuses a command.
const (
	UnknownGroup     refusal.Code = "unknown-group"
	UnknownJob       refusal.Code = "unknown-job"
	InvalidGroup     refusal.Code = "invalid-group"
	NothingToBuild   refusal.Code = "nothing-to-build"
	AlreadyCanceling refusal.Code = "already-canceling"
	HasEnded         refusal.Code = "has-ended"
	NotEnded         refusal.Code = "not-ended"
	NothingToRetry   refusal.Code = "nothing-to-retry"
	NothingFailed    refusal.Code = "nothing-failed"
)

// ErrNoGroup is wrapped where a group is named that does not exist.
var ErrNoGroup = errors.New("no such build group")

// ErrNoJob is wrapped where a job is named that a group does not have.
var ErrNoJob = errors.New("no such job")
