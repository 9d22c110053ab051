package postgres

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// partBytes bounds what one statement has, unless one event has more: one caller may bring as much
	// as it likes. The server ends a session from which no whole statement has come for as long as
	// idle_in_transaction_session_timeout says, half of which this one takes over the slowest link.
	partBytes = slowest * int(turnTime/time.Second) / 2

	keyBytes = 32  // of an event that is looked for, beside its texts
	rowBytes = 160 // of one that is stored
)

// bytes is how many a row takes on its way to the server.
func (r row) bytes() int {
	e := r.event
	return rowBytes + len(e.ID) + len(e.Deployment) + len(e.Target) + len(e.Revision) + len(e.Name) + len(e.Data)
}

// size is how many bytes rows take on their way to the server.
func size(rows []row) (bytes int) {
	for _, r := range rows {
		bytes += r.bytes()
	}
	return bytes
}

// parts are rows in as few parts as have room for them.
func parts(rows []row) iter.Seq[[]row] {
	return func(yield func([]row) bool) {
		for len(rows) > 0 {
			n, bytes := 0, 0
			for n < len(rows) && (n == 0 || bytes+rows[n].bytes() <= partBytes) {
				bytes += rows[n].bytes()
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// commit stores the events of the batch and makes them durable, part by part: each has the time that
// it needs on its way, and the server waits for none of them longer than for the slowest link. The
// last one is committed in the same answer.
func (b *batch) commit(ctx context.Context) error {
	left := len(b.rows)
	for part := range parts(b.rows) {
		left -= len(part)
		if err := b.store(ctx, part, left == 0); err != nil {
			return err
		}
	}
	return nil
}

// store has rows inserted, and the transaction committed if they are the last ones.
func (b *batch) store(ctx context.Context, part []row, last bool) error {
	bytes := size(part)
	if bytes > partBytes {
		more := &pgx.Batch{}
		more.Queue("SELECT set_config($1, $2, true)", idleTimeout, milliseconds(b.w.turnTime+sending(bytes)))
		if err := b.w.ask(ctx, more, 0); err != nil {
			return err
		}
	}
	all := &pgx.Batch{}
	locks := b.insert(all, part)
	if bytes > partBytes && !last {
		all.Queue("SELECT set_config($1, $2, true)", idleTimeout, milliseconds(b.w.turnTime))
	}
	if last {
		all.Queue("COMMIT")
	}
	if err := b.w.log.queue.Broken(); err != nil {
		return err // the log is poisoned: locks may be given up by now
	}
	switch err := b.w.ask(ctx, all, bytes); {
	case isCode(err, divisionByZero) && locks:
		return errLost
	case isCode(err, divisionByZero), isCode(err, noSquareRoot):
		return errors.New("the server did not store all events: a trigger, a rule or a policy of the table is in the way")
	default:
		return err
	}
}

// undo ends the transaction of a batch that stores nothing, since all that was to be appended is in the
// log already. Who is told so takes it for done, and may be nobody who has lost its locks.
func (b *batch) undo(ctx context.Context) error {
	session, locks := b.w.log.session.lives()
	alive := true
	all := &pgx.Batch{}
	if locks {
		all.Queue("SELECT alive($1)", session).QueryRow(func(row pgx.Row) error { return row.Scan(&alive) })
	}
	all.Queue("ROLLBACK")
	err := b.w.ask(ctx, all, 0)
	if err != nil {
		b.w.disconnect()
	}
	switch broken := b.w.log.queue.Broken(); {
	case broken != nil:
		return unwritten{broken} // locks may be given up by now, so it was not asked
	case !alive:
		return b.w.fail(errLost)
	case locks:
		return err
	default:
		return nil // whether it was undone or not: nothing was written
	}
}

// insert has rows inserted, and reports whether this process has locks. It is asked once more
// whether it still has them, after all that it may have waited for: without them nothing is
// inserted. The statement divides by how many events it stores, so it fails where those are none, and
// takes the root of how many more they are than there should be, so it fails where they are fewer.
// Who watches is notified, once for all statements of the transaction.
func (b *batch) insert(all *pgx.Batch, rows []row) (locks bool) {
	var c struct {
		seq, attempt, created, registered      []int64
		id, deployment, target, revision, name []string
		data                                   []*string
		hash                                   [][]byte
	}
	for _, r := range rows {
		e := r.event
		c.seq, c.id, c.deployment, c.target = append(c.seq, e.Seq), append(c.id, e.ID), append(c.deployment, e.Deployment), append(c.target, string(e.Target))
		c.revision, c.name, c.attempt = append(c.revision, e.Revision), append(c.name, e.Name), append(c.attempt, int64(e.Attempt))
		var data *string
		if e.Data != nil {
			text := string(e.Data)
			data = &text
		}
		c.created, c.data, c.registered, c.hash = append(c.created, e.CreatedAt.UnixNano()), append(c.data, data), append(c.registered, r.registered), append(c.hash, slices.Clone(r.hash[:]))
	}
	session, locks := b.w.log.session.lives()
	all.Queue(`WITH stored AS (INSERT INTO events SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
		$7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bytea[]) WHERE NOT $12 OR (SELECT alive($13)) RETURNING 1)
		SELECT 1 / count(*), sqrt(count(*) - $14::bigint), pg_notify($15, '') FROM stored`,
		c.seq, c.id, c.deployment, c.target, c.revision, c.name, c.attempt, c.created, c.data, c.registered, c.hash, locks, session, int64(len(rows)), b.w.log.channel())
	return locks
}
