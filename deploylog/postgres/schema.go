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

const schemaVersion = 1

// tables is what a log consists of. The columns of text are compared byte by byte, as
// everywhere else; what a client does not understand is not in the way of what it does.
//
// The index of the markers is for a target's latest and what is in progress. It has a condition,
// so that whether an event is in the log is never looked for by it: of a new log the server has
// no statistics, and would take it for as good as the other.
//
// Which session has a lock need not outlive the server, with which all sessions end.
const tables = `
CREATE TABLE log (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	id      text    NOT NULL,
	version bigint  NOT NULL
);

CREATE TABLE events (
	seq        bigint PRIMARY KEY,
	id         text   COLLATE "C" NOT NULL,
	deployment text   COLLATE "C" NOT NULL,
	target     text   COLLATE "C" NOT NULL,
	revision   text   COLLATE "C" NOT NULL,
	event      text   COLLATE "C" NOT NULL,
	attempt    bigint NOT NULL,
	created_at bigint NOT NULL, -- nanoseconds since 1970, UTC
	data       text   COLLATE "C",
	registered bigint NOT NULL, -- seq of the first event of the deployment
	hash       bytea  NOT NULL,
	UNIQUE (deployment, target, event, attempt)
);
CREATE INDEX markers ON events (target, event, registered, seq) WHERE event ~ '-(started|finished-successfully|failed)$';

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'the deployment log is append-only'; END $$;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
	FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER the_log_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON log
	FOR EACH STATEMENT EXECUTE FUNCTION refuse();

CREATE FUNCTION alive(session bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
	SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid = ((session >> 32) & 4294967295)::oid AND objid = (session & 4294967295)::oid) $$;

CREATE UNLOGGED TABLE locks (
	key     bytea  PRIMARY KEY, -- sha256 of the name
	name    text   NOT NULL,    -- as people see it
	session bigint NOT NULL,
	by      text   NOT NULL
);
`

// ensure finds out the ID of the log, and makes the log where there is none.
func (l *Log) ensure(ctx context.Context, readOnly bool) (id string, err error) {
	c, err := l.connect(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closing)
	}()
	var encoding string
	if err := c.QueryRow(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return "", err
	}
	if encoding != "UTF8" {
		return "", fmt.Errorf("the encoding of the database is %s, in which not every event can be written: make one with UTF8, as with 'createdb --encoding UTF8 --template template0 NAME'", encoding)
	}
	id, err = identify(ctx, c)
	if !errors.Is(err, errNoLog) || readOnly {
		return id, err
	}
	id, err = l.queue.ID(time.Now())
	if err != nil {
		return "", err
	}
	if err := l.build(ctx, c, id); err != nil {
		return "", fmt.Errorf("create the log: %w", err)
	}
	return identify(ctx, c) // that of another process, where that was first
}

// errNoLog says that a schema has no log.
var errNoLog = errors.New("there is no deployment log")

func identify(ctx context.Context, c *pgx.Conn) (id string, err error) {
	var version int64
	err = c.QueryRow(ctx, "SELECT id, version FROM log").Scan(&id, &version)
	switch {
	case isCode(err, undefinedTable), isCode(err, invalidSchema), isCode(err, undefinedObject):
		return "", errNoLog
	case isCode(err, undefinedColumn), errors.Is(err, pgx.ErrNoRows):
		return "", fmt.Errorf("%w: the table log of the schema is none of a deployment log: name another with schema=NAME", deploylog.ErrCorrupt)
	case err == nil && version > schemaVersion:
		return "", fmt.Errorf("the log is of version %d, which a newer deployster wrote; this one knows version %d: use the newer one", version, schemaVersion)
	default:
		return id, err
	}
}

// build makes a log, unless somebody else just did.
func (l *Log) build(ctx context.Context, c *pgx.Conn, id string) (err error) {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback(context.WithoutCancel(ctx)))) }()
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", keyOf("schema "+l.where.schema)); err != nil {
		return err
	}
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('log') IS NOT NULL").Scan(&there); err != nil || there {
		return err
	}
	// Who may not make schemas may use one that was made for them.
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", l.where.schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{l.where.schema}.Sanitize()); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, tables); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO log (id, version) VALUES ($1, $2)", id, schemaVersion); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func ignoreDone(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
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
)

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}
