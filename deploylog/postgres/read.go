package postgres

import (
	"context"
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

// Read implements deploylog.Log. It ends with what was in the log when the
// iteration began.
func (l *Log) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		of, err := l.covers(ctx, f)
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return
		}
		l.deliver(ctx, f, of, l.reading, yield)
	}
}

// deliver yields the selected events of a span and reports whether there is any use in
// going on.
func (l *Log) deliver(ctx context.Context, f deploylog.Filter, of span, reading reader, yield func(deploylog.Event, error) bool) bool {
	for page, err := range l.pages(ctx, f, of, false, reading) {
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return false
		}
		for i := range page {
			if !yield(page[i].Event, nil) {
				return false
			}
		}
	}
	return true
}

func (l *Log) readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("read deployment log: %w", l.explain(err))
}

// covers is the span that a filter covers at this moment.
func (l *Log) covers(ctx context.Context, f deploylog.Filter) (of span, err error) {
	if of.until, err = l.newest(ctx); err != nil {
		return of, err
	}
	if f.Until > 0 {
		of.until = min(of.until, f.Until)
	}
	of.after = max(f.After, 0)
	if f.Last > 0 {
		q := selecting(f, of)
		text := "SELECT min(seq) FROM (SELECT seq FROM events WHERE " + q.where + " ORDER BY seq DESC LIMIT " + q.arg(f.Last) + ") AS newest"
		var first *int64
		err = l.reading(ctx, func(ctx context.Context) error { return l.readers.QueryRow(ctx, text, q.args...).Scan(&first) })
		if first != nil {
			of.after = *first - 1
		}
	}
	return of, err
}

func (l *Log) newest(ctx context.Context) (seq int64, err error) {
	err = l.reading(ctx, func(ctx context.Context) (err error) {
		seq, err = l.readNewest(ctx)
		return err
	})
	return seq, err
}

// readNewest is newest for who reads again by itself where a connection was lost.
func (l *Log) readNewest(ctx context.Context) (seq int64, err error) {
	err = l.readers.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM events").Scan(&seq)
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

func selecting(f deploylog.Filter, of span) *query {
	q := &query{}
	q.where = "seq > " + q.arg(of.after)
	q.and("seq <= %s", of.until)
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

// reader is how something is read where connections may be lost: by Log.reading, or patiently.
type reader func(ctx context.Context, read func(context.Context) error) error

// reading reads something. Connections that nobody has used for a while may have been lost with
// the server that there was, so it reads once more where that is why it failed. It waits for no
// answer when the locks of this process are lost: the server may have gone without a word.
func (l *Log) reading(ctx context.Context, read func(context.Context) error) error {
	if l.life.Err() != nil {
		return context.Cause(l.life)
	}
	living, end := l.living(ctx)
	defer end()
	err := read(living)
	if err != nil && isLoss(err) && living.Err() == nil {
		l.readers.Reset()
		err = read(living)
	}
	if err != nil && living.Err() != nil && ctx.Err() == nil {
		err = context.Cause(living)
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
	var seqs []int64
	err = l.reading(ctx, func(ctx context.Context) error {
		rows, err := l.readers.Query(ctx, query, args...)
		if err == nil {
			seqs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	for _, seq := range seqs {
		p := l.page(ctx, deploylog.Filter{}, span{seq - 1, seq}, false, l.reading)
		if p.err != nil {
			return nil, p.err
		}
		if len(p.events) == 0 {
			return nil, chain.Missing(seq)
		}
		events = append(events, p.events[0].Event)
	}
	return events, err
}
