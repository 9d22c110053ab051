package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	// lockTime is how long the server may take to answer about a lock.
	lockTime = 15 * time.Second
	// attendPause is how often the connection is looked at by which this process has locks.
	attendPause = time.Second
	// patience is after what time without a word the server ends the session of a process, which
	// may be stopped: its machine answers for it, and others wait for its locks.
	patience = 20 * time.Second
)

// errLost says that the connection was lost by which this process had locks.
var errLost = errors.New("the connection was lost by which this process had its locks, and others may have them now")

// session is what this process has its locks by: a connection that has an advisory lock.
type session struct {
	log *Log

	mu       sync.Mutex
	conn     *pgx.Conn      // nil is none
	over     map[int64]bool // sessions of others that have ended, and of whose appends none is under way any more
	from     int64          // that of them from which a lock was taken last; 0 is none
	patience time.Duration  // how long the server waits to hear of this process

	// Who appends reads these without waiting for the connection, which may wait for who appends.
	id   atomic.Int64
	held atomic.Int64 // locks
}

// Lock implements deploylog.Log.
func (l *Log) Lock(ctx context.Context, name string) (unlock func(), err error) {
	try := func(name string) (func(), error) { return l.tryWithin(ctx, name) }
	return l.turns.Lock(ctx, name, try, l.closed, errClosed)
}

// tryWithin is TryLock, which is waited for until ctx ends: to cancel what the session is at would
// end it, and with it all other locks. What is taken afterwards is given up.
func (l *Log) tryWithin(ctx context.Context, name string) (unlock func(), err error) {
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		unlock, err = l.TryLock(name)
	}()
	select {
	case <-tried:
		return unlock, err
	case <-ctx.Done():
		go func() {
			if <-tried; unlock != nil {
				unlock()
			}
		}()
		return nil, fmt.Errorf("lock %q: %s does not answer: %w", name, l.where, ctx.Err())
	}
}

// TryLock implements deploylog.Log. The error names the process that holds the lock.
func (l *Log) TryLock(name string) (unlock func(), err error) {
	if name == "" {
		return nil, errors.New("lock: the name must not be empty")
	}
	id, err := l.session.take(name)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, l.explain(err))
	}
	return sync.OnceFunc(func() { l.session.release(name, id) }), nil
}

// Locked implements deploylog.Log.
func (l *Log) Locked(name string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	err = l.reading(ctx, func() error {
		return l.readers.QueryRow(ctx, "SELECT EXISTS (SELECT FROM locks WHERE key = $1 AND alive(session))", lockKey(name)).Scan(&held)
	})
	if err != nil {
		return false, fmt.Errorf("lock %q: %w", name, l.explain(err))
	}
	return held, nil
}

