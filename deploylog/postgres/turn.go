package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/turn"
)

// askTime is how long is asked who keeps this process waiting.
const askTime = 5 * time.Second

// holder names the other sessions that have the turn to append, or returns "". Any user who may connect to the database may
// take it, unless that right was taken away.
func (l *Log) holder() string {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	var holders []string
	err := l.reading(ctx, func(ctx context.Context) error {
		return l.readers.QueryRow(ctx, `SELECT array_agg(format('process %s of the server, of the user %s with application_name %s%s%s', pid,
			quote_ident(coalesce(usename, '')), quote_literal(coalesce(application_name, '')), ' at ' || host(client_addr), ' since ' || to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC')))
			FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND granted AND pid <> $2 AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid = (($1::bigint >> 32) & 4294967295)::oid AND objid = ($1 & 4294967295)::oid`, l.key("append"), l.writer.pid.Load()).Scan(&holders)
	})
	if err != nil {
		return "a process that the server does not name"
	}
	return strings.Join(holders, ", and ")
}

// KeptBy implements deploylog.TurnLog.
func (l *Log) KeptBy() string { return l.writer.kept.By() }

// takeTurn returns a batch that has the turn to append, or was written already. As long as the server ends the
// wait for it the callers get back what they want appended, and may withdraw it: another process may be
// stopped that has the turn, or be sending much over a slow link.
func (w *writer) takeTurn(ctx context.Context) (b *batch, written bool, err error) {
	for {
		b, written, err = w.tryTurn(ctx)
		if !isCode(err, lockTimeout) || b.turn || w.log.queue.Broken() != nil { // with the turn, it is a table that others have locked
			return b, written, err
		}
		select {
		case <-w.stop:
			return b, false, &deploylog.KeptError{By: w.log.holder(), Err: err}
		default:
			w.log.queue.Return(b.requests)
		}
	}
}

// tryTurn is one try of takeTurn. The requests of a batch that fails were taken from the queue.
func (w *writer) tryTurn(ctx context.Context) (b *batch, written bool, err error) {
	b = newBatch(w)
	if w.mayPresume() {
		if err := b.presume(ctx); !errors.Is(err, errPresumed) {
			return b, err == nil, err
		}
		b = b.retry()
	}
	again := w.conn != nil // the connection may have been lost since it was used
	err = b.begin(ctx)
	if err != nil && again && (w.conn == nil || w.conn.IsClosed()) {
		b = b.retry()
		err = b.begin(ctx)
	}
	if err != nil {
		w.disconnect()
		b.requests = b.pending
	}
	return b, false, err
}

// applicationName is how this process is called in pg_stat_activity, by which others name it.
func applicationName() string {
	const most = 63 // bytes that the server keeps
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s, process %d on %s", turn.Command(os.Args), os.Getpid(), host)
	if len(name) > most {
		name = fmt.Sprintf("process %d on %s: %s", os.Getpid(), host, turn.Command(os.Args))
	}
	return name[:min(most, len(name))]
}
