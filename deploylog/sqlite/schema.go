package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A log's file is known by these two numbers in its header.
const (
	applicationID = 0x44504c47 // "DPLG"
	schemaVersion = 1

	pageSize = 4096
)

// schema is what a new log consists of. The questions that must not take a walk
// through the log are whether an event is already there and when its deployment
// was registered, which the one index answers, and what happened last to a
// target and what is in progress there. For these an index over all events
// would touch a page for every target of a batch, so two small tables hold the
// answers; they follow from the events, and Verify holds them to it.
const schema = `
CREATE TABLE log (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	id   TEXT    NOT NULL,
	seq  INTEGER NOT NULL,
	hash BLOB    NOT NULL
) STRICT;

CREATE TABLE events (
	seq        INTEGER PRIMARY KEY,
	id         TEXT    NOT NULL,
	deployment TEXT    NOT NULL,
	target     TEXT    NOT NULL,
	revision   TEXT    NOT NULL,
	event      TEXT    NOT NULL,
	attempt    INTEGER NOT NULL,
	created_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
	data       TEXT,
	registered INTEGER NOT NULL, -- seq of the first event of the deployment
	hash       BLOB    NOT NULL,
	UNIQUE (deployment, target, event, attempt)
) STRICT;

CREATE TABLE latest ( -- of each target and outcome, by registration
	target     TEXT    NOT NULL,
	event      TEXT    NOT NULL,
	registered INTEGER NOT NULL,
	seq        INTEGER NOT NULL,
	PRIMARY KEY (target, event)
) STRICT, WITHOUT ROWID;

CREATE TABLE in_progress ( -- started events that nothing has ended
	target     TEXT    NOT NULL,
	registered INTEGER NOT NULL,
	seq        INTEGER NOT NULL,
	attempt    INTEGER NOT NULL,
	PRIMARY KEY (target, registered, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_are_never_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the deployment log is append-only'); END;

CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the deployment log is append-only'); END;

CREATE TRIGGER head_is_never_deleted BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the deployment log is append-only'); END;

CREATE TRIGGER head_only_moves_forward BEFORE UPDATE ON log
WHEN NEW.id <> OLD.id OR NEW.seq <= OLD.seq
BEGIN SELECT RAISE(ABORT, 'the deployment log is append-only'); END;
`

// ensure makes sure that there is a file at path. A new log is built beside it
// and then linked into place, so that no process ever sees half a log, and an
// empty file is always the sign of a lost one.
func ensure(ctx context.Context, path string, l *Log) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("this is a directory: name a file")
	case err == nil && info.Size() == 0:
		return corrupt("the file is empty")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := refuseOrphan(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create the directory of the log: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	id, err := l.entropy.id(l.now())
	if err != nil {
		return err
	}
	if err := build(ctx, f.Name(), id); err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put the new log into place: %w", err)
	}
	return syncDir(dir)
}

// refuseOrphan fails where a write-ahead log lies without its log: SQLite
// would play it into the new one, which it does not belong to.
func refuseOrphan(path string) error {
	if _, err := os.Lstat(path + "-wal"); err != nil {
		return nil //nolint:nilerr // there is none, or the next step meets the same obstacle
	}
	if _, err := os.Lstat(path); err == nil {
		return nil // another process has created both since
	}
	return corrupt("the file is gone, but its write-ahead log %s-wal is still there", filepath.Base(path))
}

func build(ctx context.Context, path, id string) (err error) {
	db, err := connect(path, "rw", settings{busyTimeout: defaultBusyTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageSize),
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schemaVersion),
	} {
		if _, err := db.ExecContext(ctx, pragma); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES (1, ?, 0, ?)", id, genesis[:]); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	return err
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// syncDir makes the directory's entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("make %s durable: %w", dir, err)
	}
	return nil
}
