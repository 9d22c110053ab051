package deploylog

import (
	"context"
	"time"
)

// Snapshot is a shorter log: from its events follows what follows from all of a log up to
// Seq, for the one reader who left out the others.
type Snapshot struct {
	Seq    int64
	Events []Event // in order, none after Seq; what of their data is not needed may be missing
}

// SnapshotLog is a Log beside which its readers keep snapshots, each under a name, so that
// they need not read all of it again. The log stays the only truth: a snapshot that is lost
// costs time, and nothing else.
type SnapshotLog interface {
	// Snapshot returns one that this very program, run by this user, made of what the log
	// holds. ok is false where there is none, or it is damaged, of another history, or
	// otherwise of no use.
	Snapshot(ctx context.Context, name string) (s Snapshot, ok bool)

	// KeepSnapshot puts one in the place of that of its name, of whichever process.
	KeepSnapshot(ctx context.Context, name string, s Snapshot) error

	// PruneSnapshots removes those that were not made since a time; with dryRun it removes
	// nothing and returns what it would.
	PruneSnapshots(before time.Time, dryRun bool) (Pruned, error)
}
