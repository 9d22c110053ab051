package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"math"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// columns are those of events that a reader sees, in the order of its fields.
const columns = "seq, id, deployment, target, revision, event, attempt, created_at, data"

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

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

// page reads the selected events of (after, until] until the page is full, and
// returns up to which sequence number it has looked.
func (l *Log) page(ctx context.Context, s selection, after, until int64) (events []deploylog.Event, through int64, err error) {
	conn, err := l.readers.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return readPage(ctx, conn, s, after, until)
}

func readPage(ctx context.Context, conn *sql.Conn, s selection, after, until int64) (events []deploylog.Event, through int64, err error) {
	args := []driver.NamedValue{{Ordinal: 1, Value: after}, {Ordinal: 2, Value: until}}
	for i, a := range s.args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		args = append(args, driver.NamedValue{Ordinal: i + 3, Value: a})
	}
	// Below database/sql, whose conversions would take longer than SQLite does.
	err = conn.Raw(func(c any) (err error) {
		rows, err := c.(driver.QueryerContext).QueryContext(ctx, "SELECT "+columns+" FROM events WHERE seq > ? AND seq <= ?"+s.and+" ORDER BY seq", args)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		events, through, err = collect(rows, until)
		return err
	})
	return events, through, err
}

func collect(rows driver.Rows, until int64) (events []deploylog.Event, through int64, err error) {
	row := make([]driver.Value, 9)
	for size := 0; size < pageBytes; {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return events, until, nil
		case err != nil:
			return nil, 0, err
		}
		e, err := event(row)
		if err != nil {
			return nil, 0, err
		}
		events = append(events, e)
		size += len(e.Data)
		through = e.Seq
	}
	return events, through, nil
}

func event(row []driver.Value) (deploylog.Event, error) {
	var e deploylog.Event
	var target, data string
	var attempt, created int64
	ok := true
	integer := func(i int, dest *int64) {
		v, is := row[i].(int64)
		*dest, ok = v, ok && is
	}
	text := func(i int, dest *string) {
		v, is := row[i].(string)
		*dest, ok = v, ok && is
	}
	integer(0, &e.Seq)
	text(1, &e.ID)
	text(2, &e.Deployment)
	text(3, &target)
	text(4, &e.Revision)
	text(5, &e.Name)
	integer(6, &attempt)
	integer(7, &created)
	if row[8] != nil {
		text(8, &data)
		e.Data = json.RawMessage(data)
	}
	if !ok {
		return deploylog.Event{}, corrupt("event %v has columns of the wrong type", row[0])
	}
	e.Target, e.Attempt, e.CreatedAt = deploylog.Target(target), int(attempt), instant(created)
	return e, nil
}
