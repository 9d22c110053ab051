package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
)

// Latest implements deploylog.Log.
func (l *Log) Latest(ctx context.Context, t deploylog.Target, o deploylog.Outcome) (deploylog.Event, bool, error) {
	name, err := t.Ended(o)
	if err != nil {
		return deploylog.Event{}, false, err
	}
	seq, err := l.latest(ctx, t, name)
	if errors.Is(err, sql.ErrNoRows) {
		return deploylog.Event{}, false, nil
	}
	var found []deploylog.Event
	if err == nil {
		found, err = l.pick(ctx, []int64{seq})
	}
	if err != nil {
		return deploylog.Event{}, false, fmt.Errorf("latest %s of %s: %w", name, t, explain(l.path, err))
	}
	return found[0], true, nil
}

func (l *Log) latest(ctx context.Context, t deploylog.Target, name string) (seq int64, err error) {
	err = l.readers.QueryRowContext(ctx,
		"SELECT seq FROM latest WHERE target = ? AND event = ?",
		string(t), name).Scan(&seq)
	return seq, err
}

// InProgress implements deploylog.Log. An attempt is over when it, or a later
// attempt within its deployment, has succeeded or failed.
func (l *Log) InProgress(ctx context.Context, t deploylog.Target) ([]deploylog.Event, error) {
	seqs, err := l.seqs(ctx, "SELECT seq FROM in_progress WHERE target = ? ORDER BY registered, seq", string(t))
	var events []deploylog.Event
	if err == nil {
		l.picked(ctx, seqs, func(page []deploylog.Event, failed error) bool {
			events, err = append(events, page...), failed
			return true
		})
	}
	if err != nil {
		return nil, fmt.Errorf("events in progress of %s: %w", t, explain(l.path, err))
	}
	return events, nil
}

// seqs runs a query for sequence numbers.
func (l *Log) seqs(ctx context.Context, query string, args ...any) (seqs []int64, err error) {
	rows, err := l.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}
