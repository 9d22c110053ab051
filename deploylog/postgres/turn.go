package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// askTime is how long is asked who keeps this process waiting.
const askTime = 5 * time.Second

// keptBy says who had the turn to append, where that is why an append failed. Whoever may connect
// to the database may take it, unless that right was taken away.
func (l *Log) keptBy(failed error) error {
	if !isCode(failed, lockTimeout) {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	var holders []string
	err := l.reading(ctx, func(ctx context.Context) error {
		return l.readers.QueryRow(ctx, `SELECT array_agg(format('process %s of the server, of the user %s with application_name %s', pid,
			quote_ident(coalesce(usename, '')), quote_literal(coalesce(application_name, '')))) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid = (($1::bigint >> 32) & 4294967295)::oid AND objid = ($1 & 4294967295)::oid`, l.key("append")).Scan(&holders)
	})
	if err != nil || len(holders) == 0 {
		return failed
	}
	return fmt.Errorf("the turn to append is kept by %s: %w; try again: a large append over a slow link takes time. Where that is no deployster, a superuser ends it with pg_terminate_backend, and docs/log.md says how to allow it to writers alone (\"Rights\")",
		strings.Join(holders, ", and "), failed)
}
