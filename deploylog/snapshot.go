package deploylog

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Snapshot is a shorter log: from its events follows what follows from all of a log up to
// Seq, for the one reader who left out the others.
type Snapshot struct {
	Seq    int64
	Events []Event // in order, none after Seq; what of their data is not needed may be missing
}

// SnapshotName is the name of the snapshots of a kind in a version of their form. Builds that
// differ read each other's where the version is the same.
func SnapshotName(kind string, version int) string { return fmt.Sprintf("%s.v%d", kind, version) }

// SnapshotKind is the kind of snapshots of a name.
func SnapshotKind(name string) string {
	if i := strings.LastIndex(name, ".v"); i >= 0 {
		return name[:i]
	}
	return name
}

// SnapshotLog is a Log beside which its readers keep snapshots, each under a name, so that
// they need not read all of it again. The log stays the only truth: a snapshot that is lost
// costs time, and nothing else.
type SnapshotLog interface {
	// Snapshot returns one that a program, run by this user, made of what the log holds, under
	// the name that has the version of its form. ok is false where there is none, or it is damaged, of another history, or
	// otherwise of no use.
	Snapshot(ctx context.Context, name string) (s Snapshot, ok bool)

	// KeepSnapshot puts one in the place of that of its name, of whichever process.
	KeepSnapshot(ctx context.Context, name string, s Snapshot) error

	// PruneSnapshots removes those that were not made since a time; with dryRun it removes
	// nothing and returns what it would.
	PruneSnapshots(before time.Time, dryRun bool) (Pruned, error)
}
