package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// besideTime is how long the server may take to keep or to return what is beside the events.
const besideTime = time.Minute

// kept is something beside the events, without its content.
type kept struct {
	name   string
	size   int64
	stored time.Time
}

// old are those that a query finds for an age, which is told and not the moment: when they were
// stored is by the clock of the server, and this machine's may be another.
func (l *Log) old(ctx context.Context, query string, age time.Duration) (all []kept, err error) {
	err = l.reading(ctx, func(ctx context.Context) error {
		rows, err := l.readers.Query(ctx, query, age)
		if err == nil {
			all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k kept, err error) {
				return k, row.Scan(&k.name, &k.size, &k.stored)
			})
		}
		return err
	})
	return all, l.explain(err)
}

// ask asks for one row. A log of an earlier version, which is only read, has none.
func (l *Log) ask(query string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), besideTime)
	defer cancel()
	err := l.reading(ctx, func(ctx context.Context) error { return l.readers.QueryRow(ctx, query, args...).Scan(into...) })
	if errors.Is(err, pgx.ErrNoRows) || isCode(err, undefinedTable) {
		return pgx.ErrNoRows
	}
	return l.explain(err)
}

// put makes a change that may be made any number of times.
func (l *Log) put(statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), besideTime)
	defer cancel()
	_, err := l.change(ctx, statement, args...)
	return err
}

// change makes a change that may be made any number of times; it is on the disk of the server
// on return, as events are.
func (l *Log) change(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	if !l.writes {
		return 0, l.explain(errReadOnly)
	}
	const third = 2
	err = l.reading(ctx, func(ctx context.Context) error {
		all := &pgx.Batch{} // a new one for each connection: it remembers what is prepared there
		all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
		all.Queue(durable, true)
		all.Queue(statement, args...)
		all.Queue("COMMIT")
		var failed error
		results := l.readers.SendBatch(ctx, all)
		for i := range all.Len() {
			done, err := results.Exec()
			if failed = cmp.Or(failed, err); i == third {
				rows = done.RowsAffected()
			}
		}
		return cmp.Or(failed, results.Close())
	})
	return rows, l.explain(err)
}
