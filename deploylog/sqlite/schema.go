package sqlite

import (
	"github.com/deployster-go/deployster/deploylog/chain"

	"context"
	"database/sql"
	"errors"
	"fmt"
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
	if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES (1, ?, 0, ?)", id, chain.Genesis[:]); err != nil {
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
