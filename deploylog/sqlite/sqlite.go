// Package sqlite keeps a deployment log in one SQLite file.
//
// # The file
//
// The table events holds one row per event, its row number being the event's
// sequence number. The table log holds a single row: who the log is and where
// its head stands. Triggers refuse every UPDATE and DELETE of events, and any
// move of the head but forward.
//
// Each row carries a hash over the previous row's hash and its own content, and
// the head repeats the last one. So an edited, missing or moved row is found by
// reading (Verify), and two logs with one head are one log.
//
// # Appending
//
// Callers queue; one writer per process takes what has queued into one
// transaction and makes it durable with one sync, so that many writers cost
// little more than one. Processes take turns through SQLite's own write lock.
// A caller hears of success only after the sync; one who appends what follows from
// its events adds that to their transaction, which waits for it. When a write fails nobody
// knows what reached the disk: the log is then poisoned and acknowledges
// nothing until it is opened anew, which reads back what is really there.
//
// # Reading
//
// Reads go through the log in pages of bounded size and hold no transaction
// between them, so a slow reader never keeps the write-ahead log from being
// checkpointed. Since nothing ever changes, the pages need no common snapshot.
//
// # Locks
//
// A lock is a flock on a file beside the log, which the kernel releases when
// its holder dies. There is never a stale lock to break by hand.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/queue"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
	"github.com/deployster-go/deployster/deploylog/sqlite/wal"
	"github.com/deployster-go/deployster/deploylog/turn"
)

// Options are what a log takes from its surroundings. The zero value is usable.
type Options struct {
	Logger  *slog.Logger     // nil discards
	Now     func() time.Time // the time of events without one; nil is time.Now
	Entropy io.Reader        // random bytes of new ids; nil is crypto/rand

	// ReadOnly is for a short look: a log that does not exist is not made, nor is
	// anything that belongs to one, no part of it is checked in the background,
	// and appends are refused.
	ReadOnly bool
}

// settings are what only tests vary.
type settings struct {
	busyTimeout time.Duration // how long SQLite waits for another process's write
	patience    time.Duration // how long the writer waits for that; 0 is as long as its callers
	maxPages    int           // the database may not grow beyond; 0 is SQLite's own limit
	committed   func()        // called between a commit and its anchor; may be nil
	unanchored  bool          // do not hold the log to its anchor
}

const defaultBusyTimeout = 15 * time.Second

// Log is a deployment log in one SQLite file. It implements deploylog.Log.
type Log struct {
	id     string
	path   string
	logger *slog.Logger
	now    func() time.Time
	queue  *queue.Queue

	readOnly bool
	copied   error                  // why it may not be written to
	arrived  atomic.Pointer[placed] // where it is, if that is not noted yet
	readers  *sql.DB
	last     *sql.Stmt // of readers: asked for whenever somebody follows the log
	writer   *writer

	elsewhere elsewhere
	indexes   snapshotfile.Indexes

	turns   turn.Turns
	pauses  pauses
	heldBy  sync.Map // who has a lock that is waited for, by its name
	holding holding
	closing sync.Once
	closed  chan struct{}
	checked chan struct{} // closed when nothing is checked any more
}

var (
	_ deploylog.Log          = (*Log)(nil)
	_ deploylog.SnapshotLog  = (*Log)(nil)
	_ deploylog.IndexLog     = (*Log)(nil)
	_ deploylog.ThenAppender = (*Log)(nil)
)

var (
	errClosed   = errors.New("log is closed")
	errReadOnly = errors.New("log was opened for reading only")
)

// Open opens the log at path, creating it and its directory where they do not
// exist; a link leads to the log it points to. It fails with deploylog.ErrCorrupt for a file that is no log or is
// visibly damaged, and leaves such a file as it is.
func Open(ctx context.Context, path string, o Options) (*Log, error) {
	return open(ctx, path, o, settings{busyTimeout: defaultBusyTimeout})
}

func open(ctx context.Context, path string, o Options, s settings) (*Log, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open deployment log %s: %w", path, err)
	}
	l := &Log{
		path:    abs,
		logger:  o.Logger,
		now:     o.Now,
		closed:  make(chan struct{}),
		checked: make(chan struct{}),

		readOnly: o.ReadOnly,
	}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.queue = queue.New(l.now, o.Entropy)
	if err := l.open(ctx, s); err != nil {
		return nil, fmt.Errorf("open deployment log: %w", explain(abs, err))
	}
	l.logger.Debug("deployment log opened", "path", l.path, "log", l.id)
	return l, nil
}

