package environment

import (
	"errors"

	"github.com/deployster-go/deployster/internal/refusal"
)

// The reasons for which Propose refuses a command.
const (
	UnknownEnvironment  refusal.Code = "unknown-environment"
	UnknownRevision     refusal.Code = "unknown-revision"
	RevisionDeleted     refusal.Code = "revision-deleted" // it belongs to an environment of this name that was deleted
	EnvironmentExists   refusal.Code = "environment-exists"
	BeingDeleted        refusal.Code = "being-deleted"
	StaleBase           refusal.Code = "stale-base"
	NothingChanged      refusal.Code = "nothing-changed"
	OlderRevision       refusal.Code = "older-revision"
	NewerRevision       refusal.Code = "newer-revision"
	AlreadyDeployed     refusal.Code = "already-deployed"
	NeverDeployed       refusal.Code = "never-deployed"
	BeingRolledBack     refusal.Code = "being-rolled-back"
	OtherLastGood       refusal.Code = "other-last-good" // than when somebody decided to roll back to it
	NothingDeployed     refusal.Code = "nothing-deployed"
	NothingToAdopt      refusal.Code = "nothing-to-adopt"
	NothingToClean      refusal.Code = "nothing-to-clean"
	TasksUnmanaged      refusal.Code = "tasks-unmanaged"
	NoDisruptionAllowed refusal.Code = "no-disruption-allowed"
	InvalidChange       refusal.Code = "invalid-change"
	AlreadyPaused       refusal.Code = "already-paused"
	NotPaused           refusal.Code = "not-paused"
	NothingToConfirm    refusal.Code = "nothing-to-confirm"
	OthersWouldLeave    refusal.Code = "others-would-leave" // than those for which it holds
	NotFinished         refusal.Code = "not-finished"       // a deployment
	UnknownHost         refusal.Code = "unknown-host"
	HostCordoned        refusal.Code = "host-cordoned"
	NothingToPromote    refusal.Code = "nothing-to-promote"
	StepNotDone         refusal.Code = "step-not-done"
	NoHostNamed         refusal.Code = "no-host-named"
	OtherInventory      refusal.Code = "other-inventory" // than the one that the environment is bound to
	RevisionTooLarge    refusal.Code = "revision-too-large"
	UnknownCommand      refusal.Code = "unknown-command"
)

// ErrUnknown is wrapped where an environment or revision is named that does not
// exist.
var ErrUnknown = errors.New("no such")

// errRepeated is wrapped where something was asked for before.
var errRepeated = errors.New("already")

// ErrStale is wrapped where an update is based on a revision that is not the
// newest.
var ErrStale = errors.New("stale base")
