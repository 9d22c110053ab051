package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
)

const (
	pageEvents = 2048    // of one page
	pageBytes  = 4 << 20 // of data, after which a page ends early
)

// columns are those of events that a reader sees, in the order of its fields.
const columns = "seq, id, deployment, target, revision, event, attempt, created_at, data"

// Read implements deploylog.Log. It ends with what was in the log when the
// iteration began.
func (l *Log) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		ctx, cancel := l.whileOpen(ctx)
		defer cancel()
		after, until, err := l.span(ctx, f)
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return
		}
		l.deliver(ctx, f, after, until, l.reading, yield)
	}
}

// deliver yields the selected events in (after, until] and reports whether there is any use in
// going on. No transaction lasts while they are taken: since nothing ever changes, the pages
// need no common snapshot.
func (l *Log) deliver(ctx context.Context, f deploylog.Filter, after, until int64, reading reader, yield func(deploylog.Event, error) bool) bool {
	for after < until {
		page, through, err := l.page(ctx, f, after, until, reading)
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return false
		}
		for _, s := range page {
			if !yield(s.Event, nil) {
				return false
			}
		}
		after = through
	}
	return true
}

func (l *Log) readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("read deployment log: %w", l.explain(err))
}

// span is the range (after, until] of sequence numbers that a filter covers at this moment.
func (l *Log) span(ctx context.Context, f deploylog.Filter) (after, until int64, err error) {
	if until, err = l.newest(ctx); err != nil {
		return 0, 0, err
	}
	if f.Until > 0 {
		until = min(until, f.Until)
	}
	after = max(f.After, 0)
	if f.Last > 0 {
		q := selecting(f, after, until)
		text := "SELECT min(seq) FROM (SELECT seq FROM events WHERE " + q.where + " ORDER BY seq DESC LIMIT " + q.arg(f.Last) + ") AS newest"
		var first *int64
		err = l.reading(ctx, func() error { return l.readers.QueryRow(ctx, text, q.args...).Scan(&first) })
		if first != nil {
			after = *first - 1
		}
	}
	return after, until, err
}

