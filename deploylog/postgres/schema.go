package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deployster-go/deployster/deploylog"
)

// ensure finds out the ID of the log, and makes the log where there is none.
func (l *Log) ensure(ctx context.Context, o Options) (id string, err error) {
	c, err := l.connect(ctx, nil)
	if err != nil {
		return "", err
	}
	defer hangUp(ctx, c)
	if err := l.check(ctx, c); err != nil {
		return "", err
	}
	id, version, err := l.identify(ctx, c)
	switch {
	case errors.Is(err, ErrNoLog) && !o.ReadOnly && !o.Existing:
		if id, err = l.queue.ID(time.Now()); err != nil {
			return "", err
		}
		if err = l.build(ctx, c, id); err == nil {
			id, _, err = l.identify(ctx, c) // that of another process, where that was first
		}
	case err == nil && version < schemaVersion && !o.ReadOnly && !l.standby:
		err = l.migrate(ctx, c)
	}
	return id, err
}

// check refuses a server, or what is between, that is no place for a log.
func (l *Log) check(ctx context.Context, c *pgx.Conn) error {
	var encoding, path string
	var pid uint32
	err := c.QueryRow(ctx, "SELECT current_setting('server_encoding'), current_setting('search_path'), pg_is_in_recovery(), pg_backend_pid()").Scan(&encoding, &path, &l.standby, &pid)
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return fmt.Errorf("the encoding of the database is %s, in which not every event can be written: make one with UTF8, as with 'createdb --encoding UTF8 --template template0 NAME'", encoding)
	case path != c.Config().RuntimeParams["search_path"]:
		return errPooled
	case pid == c.PgConn().PID():
		return nil
	}
	// Something is between. If it lends a connection only while that has something to do, the next one gets the same.
	other, err := l.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer hangUp(ctx, other)
	var lent uint32
	if err := other.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&lent); err != nil {
		return err
	}
	if lent == pid {
		return errPooled
	}
	return nil
}

// hangUp closes a connection, and waits for that a moment.
func hangUp(ctx context.Context, c *pgx.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.Close(closing)
}

// identify finds out which log there is, and of which version.
func (l *Log) identify(ctx context.Context, c *pgx.Conn) (id string, version int64, err error) {
	err = c.QueryRow(ctx, "SELECT id, version FROM log").Scan(&id, &version)
	switch {
	case isCode(err, undefinedTable), isCode(err, invalidSchema), isCode(err, undefinedObject):
		var may bool // without that right the schema seems to be empty
		err = c.QueryRow(ctx, "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1", l.where.schema).Scan(&may)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && may:
			err = ErrNoLog
		case err == nil:
			err = lacking{"the user may not use the schema", fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", l.where.schemaName(), l.where.user())}
		}
		return "", 0, err
	case isCode(err, undefinedColumn), errors.Is(err, pgx.ErrNoRows):
		return "", 0, fmt.Errorf("%w: the table log of the schema is none of a deployment log: name another with schema=NAME", deploylog.ErrCorrupt)
	case err == nil && version > schemaVersion:
		return "", 0, fmt.Errorf("the log is of version %d, which a newer deployster wrote; this one knows version %d: use the newer one", version, schemaVersion)
	default:
		return id, version, err
	}
}

// build makes a log, unless somebody else just did.
func (l *Log) build(ctx context.Context, c *pgx.Conn, id string) error {
	var there bool
	err := l.altering(ctx, c, func(tx pgx.Tx) error {
		var made bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass('log') IS NOT NULL").Scan(&made); err != nil || made {
			return err
		}
		// Who may not make schemas may use one that was made for them.
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", l.where.schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+l.where.schemaName()); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, tables+beside); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO log (id, version) VALUES ($1, $2)", id, schemaVersion)
		return err
	})
	switch {
	case mayNotLock(err):
		return fmt.Errorf("create the log: %w", err)
	case isCode(err, mayNot) && there:
		return lacking{"there is no deployment log, and the user may not make one in this schema", fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s", l.where.schemaName(), l.where.user())}
	case isCode(err, mayNot):
		return lacking{"there is no deployment log, and the user may not make a schema in the database", fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", l.where.schemaName(), l.where.user())}
	case err != nil:
		return fmt.Errorf("create the log: %w", err)
	}
	return nil
}

// migrate brings a log of an earlier version to this one, unless somebody else just did.
func (l *Log) migrate(ctx context.Context, c *pgx.Conn) error {
	err := l.altering(ctx, c, func(tx pgx.Tx) error {
		_, version, err := l.identify(ctx, tx.Conn())
		if err != nil || version == schemaVersion {
			return err
		}
		_, err = tx.Exec(ctx, beside+"ALTER TABLE log DISABLE TRIGGER USER; UPDATE log SET version = 2; ALTER TABLE log ENABLE TRIGGER USER")
		return err
	})
	if isCode(err, mayNot) && !mayNotLock(err) {
		return fmt.Errorf("the log is of version 1, and version %d has more tables, which whoever owns the schema makes by any command: %w", schemaVersion, err)
	}
	if err != nil {
		return fmt.Errorf("bring the log to version %d: %w", schemaVersion, err)
	}
	return nil
}

// altering makes or alters a schema: one process at a time does so.
func (l *Log) altering(ctx context.Context, c *pgx.Conn, do func(pgx.Tx) error) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // which fails where it has ended, also with its connection
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", keyOf("schema "+l.where.schema)); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// The codes of PostgreSQL's errors that are told apart.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
	undefinedObject = "42704"
	invalidSchema   = "3F000"
	noSuchDatabase  = "3D000"
	mayNot          = "42501"
	wrongPassword   = "28P01"
	notAuthorized   = "28000"
	tooMany         = "53300"
	diskFull        = "53100"
	readOnly        = "25006"
	notSupported    = "0A000"
	protocolError   = "08P01"
	lockTimeout     = "55P03"
	deadlock        = "40P01"
	divisionByZero  = "22012"
	noSquareRoot    = "2201F"
)

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}