// LocksHeld implements deploylog.LockLister.
func (l *Log) LocksHeld(ctx context.Context, prefix string) (held []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	var shown []string
	err = l.reading(ctx, func() error {
		rows, err := l.readers.Query(ctx, `SELECT name FROM locks WHERE starts_with(name, $1)
			AND session IN (SELECT session FROM (SELECT DISTINCT session FROM locks) each WHERE alive(session))`, strings.TrimSuffix(shownName(prefix), `"`))
		if err != nil {
			return err
		}
		shown, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the locks that begin with %q: %w", prefix, l.explain(err))
	}
	for _, text := range shown {
		if name, err := strconv.Unquote(text); err == nil { // what is no name has nobody taken who knows them
			held = append(held, name)
		}
	}
	slices.Sort(held)
	return held, nil
}

// shownName is a name as the table of locks has it.
func shownName(name string) string { return strconv.QuoteToGraphic(name) }

func lockKey(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

// lives returns by which session this process has locks, if it has any.
func (s *session) lives() (id int64, has bool) {
	has = s.held.Load() > 0
	return s.id.Load(), has
}

// take takes a lock, and returns by which session.
func (s *session) take(name string) (id int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.log.closed:
		return 0, errClosed
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	again := s.conn != nil && s.held.Load() == 0 // the connection may have been lost since it was used
	err = s.try(ctx, name)
	if again && s.conn == nil {
		err = s.try(ctx, name)
	}
	if err != nil {
		return 0, err
	}
	s.held.Add(1)
	return s.id.Load(), nil
}

func (s *session) try(ctx context.Context, name string) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.from != 0 { // whose other locks are likely taken next
		if taken, err := s.takeOver(ctx, name, s.from); taken || err != nil {
			return s.ended(err)
		}
		s.from = 0
	}
	// Who waits looks often, and taking a row that is not to be had would write each time.
	var by string
	var holder int64
	var alive bool
	err := s.conn.QueryRow(ctx, "SELECT by, session, alive(session) FROM locks WHERE key = $1", lockKey(name)).Scan(&by, &holder, &alive)
	if err == nil && alive {
		return fmt.Errorf("%w: %s", deploylog.ErrLocked, by)
	}
	var taken bool
	switch {
	case err == nil:
		taken, err = s.takeOver(ctx, name, holder)
	case errors.Is(err, pgx.ErrNoRows):
		var inserted pgconn.CommandTag
		inserted, err = s.conn.Exec(ctx, "INSERT INTO locks VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", lockKey(name), shownName(name), s.id.Load(), self())
		taken = inserted.RowsAffected() > 0
	}
	if err != nil {
		return s.ended(err)
	}
	if !taken {
		return fmt.Errorf("%w: by somebody who was first just now", deploylog.ErrLocked)
	}
	return nil
}

// takeOver takes the lock of a session that has ended. An append that was under way when it ended
// may still come into the log, so it is waited for: whoever has a lock has seen all that was
// appended under it. That is waited for once for all locks of the session, whose process may
// have had thousands: after it none of its appends begins, since they ask whether it lives.
func (s *session) takeOver(ctx context.Context, name string, from int64) (taken bool, err error) {
	const update = "UPDATE locks SET session = $2, by = $3 WHERE key = $1 AND session = $4 AND NOT alive(session)"
	args := []any{lockKey(name), s.id.Load(), self(), from}
	if s.over[from] {
		updated, err := s.conn.Exec(ctx, update, args...)
		s.from = from
		return updated.RowsAffected() > 0, err
	}
	all := &pgx.Batch{}
	all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	all.Queue("SET LOCAL lock_timeout = '5s'")
	all.Queue("SELECT pg_advisory_xact_lock($1)", s.log.key("append"))
	all.Queue("SELECT alive($1)", from)
	all.Queue(update, args...)
	all.Queue("COMMIT")
	var alive bool
	all.QueuedQueries[3].QueryRow(func(row pgx.Row) error { return row.Scan(&alive) })
	all.QueuedQueries[4].Exec(func(updated pgconn.CommandTag) error {
		taken = updated.RowsAffected() > 0
		return nil
	})
	if err = s.conn.SendBatch(ctx, all).Close(); err == nil || s.conn.IsClosed() {
		if err == nil && !alive {
			s.over[from], s.from = true, from
		}
		return taken && err == nil, err
	}
	if isCode(err, lockTimeout) {
		err = nil // it is tried again
	}
	_, undone := s.conn.Exec(ctx, "ROLLBACK")
	return false, cmp.Or(err, undone)
}

// self is this process, as others are told of it.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}

// connect begins a session, unless one goes on.
func (s *session) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	if s.held.Load() > 0 {
		return errLost
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	id := int64(binary.BigEndian.Uint64(random[:]))
	// A lock that a server forgets with itself need not be on its disk.
	conn, err := s.log.connect(ctx, map[string]string{"synchronous_commit": "off"})
	if err != nil {
		return err
	}
	if err := s.begin(ctx, conn, id); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.conn, s.over, s.from = conn, map[int64]bool{}, 0 // the server may be another
	s.id.Store(id)
	go func() {
		defer crash.End("", "attending to the locks of the deployment log")
		s.attend(id)
	}()
	return nil
}

// begin has a connection be a session, which ends when the server hears nothing of this process any
// more. What a server does not know it is not asked for: before version 14 it waits for a process
// that is stopped, and before version 12 it may take a machine that is gone for a slow one.
func (s *session) begin(ctx context.Context, conn *pgx.Conn, id int64) error {
	_, err := conn.Exec(ctx, "SELECT set_config(name, $1, false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_user_timeout')",
		fmt.Sprintf("%dms", s.patience.Milliseconds()))
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", id)
	}
	return err
}

// attend finds out when a session is lost by which this process has locks, also while it neither
// appends nor takes others: somebody else may have them, and it is to do nothing more.
func (s *session) attend(id int64) {
	for every := time.NewTicker(attendPause); ; {
		select {
		case <-every.C:
		case <-s.log.closed:
			every.Stop()
			return
		}
		if !s.lasts(id) {
			every.Stop()
			return
		}
	}
}

// lasts reports whether a session goes on, which it asks the server: so that hears of this process.
func (s *session) lasts(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.id.Load() != id {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		_ = s.conn.Close(ctx)
		_ = s.ended(err)
		return false
	}
	return true
}

// ended ends the session where its connection was lost, and the log with it where that had locks.
func (s *session) ended(err error) error {
	if !s.conn.IsClosed() {
		return err
	}
	s.conn = nil
	if s.held.Load() > 0 {
		err = fmt.Errorf("%w: %w", errLost, err)
		s.log.poison(err)
		s.log.losing.Do(func() { close(s.log.lost) })
	}
	return err
}

// release gives a lock up. Where the session has ended, that did so.
func (s *session) release(name string, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Add(-1)
	if s.conn == nil || s.id.Load() != id {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	if _, err := s.conn.Exec(ctx, "DELETE FROM locks WHERE key = $1 AND session = $2", lockKey(name), id); err != nil {
		_ = s.conn.Close(ctx) // which gives it up for sure
		_ = s.ended(err)
	}
}

// close ends the session, and with it gives up all locks.
func (s *session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	err := s.conn.Close(ctx)
	s.conn = nil
	return err
}