func (l *Log) open(ctx context.Context, s settings) error {
	real, err := ensure(ctx, l.path, l)
	if err != nil {
		return err
	}
	l.path = real
	l.indexes.Dir, l.indexes.Origin = l.snapshotDir(), l.originOf
	l.indexes.Share = func(dir *os.File, made bool) { GiveObject(l.path, dir, made) }
	readers, err := connect(l.path, "rw", s, "_query_only=1")
	if err != nil {
		return err
	}
	readers.SetMaxOpenConns(maxReaders)
	readers.SetMaxIdleConns(maxReaders)
	l.readers = readers
	if err := l.start(ctx, s); err != nil {
		return errors.Join(err, readers.Close())
	}
	return nil
}

func (l *Log) start(ctx context.Context, s settings) error {
	a, anchored, err := readAnchor(l.path)
	if err != nil && !s.unanchored {
		return err
	}
	expected := &a
	if !anchored || s.unanchored {
		expected = nil
	}
	h, err := inspect(ctx, l.path, s, l.readers, expected)
	if err != nil {
		return err
	}
	l.id = h.id
	if l.last, err = l.readers.PrepareContext(ctx, "SELECT seq FROM log"); err != nil {
		return err
	}
	if l.readOnly {
		l.queue.Break(errReadOnly)
		l.writer = noWriter()
		close(l.checked)
		return nil
	}
	if !anchored {
		if err := l.anchor(h); err != nil {
			return err
		}
	}
	if err := l.settle(); err != nil && !s.unanchored {
		l.copied = err
		l.queue.Break(err)
		l.writer = noWriter()
		close(l.checked)
		return nil
	}
	if l.writer, err = newWriter(ctx, l.path, l.id, s, l.queue, l.logger, func() error { return l.holding.gone(l.lockDir(), false) }); err != nil {
		return err
	}
	if s.unanchored {
		close(l.checked)
		return nil
	}
	if d := l.remembered(); d != nil {
		err := &damageError{d}
		l.queue.Break(err)
		l.queue.Refuse(err)
		close(l.checked)
		return nil
	}
	go l.check(context.WithoutCancel(ctx))
	return nil
}

// anchor gives a log without an anchor one, where it stands.
func (l *Log) anchor(h head) error {
	if h.seq > 0 {
		l.logger.Warn("the deployment log has no anchor beside it, as one that an earlier version wrote or that was copied alone; it is given one. "+
			"Whether its newest events were lost before cannot be told", "path", l.path, "event", h.seq)
	}
	if err := wal.Sync(l.path); err != nil {
		return err
	}
	return createAnchor(l.path, anchor{h.id, h.seq, h.hash})
}

// maxReaders bounds the connections, and with them page caches, of one log.
const maxReaders = 8

// connect opens a pool of connections to the file at an absolute path; mode is
// SQLite's own "ro" or "rw", neither of which creates a file.
func connect(path, mode string, s settings, params ...string) (*sql.DB, error) {
	c, err := connector(path, mode, s, params...)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

func connector(path, mode string, s settings, params ...string) (driver.Connector, error) {
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	dsn := name.String() + "?mode=" + mode +
		"&_busy_timeout=" + strconv.FormatInt(s.busyTimeout.Milliseconds(), 10) +
		"&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(0)&_dqs=0&_error_rc=1"
	for _, p := range params {
		dsn += "&" + p
	}
	return sqlite.NewConnector(dsn)
}

// ID identifies the log; it was made with the file.
func (l *Log) ID() string { return l.id }

// Close waits for appends under way, and for a page of the log to be checked, and ends all reads and watches. A log that
// has written folds its write-ahead log into the file, as far as others' reads
// allow; the last one to close removes it. Closing twice is
// harmless.
func (l *Log) Close() error {
	var err error
	l.closing.Do(func() {
		close(l.closed)
		<-l.checked
		err = l.writer.close()
		l.queue.Break(errClosed)
		l.queue.Refuse(errClosed)
		err = errors.Join(err, l.indexes.Close(), l.readers.Close())
	})
	if err != nil {
		return fmt.Errorf("close deployment log %s: %w", l.path, err)
	}
	return nil
}
