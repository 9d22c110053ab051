package sqlite

import (
	"github.com/deployster-go/deployster/deploylog/chain"

	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/deploylog/sqlite/wal"
)

// inspectTail is how many of the newest events are checked on opening; Verify
// checks all.
const inspectTail = 64

// inspect looks at the log without changing it, and returns where it stands.
// Anything but a sound log of this version that holds the event of its anchor,
// where there is one, is refused. A connection that closes folds
// the write-ahead log into the file, which a damaged one must be spared: where
// there is one, the look is taken through a connection that cannot write.
func inspect(ctx context.Context, path string, s settings, readers *sql.DB, a *anchor) (h head, err error) {
	pending, err := wal.Check(path)
	if damaged := new(wal.DamageError); errors.As(err, &damaged) {
		err = corrupt("%w", damaged)
	}
	if err != nil {
		return head{}, err
	}
	db := readers
	if pending {
		if db, err = connect(path, "ro", s); err != nil {
			return head{}, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	if err := identify(ctx, db); err != nil {
		return head{}, err
	}
	return inspectHead(ctx, db, path, a)
}

// identify refuses a file that is no log of this version.
func identify(ctx context.Context, db *sql.DB) error {
	var application, version, tables int64
	for query, dest := range map[string]*int64{
		"PRAGMA application_id":              &application,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := db.QueryRowContext(ctx, query).Scan(dest); err != nil {
			return err
		}
	}
	switch {
	case application != applicationID && tables == 0:
		return corrupt("the file holds nothing")
	case application != applicationID:
		return errors.New("this is another program's database, not a deployment log: name another file")
	case version > schemaVersion:
		return fmt.Errorf("the log was written by a newer deployster (log format %d, this one knows %d): use that version, nothing was changed",
			version, schemaVersion)
	case version < schemaVersion:
		return corrupt("the log format %d is unknown", version)
	default:
		return nil
	}
}

// inspectHead checks that the newest events are whole and lead to the head, and
// that the event of the anchor is there.
func inspectHead(ctx context.Context, db *sql.DB, path string, a *anchor) (head, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return head{}, err
	}
	defer func() { _ = tx.Rollback() }() // read-only: nothing is lost
	h, err := readHead(ctx, tx)
	if err != nil {
		return head{}, err
	}
	c := chain.Walk{Seq: max(0, h.seq-inspectTail)}
	if c.Seq > 0 {
		if c.Head, err = storedLink(ctx, tx, c.Seq); err != nil {
			return head{}, err
		}
	}
	if err := follow(ctx, &c, tx, h.seq); err != nil {
		return head{}, err
	}
	if err := reaches(&c, h); err != nil || a == nil {
		return h, err
	}
	return h, a.holds(ctx, tx, h, path)
}

// head is where a log stands.
type head struct {
	id   string
	seq  int64
	hash chain.Link
	last int64 // greatest seq of any event; equal to seq in a sound log
}

// querier is a connection, transaction or pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readHead(ctx context.Context, q querier) (head, error) {
	var h head
	var hash []byte
	err := q.QueryRowContext(ctx, "SELECT id, seq, hash, (SELECT coalesce(max(seq), 0) FROM events) FROM log").
		Scan(&h.id, &h.seq, &hash, &h.last)
	if errors.Is(err, sql.ErrNoRows) {
		return head{}, corrupt("the log has no head")
	}
	h.hash = chain.LinkOf(hash)
	return h, err
}

// storedLink is the link that an event is stored with.
func storedLink(ctx context.Context, q querier, seq int64) (chain.Link, error) {
	var b []byte // takes whatever there is, so an error is one of reading
	err := q.QueryRowContext(ctx, "SELECT hash FROM events WHERE seq = ?", seq).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return chain.Link{}, corrupt("event %d is missing", seq)
	}
	return chain.LinkOf(b), err
}
