package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/queue"
	"github.com/deployster-go/deployster/deploylog/turn"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	checkpointEvery = 4000  // pages written, after which the write-ahead log is folded into the file
	batchLimit      = 20000 // events in one transaction, unless one caller brings more
	maxYields       = 64    // how often a batch gives way to callers who are about to append again
)

// writer is the one goroutine of a log that writes. It owns a connection, its
// statements and the transaction on it.
type writer struct {
	path   string
	log    string // its id
	logger *slog.Logger
	set    settings
	anchor *anchorFile
	conn   driver.Conn
	stmts  statements
	all    []*statement

	ending     time.Time        // when it saw that the log is closed
	writable   bool             // whether the anchor was opened for writing
	together   int              // how many requests the last batch had
	registered map[string]int64 // deployments known to have begun, and where; a cache

	gate     sync.Mutex // held while a batch is written, and while the process is paused
	kept     turn.Kept
	unlocked func() error // why others may have locks of this process
	queue    *queue.Queue
	mu       sync.Mutex
	grown    *growth // what comes next
	stop     chan struct{}
	stopped  chan struct{}
}

type statements struct {
	begin, commit, rollback    *statement
	savepoint, release, revert *statement
	head, advance              *statement
	registered, insert         *statement
	latest, started, ended     *statement
	checkpoint                 *statement
}

func newWriter(ctx context.Context, path, log string, s settings, q *queue.Queue, logger *slog.Logger, unlocked func() error) (*writer, error) {
	w := &writer{
		path:       path,
		log:        log,
		logger:     logger,
		set:        s,
		registered: map[string]int64{},
		queue:      q,
		unlocked:   unlocked,
		grown:      growthAfter(-1),
		stop:       make(chan struct{}),
		stopped:    make(chan struct{}),
		kept:       turn.Kept{Log: path, Logger: logger, Holder: func() string { return holderOf(path) }},
	}
	c, err := connector(path, "rw", s)
	if err != nil {
		return nil, err
	}
	// Who only reads may not be allowed to write it.
	if w.anchor, err = openAnchor(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	if w.conn, err = c.Connect(ctx); err != nil {
		return nil, errors.Join(err, w.anchor.close())
	}
	if err := w.prepare(ctx, s); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	go func() {
		defer crash.End(filepath.Dir(path), "writing the deployment log")
		w.run()
	}()
	return w, nil
}

// noWriter is that of a log to which nothing is written.
func noWriter() *writer {
	w := &writer{grown: growthAfter(-1), stop: make(chan struct{}), stopped: make(chan struct{})}
	close(w.stopped)
	return w
}

func (w *writer) prepare(ctx context.Context, set settings) error {
	s := &w.stmts
	for _, p := range []struct {
		stmt  **statement
		query string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.savepoint, "SAVEPOINT request"},
		{&s.release, "RELEASE request"},
		{&s.revert, "ROLLBACK TO request"},
		{&s.head, "SELECT seq, hash FROM log"},
		{&s.advance, "UPDATE log SET seq = ?, hash = ?"},
		{&s.registered, "SELECT registered FROM events WHERE deployment = ? LIMIT 1"},
		{&s.insert, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.latest, `INSERT INTO latest VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET registered = excluded.registered, seq = excluded.seq WHERE excluded.registered >= registered`},
		{&s.started, `INSERT INTO in_progress SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (
			SELECT 1 FROM events WHERE deployment = ?5 AND target = ?1 AND event IN (?6, ?7) AND attempt >= ?4)`},
		{&s.ended, "DELETE FROM in_progress WHERE target = ? AND registered = ? AND attempt <= ?"},
		{&s.checkpoint, "PRAGMA wal_checkpoint(PASSIVE)"},
	} {
		stmt, err := prepare(ctx, w.conn, p.query)
		if err != nil {
			return err
		}
		*p.stmt = stmt
		w.all = append(w.all, stmt)
	}
	if set.maxPages > 0 {
		limit, err := prepare(ctx, w.conn, fmt.Sprintf("PRAGMA max_page_count = %d", set.maxPages))
		if err != nil {
			return err
		}
		return errors.Join(limit.exec(), limit.close())
	}
	return nil
}

// growth returns what this process appends next.
func (w *writer) growth() *growth {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grown
}

func (w *writer) close() error {
	close(w.stop)
	<-w.stopped
	return w.disconnect()
}

func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	var errs []error
	for _, s := range w.all { // any of which would keep the connection open
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.anchor.close())...)
}

func (w *writer) run() {
	defer close(w.stopped)
	written := 0
	for {
		var settle <-chan time.Time
		if w.anchor.dirty {
			settle = time.After(w.anchor.due())
		}
		select {
		case <-w.queue.Waiting():
			written += w.write()
		case <-settle:
			w.settle()
		case <-w.stop:
			// Nobody else may ever write enough for a checkpoint, and as long
			// as anyone has the log open, SQLite makes none on closing.
			if written += w.write(); written > 0 {
				w.checkpoint()
			}
			w.settle()
			return
		}
		if written >= checkpointEvery {
			written = 0
			w.checkpoint()
		}
	}
}

