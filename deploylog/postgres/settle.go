package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// settleTime is how long the server may take to end what it is at for a connection that was lost.
const settleTime = 10 * time.Second

// backend is the process of the server behind a connection. Its ID alone may be that of another, later.
type backend struct {
	pid     int64
	started time.Time
}

func backendOf(ctx context.Context, c *pgx.Conn) (b backend, err error) {
	err = c.QueryRow(ctx, "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&b.pid, &b.started)
	return b, err
}

// settle has the server end what it is still at for a connection that was lost: it may wait for its
// turn to append, and does not notice then that nobody listens any more. On success all of that is in the
// log, or never will be.
func (l *Log) settle(b backend) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for {
		var left int
		err := l.readers.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid::int)) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2", b.pid, b.started).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
