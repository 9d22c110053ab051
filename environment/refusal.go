package environment

import (
	"errors"
	"fmt"
)

// RefusalCode says why a command is refused. Its values never change their
// meaning.
type RefusalCode string

// The reasons for which Propose refuses a command.
const (
	UnknownEnvironment  RefusalCode = "unknown-environment"
	UnknownRevision     RefusalCode = "unknown-revision"
	RevisionDeleted     RefusalCode = "revision-deleted" // it belongs to an environment of this name that was deleted
	EnvironmentExists   RefusalCode = "environment-exists"
	BeingDeleted        RefusalCode = "being-deleted"
	StaleBase           RefusalCode = "stale-base"
	NothingChanged      RefusalCode = "nothing-changed"
	OlderRevision       RefusalCode = "older-revision"
	NewerRevision       RefusalCode = "newer-revision"
	AlreadyDeployed     RefusalCode = "already-deployed"
	NeverDeployed       RefusalCode = "never-deployed"
	NothingDeployed     RefusalCode = "nothing-deployed"
	NoDisruptionAllowed RefusalCode = "no-disruption-allowed"
	InvalidChange       RefusalCode = "invalid-change"
	AlreadyPaused       RefusalCode = "already-paused"
	NotPaused           RefusalCode = "not-paused"
	UnknownCommand      RefusalCode = "unknown-command"
)

// Refusal is why a command is refused.
type Refusal struct {
	Code RefusalCode
	err  error
}

// Error says what was refused, why, and what to do instead.
func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap lets callers find ErrUnknown and ErrStale.
func (r *Refusal) Unwrap() error { return r.err }

func refuse(code RefusalCode, format string, args ...any) error {
	return &Refusal{Code: code, err: fmt.Errorf(format, args...)}
}

// ErrUnknown is wrapped where an environment or revision is named that does not
// exist.
var ErrUnknown = errors.New("no such")

// ErrStale is wrapped where an update is based on a revision that is not the
// newest.
var ErrStale = errors.New("stale base")