// write makes everything queued durable in one transaction and tells the
// callers; it returns about how many pages it wrote.
func (w *writer) write() int {
	if w.queue.Idle() {
		return 0 // the last batch has taken up what this call is for
	}
	w.gate.Lock()
	defer w.gate.Unlock()
	b := batch{w: w}
	locked := false
	defer func() {
		if locked {
			_ = w.anchor.unlock() // closing the file unlocks it as well
		}
	}()
	began := time.Now()
	err := w.kept.During(func() error {
		if err := w.lockAnchor(began); err != nil {
			return err
		}
		locked = true
		return w.begin(&b, began)
	})
	if err != nil && !locked {
		w.queue.Refuse(err)
		return 0
	}
	if err != nil {
		if !isRefusal(err) {
			err = w.fail(err)
		}
		w.queue.Refuse(err)
		return 0
	}
	if err = b.gather(); err == nil {
		err = w.unlocked()
	}
	if err == nil {
		err = b.commit()
	}
	if err != nil {
		// What SQLite has undone by itself cannot be rolled back once more.
		_ = w.stmts.rollback.exec()
		clear(w.registered)
		err = w.fail(err)
	}
	w.together = b.callers()
	appended := b.copied() // before those whose events they are may change them
	for _, r := range b.requests {
		r.End(err)
	}
	if err != nil {
		w.queue.Refuse(err)
		return 0
	}
	if b.seq == b.from {
		return 0
	}
	w.announce(b.from, b.seq, appended)
	return 4 + int(b.seq-b.from)/8
}

// begin begins the transaction of a batch, for which another program may have the lock of SQLite.
func (w *writer) begin(b *batch, began time.Time) error {
	for {
		err := b.begin()
		if c := code(err); c != codes.SQLITE_BUSY && c != codes.SQLITE_LOCKED || !w.waits(began) {
			return err
		}
	}
}

// waits reports whether the writer waits for another process any longer: as long as its callers do,
// and after the log was closed for a while.
func (w *writer) waits(began time.Time) bool {
	if w.set.patience > 0 && time.Since(began) >= w.set.patience {
		return false
	}
	select {
	case <-w.stop:
		if w.ending.IsZero() {
			w.ending = time.Now()
		}
		return time.Since(w.ending) < defaultBusyTimeout
	default:
		return true
	}
}

// lockAnchor locks the anchor. It is opened for writing the first time, and anew
// where it is not the file of that name any more: processes that lock different
// ones do not wait for each other.
func (w *writer) lockAnchor(began time.Time) error {
	for {
		if w.writable {
			if err := w.anchor.lock(func() bool { return w.waits(began) }); err != nil {
				return err
			}
			placed, err := w.anchor.inPlace(w.path)
			if placed {
				return nil
			}
			if err = errors.Join(err, w.anchor.unlock()); err != nil {
				return err
			}
		}
		if err := w.reopenAnchor(); err != nil {
			return err
		}
	}
}

// reopenAnchor opens the anchor that is there now. Where it was removed, it is
// made again from the open one.
func (w *writer) reopenAnchor() error {
	f, err := openAnchor(w.path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		a, _, err := w.anchor.read()
		if err != nil {
			return err
		}
		w.logger.Warn("the anchor of the deployment log was removed; it is made again", "path", w.path, "event", a.seq)
		w.writable = false // until the new one is open
		return createAnchor(w.path, a)
	}
	if err != nil {
		return err
	}
	f, w.anchor, w.writable = w.anchor, f, true
	return f.close()
}

// fail poisons the log, and returns what those are told whose events were to be written.
func (w *writer) fail(cause error) error {
	w.queue.Break(fmt.Errorf("%w: open it again once the cause is gone: %w", deploylog.ErrPoisoned, cause))
	w.logger.Error("deployment log poisoned by a failed write", "path", w.path, "error", cause)
	return unwritten{cause}
}

func (w *writer) announce(from, through int64, appended []deploylog.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grown.from, w.grown.through, w.grown.events = from, through, appended
	close(w.grown.over)
	w.grown = growthAfter(through)
}

// settle makes the anchor durable when no commit has taken it along in time.
func (w *writer) settle() {
	if err := w.anchor.sync(); err != nil {
		_ = w.fail(err) // which the next append is told
	}
}

// checkpoint folds the write-ahead log into the file as far as readers allow.
// A failing one is a failed write: SQLite may believe afterwards that pages are
// on disk which the kernel has dropped. A poisoned log is left alone.
func (w *writer) checkpoint() {
	if w.queue.Broken() != nil {
		return
	}
	_, err := w.stmts.checkpoint.row(make([]driver.Value, 3))
	if err != nil && !isRefusal(err) {
		_ = w.fail(fmt.Errorf("checkpoint: %w", err)) // which the next append is told
	}
}
