package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// Verify checks the file's own structure, every event, that none is missing,
// and that their hashes lead to the head. Appends go on meanwhile; what they
// add is not part of it.
func (l *Log) Verify(ctx context.Context) (deploylog.Verification, error) {
	v, err := l.verify(ctx)
	if err != nil {
		return deploylog.Verification{}, fmt.Errorf("verify deployment log: %w", explain(l.path, err))
	}
	return v, nil
}

func (l *Log) verify(ctx context.Context) (deploylog.Verification, error) {
	if err := l.checkIntegrity(ctx); err != nil {
		return deploylog.Verification{}, err
	}
	h, err := readHead(ctx, l.readers)
	if err != nil {
		return deploylog.Verification{}, err
	}
	c := chain{registered: map[string]int64{}}
	if err := c.follow(ctx, l.readers, h.seq); err != nil {
		return deploylog.Verification{}, err
	}
	if err := c.reaches(h); err != nil {
		return deploylog.Verification{}, err
	}
	if err := l.checkAnswers(ctx); err != nil {
		return deploylog.Verification{}, err
	}
	return deploylog.Verification{Events: h.seq, Head: hex.EncodeToString(h.hash[:])}, nil
}

// checkIntegrity lets SQLite check pages, indexes and constraints.
func (l *Log) checkIntegrity(ctx context.Context) (err error) {
	rows, err := l.readers.QueryContext(ctx, "PRAGMA integrity_check(10)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var problems []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			problems = append(problems, line)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return corrupt("the structure of the file is damaged: %s", strings.Join(problems, "; "))
	}
	return nil
}

// checkAnswers holds the tables behind Latest and InProgress to the events.
func (l *Log) checkAnswers(ctx context.Context) error {
	const kind = "substr(e.target, 1, instr(e.target, '/') - 1)"
	for what, query := range map[string]string{
		"the latest event of an outcome is not the one recorded": `
			SELECT e.seq FROM events e LEFT JOIN latest l USING (target, event)
			WHERE e.event IN (` + kind + ` || '-finished-successfully', ` + kind + ` || '-failed')
			AND (l.seq IS NULL OR (e.registered, e.seq) > (l.registered, l.seq))
			UNION ALL
			SELECT l.seq FROM latest l LEFT JOIN events e USING (target, event, registered, seq) WHERE e.id IS NULL`,
		"what is in progress is not what is recorded": `
			WITH open AS (
				SELECT e.target, e.registered, e.seq, e.attempt FROM events e
				WHERE e.event = ` + kind + ` || '-started' AND NOT EXISTS (
					SELECT 1 FROM events o WHERE o.deployment = e.deployment AND o.target = e.target
					AND o.event IN (` + kind + ` || '-finished-successfully', ` + kind + ` || '-failed') AND o.attempt >= e.attempt))
			SELECT seq FROM (SELECT * FROM open EXCEPT SELECT * FROM in_progress)
			UNION ALL
			SELECT seq FROM (SELECT * FROM in_progress EXCEPT SELECT * FROM open)`,
	} {
		seqs, err := l.seqs(ctx, query+" LIMIT 1")
		if err != nil {
			return err
		}
		if len(seqs) > 0 {
			return corrupt("%s: event %d", what, seqs[0])
		}
	}
	return nil
}

// chain walks along the events of a log and checks each against the one
// before.
type chain struct {
	seq        int64
	head       link
	raw        []byte
	registered map[string]int64 // of every deployment met; nil to take the rows' word for it
}

// verifyPage is how many events are checked within one read.
const verifyPage = 1000

// follow goes on to the event until.
func (c *chain) follow(ctx context.Context, q querier, until int64) error {
	for c.seq < until {
		before := c.seq
		if err := c.page(ctx, q, min(until, c.seq+verifyPage)); err != nil {
			return err
		}
		if c.seq == before {
			return corrupt("event %d is missing", c.seq+1)
		}
	}
	return nil
}

func (c *chain) page(ctx context.Context, q querier, until int64) (err error) {
	rows, err := q.QueryContext(ctx, "SELECT "+columns+", registered, hash FROM events WHERE seq > ? AND seq <= ? ORDER BY seq", c.seq, until)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e deploylog.Event
		var created, registered int64
		var data *string
		if err := rows.Scan(&e.Seq, &e.ID, &e.Deployment, &e.Target, &e.Revision, &e.Name, &e.Attempt, &created, &data, &registered, &c.raw); err != nil {
			return corrupt("the event after %d can not be read: %w", c.seq, err)
		}
		e.CreatedAt = instant(created)
		if data != nil {
			e.Data = []byte(*data)
		}
		if err := c.step(e, registered, linkOf(c.raw)); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (c *chain) step(e deploylog.Event, registered int64, stored link) error {
	if e.Seq != c.seq+1 {
		return corrupt("event %d is missing", c.seq+1)
	}
	if err := e.Validate(); err != nil {
		return corrupt("event %d is not one that was appended: %w", e.Seq, err)
	}
	if c.registered != nil {
		first, ok := c.registered[e.Deployment]
		if !ok {
			first = e.Seq
			c.registered[e.Deployment] = first
		}
		if first != registered {
			return corrupt("event %d says its deployment began with event %d, which was %d", e.Seq, registered, first)
		}
	}
	c.head = c.head.next(e.Seq, registered, digest(e))
	if c.head != stored {
		return corrupt("event %d is not what was appended, or one before it was changed", e.Seq)
	}
	c.seq = e.Seq
	return nil
}

// reaches tells whether the walk ended where the log says it stands.
func (c *chain) reaches(h head) error {
	switch {
	case h.last > h.seq:
		return corrupt("there are events after the head, %d", h.seq)
	case c.seq != h.seq || c.head != h.hash:
		return corrupt("the events do not lead to the head, %d", h.seq)
	default:
		return nil
	}
}
