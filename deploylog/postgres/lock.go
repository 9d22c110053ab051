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

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	// lockTime is how long the server may take to answer about a lock.
	lockTime = 15 * time.Second
	// appendTime is how long who tries locks waits for what somebody was appending who had them.
	appendTime = 5 * time.Second
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
	conn     *pgx.Conn        // nil is none
	locks    map[string]*held // that this process has, by name
	over     map[int64]bool   // sessions of others that have ended, and of whose appends none is under way any more
	patience time.Duration    // how long the server waits to hear of this process
	lockTime time.Duration    // how long the server may take to answer

	appendTime  time.Duration // how long appends of sessions that have ended are waited for
	attendPause time.Duration // how often the connection is looked at

	// Who appends reads these without waiting for the connection, which may wait for who appends.
	id   atomic.Int64
	held atomic.Int64 // locks

	unsettled atomic.Bool // the server may be at an append whose connection was lost
}

// held is a lock that this process has taken.
type held struct {
	name    string
	session int64
	over    bool // it was given up
}

// Lock implements deploylog.Log.
func (l *Log) Lock(ctx context.Context, name string) (unlock func(), err error) {
	try := func(name string) (func(), error) { return l.tryWithin(ctx, name) }
	return l.turns.Lock(ctx, name, try, l.closed, errClosed)
}

// tryWithin is TryLock, which is waited for until ctx ends: to cancel what the session is at would
// end it, and with it all other locks. What is taken afterwards is given up.
func (l *Log) tryWithin(ctx context.Context, name string) (unlock func(), err error) {
	var tried deploylog.TriedLock
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer crash.Catch(&tried.Err, "trying a lock of the deployment log")
		tried = l.TryLocks(name)[0]
	}()
	select {
	case <-done:
		return tried.Unlock, tried.Err
	case <-ctx.Done():
		go func() {
			defer crash.End("", "giving up a lock of the deployment log")
			if <-done; tried.Unlock != nil {
				tried.Unlock()
			}
		}()
		return nil, fmt.Errorf("lock %q: %s does not answer: %w", name, l.where, ctx.Err())
	}
}

// TryLock implements deploylog.Log. The error names the process that holds the lock.
func (l *Log) TryLock(name string) (unlock func(), err error) {
	one := l.TryLocks(name)[0]
	return one.Unlock, one.Err
}

// TryLocks implements deploylog.ManyLocker.
func (l *Log) TryLocks(names ...string) []deploylog.TriedLock {
	taken, failed, err := l.session.take(names)
	all := make([]deploylog.TriedLock, len(names))
	for i, name := range names {
		switch why := cmp.Or(err, failed[i]); {
		case name == "":
			all[i].Err = errors.New("lock: the name must not be empty")
		case why != nil:
			all[i].Err = fmt.Errorf("lock %q: %w", name, l.explain(why))
		default:
			all[i].Unlock = func() { l.session.release(taken[name]) }
		}
	}
	return all
}

// UnlockAll implements deploylog.ManyLocker.
func (l *Log) UnlockAll(names ...string) { l.session.release(l.session.named(names)...) }

// Locked implements deploylog.Log.
func (l *Log) Locked(name string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	err = l.reading(ctx, func(ctx context.Context) error {
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
	err = l.reading(ctx, func(ctx context.Context) error {
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
	s.conn, s.over = conn, map[int64]bool{} // the server may be another
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
	_, err := conn.Exec(ctx, "SELECT set_config(name, $1, false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_user_timeout')", milliseconds(s.patience))
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", id)
	}
	return err
}

// attend finds out when a session is lost by which this process has locks, also while it neither
// appends nor takes others: somebody else may have them, and it is to do nothing more.
func (s *session) attend(id int64) {
	for every := time.NewTicker(s.attendPause); ; {
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
	ctx, cancel := context.WithTimeout(context.Background(), s.lockTime)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		_ = s.conn.Close(ctx)
		_ = s.ended(err)
		return false
	}
	return true
}

// named are those of the named locks that this process has.
func (s *session) named(names []string) (all []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if h := s.locks[name]; h != nil {
			all = append(all, h)
		}
	}
	return all
}

// release gives locks up, all at once. Where their session has ended, that did so.
func (s *session) release(locks ...*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id.Load()
	var keys [][]byte
	for _, h := range locks {
		if h.over {
			continue
		}
		h.over = true
		s.held.Add(-1)
		if s.locks[h.name] == h {
			delete(s.locks, h.name)
		}
		if h.session == id {
			keys = append(keys, lockKey(h.name))
		}
	}
	if s.conn == nil || len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.lockTime)
	defer cancel()
	if s.unsettled.Load() {
		// Once the session has ended nothing is begun of that append, and who takes the locks waits for
		// what was begun.
		_ = s.conn.Close(ctx)
		_ = s.ended(s.log.queue.Broken())
		return
	}
	if _, err := s.conn.Exec(ctx, "DELETE FROM locks WHERE key = ANY($1) AND session = $2", keys, id); err != nil {
		_ = s.conn.Close(ctx) // which gives them up for sure
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
	ctx, cancel := context.WithTimeout(context.Background(), s.lockTime)
	defer cancel()
	err := s.conn.Close(ctx)
	s.conn = nil
	return err
}
