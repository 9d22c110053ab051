package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
)

// lockTime is how long the server may take to answer about a lock.
const lockTime = 15 * time.Second

// errLost says that the connection was lost by which this process had locks.
var errLost = errors.New("the connection was lost by which this process had its locks, and others may have them now")

// session is what this process has its locks by: a connection that has an advisory lock.
type session struct {
	log *Log

	mu   sync.Mutex
	conn *pgx.Conn // nil is none
	id   int64
	held int // locks
}

// Lock implements deploylog.Log.
func (l *Log) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return l.turns.Lock(ctx, name, l.TryLock, l.closed, errClosed)
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

func lockKey(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

// lives returns by which session this process has locks, if it has any.
func (s *session) lives() (id int64, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.held > 0
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
	again := s.conn != nil && s.held == 0 // the connection may have been lost since it was used
	err = s.try(ctx, name)
	if again && s.conn == nil {
		err = s.try(ctx, name)
	}
	if err != nil {
		return 0, err
	}
	s.held++
	return s.id, nil
}

func (s *session) try(ctx context.Context, name string) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	// Who waits looks often, and taking a row that is not to be had would write each time.
	var by string
	err := s.conn.QueryRow(ctx, "SELECT by FROM locks WHERE key = $1 AND alive(session)", lockKey(name)).Scan(&by)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s", deploylog.ErrLocked, by)
	case !errors.Is(err, pgx.ErrNoRows):
		return s.ended(err)
	}
	taken, err := s.conn.Exec(ctx, `INSERT INTO locks AS l VALUES ($1, $2, $3, $4)
		ON CONFLICT (key) DO UPDATE SET session = excluded.session, by = excluded.by WHERE NOT alive(l.session)`,
		lockKey(name), strconv.QuoteToGraphic(name), s.id, holder())
	if err != nil {
		return s.ended(err)
	}
	if taken.RowsAffected() > 0 {
		return nil
	}
	return fmt.Errorf("%w: by somebody who was first just now", deploylog.ErrLocked)
}

// holder is this process, as others are told of it.
func holder() string {
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
	if s.held > 0 {
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
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", id); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.conn, s.id = conn, id
	return nil
}

// ended ends the session where its connection was lost, and the log with it where that had locks.
func (s *session) ended(err error) error {
	if !s.conn.IsClosed() {
		return err
	}
	s.conn = nil
	if s.held > 0 {
		err = fmt.Errorf("%w: %w", errLost, err)
		s.log.poison(err)
	}
	return err
}

// release gives a lock up. Where the session has ended, that did so.
func (s *session) release(name string, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.conn == nil || s.id != id {
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