func (l *Log) newest(ctx context.Context) (seq int64, err error) {
	err = l.reading(ctx, func() error { return l.readers.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM events").Scan(&seq) })
	return seq, err
}

// query is a filter as SQL.
type query struct {
	where string
	args  []any
}

// arg adds an argument, and returns its name.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

func (q *query) and(condition string, value any) {
	q.where += " AND " + fmt.Sprintf(condition, q.arg(value))
}

func selecting(f deploylog.Filter, after, until int64) *query {
	q := &query{}
	q.where = "seq > " + q.arg(after)
	q.and("seq <= %s", until)
	if f.Deployment != "" {
		q.and("deployment = %s", f.Deployment)
	}
	switch target := string(f.Target); {
	case strings.HasSuffix(target, "/"):
		q.and("starts_with(target, %s)", target)
	case target != "":
		q.and("target = %s", target)
	}
	if f.Name != "" {
		q.and("event = %s", f.Name)
	}
	if !f.Since.IsZero() {
		q.and("created_at >= %s", nanoseconds(f.Since))
	}
	return q
}

// nanoseconds is the time in the unit of the column created_at, which reaches
// from 1678 to 2262.
func nanoseconds(t time.Time) int64 {
	switch y := t.UTC().Year(); {
	case y < 1678:
		return math.MinInt64
	case y > 2261:
		return math.MaxInt64
	default:
		return t.UnixNano()
	}
}

// stored is an event, and what is stored with it.
type stored struct {
	deploylog.Event
	registered int64
	hash       []byte
}

// page reads the selected events of (after, until] until the page is full, and returns up to
// which sequence number it has looked. The server ends the page: what is read but not wanted
// would have to come over the network.
func (l *Log) page(ctx context.Context, f deploylog.Filter, after, until int64, reading reader) (events []stored, through int64, err error) {
	q := selecting(f, after, until)
	const size = "coalesce(octet_length(data), 0)"
	text := "SELECT " + columns + ", registered, hash FROM (SELECT *, sum(" + size + ") OVER (ORDER BY seq) - " + size + " AS before FROM events WHERE " + q.where +
		" ORDER BY seq LIMIT " + strconv.Itoa(pageEvents) + ") AS page WHERE before < " + strconv.Itoa(pageBytes) + " ORDER BY seq"
	err = reading(ctx, func() error {
		rows, err := l.readers.Query(ctx, text, q.args...)
		if err == nil {
			events, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	bytes := 0
	for _, s := range events {
		bytes, through = bytes+len(s.Data), s.Seq
	}
	if len(events) < pageEvents && bytes < pageBytes {
		through = until
	}
	return events, through, err
}

func scan(row pgx.CollectableRow) (s stored, err error) {
	var created int64
	var data *string
	err = row.Scan(&s.Seq, &s.ID, &s.Deployment, &s.Target, &s.Revision, &s.Name, &s.Attempt, &created, &data, &s.registered, &s.hash)
	s.CreatedAt = time.Unix(0, created).UTC()
	if data != nil {
		s.Data = json.RawMessage(*data)
	}
	return s, err
}

// reader is how something is read where connections may be lost: by Log.reading, or patiently.
type reader func(ctx context.Context, read func() error) error

// reading reads something. Connections that nobody has used for a while may have been lost with
// the server that there was, so it reads once more where that is why it failed.
func (l *Log) reading(ctx context.Context, read func() error) error {
	err := read()
	if err != nil && isLoss(err) && ctx.Err() == nil {
		l.readers.Reset()
		err = read()
	}
	return err
}

// marker is the condition of the index of markers.
const marker = "event ~ '-(started|finished-successfully|failed)$'"

// Latest implements deploylog.Log.
func (l *Log) Latest(ctx context.Context, t deploylog.Target, o deploylog.Outcome) (deploylog.Event, bool, error) {
	name, err := t.Ended(o)
	if err != nil {
		return deploylog.Event{}, false, err
	}
	found, err := l.picked(ctx, "SELECT seq FROM events WHERE target = $1 AND event = $2 AND "+marker+" ORDER BY registered DESC, seq DESC LIMIT 1", string(t), name)
	if err != nil {
		return deploylog.Event{}, false, fmt.Errorf("latest %s of %s: %w", name, t, l.explain(err))
	}
	if len(found) == 0 {
		return deploylog.Event{}, false, nil
	}
	return found[0], true, nil
}

// InProgress implements deploylog.Log. An attempt is over when it, or a later
// attempt within its deployment, has succeeded or failed.
func (l *Log) InProgress(ctx context.Context, t deploylog.Target) ([]deploylog.Event, error) {
	events, err := l.picked(ctx, `SELECT seq FROM events s WHERE target = $1 AND event = $2 AND `+marker+` AND NOT EXISTS (
		SELECT FROM events e WHERE e.deployment = s.deployment AND e.target = s.target AND e.event IN ($3, $4) AND e.attempt >= s.attempt)
		ORDER BY registered, seq`, string(t), t.Started(), t.Succeeded(), t.Failed())
	if err != nil {
		return nil, fmt.Errorf("events in progress of %s: %w", t, l.explain(err))
	}
	return events, nil
}

// picked returns the events whose sequence numbers a query has, in that order.
func (l *Log) picked(ctx context.Context, query string, args ...any) (events []deploylog.Event, err error) {
	ctx, cancel := l.whileOpen(ctx)
	defer cancel()
	var seqs []int64
	err = l.reading(ctx, func() error {
		rows, err := l.readers.Query(ctx, query, args...)
		if err == nil {
			seqs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	for _, seq := range seqs {
		page, _, failed := l.page(ctx, deploylog.Filter{}, seq-1, seq, l.reading)
		if failed != nil {
			return nil, failed
		}
		if len(page) == 0 {
			return nil, chain.Missing(seq)
		}
		events = append(events, page[0].Event)
	}
	return events, err
}
