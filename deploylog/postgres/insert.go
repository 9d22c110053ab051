package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// partBytes bounds the data of one statement, of which the protocol takes no more than a gigabyte
// in all: one caller may bring as much as it likes.
const partBytes = 64 << 20

// parts are rows in as few parts as have room for their data.
func parts(rows []row) iter.Seq[[]row] {
	return func(yield func([]row) bool) {
		for len(rows) > 0 {
			n, bytes := 0, 0
			for n < len(rows) && (n == 0 || bytes+len(rows[n].event.Data) <= partBytes) {
				bytes += len(rows[n].event.Data)
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// insert inserts rows. The locks of this process are looked at once more, after all that it may
// have waited for.
func (b *batch) insert(ctx context.Context, rows []row) error {
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
	inserted, err := b.w.conn.Exec(ctx, `INSERT INTO events SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
		$7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bytea[]) WHERE NOT $12 OR (SELECT alive($13))`,
		c.seq, c.id, c.deployment, c.target, c.revision, c.name, c.attempt, c.created, c.data, c.registered, c.hash, locks, session)
	switch n := inserted.RowsAffected(); {
	case err != nil:
		return err
	case n == 0 && locks:
		return errLost
	case n != int64(len(rows)):
		return fmt.Errorf("the server stored %d of %d events: a trigger, a rule or a policy of the table is in the way", n, len(rows))
	}
	return nil
}
