// Package postgres keeps a deployment log in a PostgreSQL database, for those who need it on
// more than one machine.
//
// # The schema
//
// A log is a schema of the database; its table events holds one row per event, as the file of
// deploylog/sqlite does, by the same hashes: logs of one head are one log, wherever they are.
// Triggers refuse every UPDATE, DELETE and TRUNCATE of events. Nothing that the log says is ever
// updated, so who writes needs the right to insert, and none to change.
//
// # Appending
//
// Callers queue; one writer per process takes what has queued into one transaction. Processes
// take turns through an advisory lock of the transaction, which PostgreSQL lets go of only after
// the transaction can be seen. So events get their numbers in the order in which they can be
// read, and a reader who has seen an event has seen all before it. A process that appends in a row
// presumes that nobody else does, which saves it one of two answers of the server.
//
// When a transaction fails, or its connection is lost while events are on their way, what became of
// it is not known: the log is then poisoned and acknowledges nothing until it is opened anew. What
// the server was still at is ended before anybody is told, so that it does not come later.
//
// # Locks
//
// A lock is a row that names a session, and the session is an advisory lock of a connection of
// its own, which PostgreSQL lets go of when the connection ends. Whoever loses that connection
// has lost its locks, and appends nothing more: every append looks whether it still has them, and
// watches end, so that who waits for news learns of it. A process of which the server hears nothing
// for long, as when it is stopped, loses its connection.
package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/queue"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
	"github.com/deployster-go/deployster/deploylog/turn"
	"github.com/deployster-go/deployster/internal/crash"
)

// Options are what a log takes from its surroundings. The zero value is usable.
type Options struct {
	Logger   *slog.Logger     // nil discards
	Now      func() time.Time // the time of events without one; nil is time.Now
	Entropy  io.Reader        // random bytes of new ids; nil is crypto/rand
	ReadOnly bool             // a log that does not exist is not made, and appends are refused
	Existing bool             // a log that does not exist is not made

	// Snapshots is the directory below which this machine keeps snapshots of logs; "" is none.
	Snapshots string
}

// Log is a deployment log in a PostgreSQL database. It implements deploylog.Log.
type Log struct {
	id      string
	where   address
	standby bool // the server was one when the log was opened
	writes  bool // not opened for reading only

	snapshots string // directory; "" is none
	indexes   snapshotfile.Indexes

	logger  *slog.Logger
	now     func() time.Time
	queue   *queue.Queue
	readers *pgxpool.Pool
	writer  *writer
	session *session
	news    *news

	turns   turn.Turns
	closing sync.Once
	closed  chan struct{}

	// life ends when the log is closed, or the locks of this process were lost with their session: its
	// cause says which.
	life    context.Context
	endLife context.CancelCauseFunc
}

var (
	_ deploylog.Log          = (*Log)(nil)
	_ deploylog.ThenAppender = (*Log)(nil)
	_ deploylog.SnapshotLog  = (*Log)(nil)
	_ deploylog.LockLister   = (*Log)(nil)
	_ deploylog.ManyLocker   = (*Log)(nil)

	errClosed   = errors.New("log is closed")
	errReadOnly = errors.New("log was opened for reading only")
)

// maxReaders bounds the connections of one log, beside those for appends, locks and news.
const maxReaders = 8

// Open opens the log at a URL, postgres://USER@HOST:PORT/DATABASE?schema=NAME, and makes it where
// there is none; the schema is deployster where none is named. The URL has all parameters that
// libpq knows. It fails with deploylog.ErrCorrupt for a schema that is no log, and with ErrNoLog
// where there is none and none is to be made.
func Open(ctx context.Context, url string, o Options) (*Log, error) {
	where, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("open deployment log: %w", err)
	}
	l := &Log{where: where, logger: o.Logger, snapshots: o.Snapshots, closed: make(chan struct{})}
	l.life, l.endLife = context.WithCancelCause(context.Background())
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.now = o.Now; l.now == nil {
		l.now = time.Now
	}
	l.queue = queue.New(l.now, o.Entropy)
	if err := l.open(ctx, o); err != nil {
		return nil, fmt.Errorf("open deployment log: %w", l.explain(err))
	}
	return l, nil
}

func (l *Log) open(ctx context.Context, o Options) (err error) {
	if l.id, err = l.ensure(ctx, o); err != nil {
		return err
	}
	l.indexes.Dir, l.indexes.Origin, l.indexes.Share = l.snapshotDir(), l.originOf, func(*os.File, bool) {} // of this user alone
	c, err := pgxpool.ParseConfig("")
	if err != nil {
		return err
	}
	c.ConnConfig = l.where.config.Copy()
	// A plan for any deployment is none for one of many.
	c.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { // and not before: a server may be wanted to which can be written
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
		return err
	}
	c.MaxConns, c.MinConns = maxReaders, 0
	if l.readers, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return err
	}
	l.news = newNews(l)
	l.session = &session{log: l, locks: map[string]*held{}, patience: patience, lockTime: lockTime, appendTime: appendTime, attendPause: attendPause}
	if o.ReadOnly {
		l.queue.Break(errReadOnly)
		return nil
	}
	l.writer, l.writes = newWriter(l), true
	return nil
}

// String is where the log is, for people: without a password.
func (l *Log) String() string { return l.where.String() }

// ID implements deploylog.Log.
func (l *Log) ID() string { return l.id }

// Close waits for appends under way, lets go of all locks, and ends all reads and watches.
// Closing twice is harmless.
func (l *Log) Close() error {
	var err error
	l.closing.Do(func() {
		close(l.closed)
		l.endLife(errClosed)
		if l.writer != nil {
			l.writer.close()
		}
		l.queue.Break(errClosed)
		l.queue.Refuse(errClosed)
		l.news.close()
		err = errors.Join(l.indexes.Close(), l.session.close())
		l.closeReaders()
	})
	if err != nil {
		return fmt.Errorf("close deployment log %s: %w", l.where, err)
	}
	return nil
}

// closeReaders closes the connections that read, and waits for that a moment: where the server is gone
// without a word each takes longer.
func (l *Log) closeReaders() {
	closed := make(chan struct{})
	go func() {
		defer crash.End("", "closing the deployment log")
		defer close(closed)
		l.readers.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// Append implements deploylog.Log.
func (l *Log) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	return l.AppendThen(ctx, events, nil)
}

// AppendThen implements deploylog.ThenAppender. then may be nil.
func (l *Log) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	if len(events) == 0 {
		return nil, ctx.Err()
	}
	written, err := l.queue.Append(ctx, events, then)
	if err != nil {
		err = fmt.Errorf("append to deployment log: %w", l.explain(l.writer.kept.Explain(err)))
	}
	return written, err
}

// connect opens a connection of its own.
func (l *Log) connect(ctx context.Context, params map[string]string) (*pgx.Conn, error) {
	c := l.where.config.Copy()
	for name, value := range params {
		c.RuntimeParams[name] = value
	}
	return pgx.ConnectConfig(ctx, c)
}

// key is the advisory lock of something of this log.
func (l *Log) key(what string) int64 { return keyOf(l.id + " " + what) }

func keyOf(what string) int64 {
	sum := sha256.Sum256([]byte("deployster " + what))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// living is ctx, ended by the end of the log's life as well.
func (l *Log) living(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })
	return ctx, func() { stop(); cancel(nil) }
}
