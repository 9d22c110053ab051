package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	codes "modernc.org/sqlite/lib"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

// Verify checks the file's own structure, every event, that none is missing,
// that their hashes lead to the head by way of the known ones, and that nothing
// but what the log consists of is in the file. Appends go on meanwhile; what
// they add is not part of it.
func (l *Log) Verify(ctx context.Context, known ...deploylog.Head) (deploylog.Verification, error) {
	v, err := l.verify(ctx, known)
	if err != nil {
		return deploylog.Verification{}, fmt.Errorf("verify deployment log: %w", explain(l.path, err))
	}
	return v, nil
}

func (l *Log) verify(ctx context.Context, known []deploylog.Head) (deploylog.Verification, error) {
	h, unknown, err := l.verifyEvents(ctx, known)
	if remember := l.verified(err); remember != nil {
		l.logger.Warn("could not remember what log verify found", "path", l.path, "error", remember)
	}
	if err != nil {
		return deploylog.Verification{}, err
	}
	if err := checkSchema(ctx, l.readers); err != nil {
		return deploylog.Verification{}, err
	}
	if len(unknown) > 0 {
		return deploylog.Verification{}, neverStoodAt(unknown[0], h)
	}
	return deploylog.Verification{Events: h.seq, Head: hex.EncodeToString(h.hash[:])}, nil
}

// verifyEvents checks all that the log holds, and returns its head and those of
// the known heads that it does not lead by.
func (l *Log) verifyEvents(ctx context.Context, known []deploylog.Head) (h head, unknown []deploylog.Head, err error) {
	if err := l.checkIntegrity(ctx); err != nil {
		return h, nil, err
	}
	if h, err = readHead(ctx, l.readers); err != nil {
		return h, nil, err
	}
	c := chain.Begin(known)
	if err := follow(ctx, c, l.readers, h.seq); err != nil {
		return h, nil, err
	}
	if err := reaches(c, h); err != nil {
		return h, nil, err
	}
	return h, c.Unknown, l.checkAnswers(ctx)
}

