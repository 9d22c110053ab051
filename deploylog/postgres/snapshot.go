package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
)

// snapshotDir is where the snapshots of this log are; "" is nowhere.
func (l *Log) snapshotDir() string {
	if l.snapshots == "" {
		return ""
	}
	return filepath.Join(l.snapshots, l.id)
}

// Snapshot implements deploylog.SnapshotLog.
func (l *Log) Snapshot(ctx context.Context, name string) (deploylog.Snapshot, bool) {
	if l.snapshots == "" {
		return deploylog.Snapshot{}, false
	}
	of, s, ok := snapshotfile.Read(l.snapshotDir(), name)
	if !ok {
		return deploylog.Snapshot{}, false
	}
	if here, err := l.origin(ctx, s.Seq); err != nil || of != here {
		return deploylog.Snapshot{}, false
	}
	return s, true
}

// KeepSnapshot implements deploylog.SnapshotLog.
func (l *Log) KeepSnapshot(ctx context.Context, name string, s deploylog.Snapshot) error {
	err := errors.New("there is no directory for snapshots")
	if l.snapshots != "" {
		err = os.MkdirAll(l.snapshots, 0o700)
	}
	var here snapshotfile.Origin
	if err == nil {
		here, err = l.origin(ctx, s.Seq)
	}
	if err == nil {
		err = snapshotfile.Write(l.snapshotDir(), name, here, s, func(*os.File, bool) {}) // they are of this user alone
	}
	if err != nil {
		return fmt.Errorf("keep snapshot %s of the deployment log: %w", name, l.explain(err))
	}
	return nil
}

// origin is the log, and its hash up to an event: it differs where another history was written, as
// on a standby that has taken over and lacks the newest events.
func (l *Log) origin(ctx context.Context, seq int64) (of snapshotfile.Origin, err error) {
	var hash []byte
	err = l.reading(ctx, func(ctx context.Context) error {
		return l.readers.QueryRow(ctx, "SELECT hash FROM events WHERE seq = $1", seq).Scan(&hash)
	})
	return snapshotfile.Origin{Log: l.id, Hash: string(hash)}, err
}

// originOf is origin, and zero for an event that the log has not.
func (l *Log) originOf(ctx context.Context, seq int64) (snapshotfile.Origin, error) {
	of, err := l.origin(ctx, seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return snapshotfile.Origin{}, nil
	}
	return of, err
}

// PruneSnapshots implements deploylog.SnapshotLog.
func (l *Log) PruneSnapshots(before time.Time, dryRun bool) (deploylog.Pruned, error) {
	if l.snapshots == "" {
		return deploylog.Pruned{}, nil
	}
	return snapshotfile.Prune(l.snapshotDir(), before, dryRun)
}

// Index implements deploylog.IndexLog.
func (l *Log) Index(ctx context.Context, name string) (deploylog.Index, error) {
	if l.snapshots == "" {
		return nil, errors.New("there is no directory for indexes")
	}
	if err := os.MkdirAll(l.snapshots, 0o700); err != nil {
		return nil, err
	}
	return l.indexes.Open(ctx, name)
}
