package objects

import (
	"context"
	"errors"
	"time"
)

// Remote is a store that is reached through somebody else.
type Remote interface {
	Load(hash string) ([]byte, error) // fails with ErrMissing where there is none
	Keep(hash string, content []byte) error
	Salt() ([]byte, error)
}

// ErrOwner says who may remove objects, where that is somebody else.
var ErrOwner = errors.New("only who owns the schema of the log may remove them")

// Keeper is a Remote that nobody else looks after, as a server does after its own.
type Keeper interface {
	Remote
	KeepSalt(salt []byte) error // unless there is one; without, Salt fails with ErrMissing
	// Prune fails with ErrOwner where somebody else may.
	Prune(ctx context.Context, before time.Time, needed func(hash string) bool, dryRun bool) (Pruned, error)
}

// Via is a store that is reached through somebody else, whom it does not trust to return
// what was asked for.
func Via(r Remote) Store { return Store{far: r} }