// neverStoodAt says what it means that a head which was noted elsewhere is not
// one of the log's.
func neverStoodAt(known deploylog.Head, h head) error {
	const other = "; or the head is that of another log, or mistyped"
	switch {
	case known.Seq > h.seq:
		return &lossError{fmt.Sprintf("it ends with event %d, but the head %s is that of %d events: the last ones are missing"+other, h.seq, known, known.Seq)}
	case known.Seq > 0:
		return &lossError{fmt.Sprintf("it is sound in itself, but with event %d it did not have the head %s: its events were written anew after that was noted"+other, known.Seq, known)}
	default:
		return &lossError{fmt.Sprintf("it is sound in itself, but it never had the head %s: its end is missing, or its events were written anew after that was noted"+other, known.Hash)}
	}
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
		if couldNotRead(line) {
			return fmt.Errorf("read the file: %s", line)
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

// couldNotRead reports whether a line of an integrity check is about a page that
// could not be read for another reason than what the file holds.
func couldNotRead(line string) bool {
	_, number, found := strings.Cut(line, "error code=")
	n, err := strconv.Atoi(number)
	return found && err == nil && n&0xff != codes.SQLITE_CORRUPT && n&0xff != codes.SQLITE_NOTADB
}

// What the tables behind Latest and InProgress are held to. The first two look
// from a range of events at the tables, the last two from the tables at the
// events.
const (
	kindOf = "substr(e.target, 1, instr(e.target, '/') - 1)"
	isOpen = "e.event = " + kindOf + ` || '-started' AND NOT EXISTS (
		SELECT 1 FROM events o WHERE o.deployment = e.deployment AND o.target = e.target
		AND o.event IN (` + kindOf + " || '-finished-successfully', " + kindOf + ` || '-failed') AND o.attempt >= e.attempt)`

	latestUnrecorded = `SELECT e.seq FROM events e LEFT JOIN latest l USING (target, event)
		WHERE e.seq > ? AND e.seq <= ? AND e.event IN (` + kindOf + " || '-finished-successfully', " + kindOf + ` || '-failed')
		AND (l.seq IS NULL OR (e.registered, e.seq) > (l.registered, l.seq))`
	openUnrecorded = `SELECT e.seq FROM events e LEFT JOIN in_progress p ON p.target = e.target AND p.registered = e.registered AND p.seq = e.seq
		WHERE e.seq > ? AND e.seq <= ? AND ` + isOpen + " AND (p.seq IS NULL OR p.attempt <> e.attempt)"
	latestUnknown = `SELECT l.seq FROM latest l LEFT JOIN events e ON e.seq = l.seq AND e.target = l.target AND e.event = l.event AND e.registered = l.registered
		WHERE e.seq IS NULL`
	openUnknown = `SELECT p.seq FROM in_progress p LEFT JOIN events e ON e.seq = p.seq AND e.target = p.target AND e.registered = p.registered
		AND e.attempt = p.attempt AND ` + isOpen + " WHERE e.seq IS NULL"
)

// checkAnswers holds the tables behind Latest and InProgress to the events.
func (l *Log) checkAnswers(ctx context.Context) error {
	h, err := readHead(ctx, l.readers)
	if err != nil {
		return err
	}
	if err := l.checkRecorded(ctx, 0, h.seq); err != nil {
		return err
	}
	return l.checkUnknown(ctx)
}

// checkRecorded looks from the events in (after, until] at the tables.
func (l *Log) checkRecorded(ctx context.Context, after, until int64) error {
	return errors.Join(
		l.none(ctx, "the latest event of an outcome is not the one recorded", latestUnrecorded, after, until),
		l.none(ctx, "what is in progress is not what is recorded", openUnrecorded, after, until))
}

// checkUnknown looks from the tables at the events.
func (l *Log) checkUnknown(ctx context.Context) error {
	return errors.Join(
		l.none(ctx, "the latest event of an outcome is not the one recorded", latestUnknown),
		l.none(ctx, "what is in progress is not what is recorded", openUnknown))
}

// none fails where a query for wrong events finds one.
func (l *Log) none(ctx context.Context, what, query string, args ...any) error {
	seqs, err := l.seqs(ctx, query+" LIMIT 1", args...)
	if err == nil && len(seqs) > 0 {
		err = corrupt("%s: event %d", what, seqs[0])
	}
	return err
}

// verifyPage is how many events are checked within one read.
const verifyPage = 1000

// follow has a walk go on to the event until.
func follow(ctx context.Context, c *chain.Walk, q querier, until int64) error {
	for c.Seq < until {
		before := c.Seq
		if err := followPage(ctx, c, q, min(until, c.Seq+verifyPage)); err != nil {
			return err
		}
		if c.Seq == before {
			return chain.Missing(c.Seq + 1)
		}
	}
	return nil
}

func followPage(ctx context.Context, c *chain.Walk, q querier, until int64) (err error) {
	rows, err := q.QueryContext(ctx, "SELECT "+columns+", registered, hash FROM events WHERE seq > ? AND seq <= ? ORDER BY seq", c.Seq, until)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var hash []byte
	for rows.Next() {
		var e deploylog.Event
		var created, registered int64
		var data *string
		if err := rows.Scan(&e.Seq, &e.ID, &e.Deployment, &e.Target, &e.Revision, &e.Name, &e.Attempt, &created, &data, &registered, &hash); err != nil {
			if failed := rows.Err(); failed != nil { // the read ended, as with its context
				return failed
			}
			return corrupt("the event after %d cannot be read: %w", c.Seq, err)
		}
		e.CreatedAt = instant(created)
		if data != nil {
			e.Data = []byte(*data)
		}
		if err := c.Step(e, registered, chain.LinkOf(hash)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// reaches reports whether the walk ended where the log says it stands.
func reaches(c *chain.Walk, h head) error {
	switch {
	case h.last > h.seq:
		return corrupt("there are events after the head, %d", h.seq)
	case c.Seq != h.seq || c.Head != h.hash:
		return corrupt("the events do not lead to the head, %d", h.seq)
	default:
		return nil
	}
}
