package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
)

func (l *Log) snapshotDir() string { return l.path + ".snapshots" }

// Snapshot implements deploylog.SnapshotLog.
func (l *Log) Snapshot(ctx context.Context, name string) (deploylog.Snapshot, bool) {
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
	err := errReadOnly
	var here snapshotfile.Origin
	if !l.readOnly {
		here, err = l.origin(ctx, s.Seq)
	}
	if err == nil {
		err = snapshotfile.Write(l.snapshotDir(), name, here, s, func(dir *os.File, made bool) { GiveObject(l.path, dir, made) })
	}
	if err != nil {
		return fmt.Errorf("keep snapshot %s of the deployment log: %w", name, err)
	}
	return nil
}

// origin is the log, and its hash up to an event: it differs where another history was
// written, whatever was restored or copied.
func (l *Log) origin(ctx context.Context, seq int64) (of snapshotfile.Origin, err error) {
	var hash []byte
	err = l.readers.QueryRowContext(ctx, "SELECT hash FROM events WHERE seq = ?", seq).Scan(&hash)
	return snapshotfile.Origin{Log: l.id, Hash: string(hash)}, err
}

// originOf is origin, and zero for an event that the log has not.
func (l *Log) originOf(ctx context.Context, seq int64) (snapshotfile.Origin, error) {
	of, err := l.origin(ctx, seq)
	if errors.Is(err, sql.ErrNoRows) {
		return snapshotfile.Origin{}, nil
	}
	return of, err
}

// PruneSnapshots implements deploylog.SnapshotLog.
func (l *Log) PruneSnapshots(before time.Time, dryRun bool) (deploylog.Pruned, error) {
	return snapshotfile.Prune(l.snapshotDir(), before, dryRun)
}

// Index implements deploylog.IndexLog.
func (l *Log) Index(ctx context.Context, name string) (deploylog.Index, error) {
	if l.readOnly {
		return nil, errReadOnly
	}
	return l.indexes.Open(ctx, name)
}
