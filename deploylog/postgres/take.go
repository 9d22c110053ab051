package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
)

// wanted is a lock that is tried.
type wanted struct {
	key    []byte
	name   string
	failed *error // why it is not taken
}

// take takes the locks that are free of those that are named, and returns them, and why it did not
// take the others.
func (s *session) take(names []string) (taken map[string]*held, failed []error, err error) {
	failed = make([]error, len(names))
	var all []wanted
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "":
		case seen[name]:
			failed[i] = fmt.Errorf("%w: it is named twice", deploylog.ErrLocked)
		default:
			seen[name] = true
			all = append(all, wanted{lockKey(name), name, &failed[i]})
		}
	}
	if len(all) == 0 {
		return nil, failed, nil
	}
	// Of two who wait for each other's rows the server would refuse one.
	slices.SortFunc(all, func(a, b wanted) int { return bytes.Compare(a.key, b.key) })

	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.log.closed:
		return nil, failed, errClosed
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.lockTime)
	defer cancel()
	again := s.conn != nil && s.held.Load() == 0 // the connection may have been lost since it was used
	err = s.try(ctx, all)
	if again && s.conn == nil {
		err = s.try(ctx, all)
	}
	if err != nil {
		return nil, failed, err
	}
	taken = map[string]*held{}
	for _, w := range all {
		if *w.failed == nil {
			h := &held{name: w.name, session: s.id.Load()}
			taken[w.name], s.locks[w.name] = h, h
			s.held.Add(1)
		}
	}
	return taken, failed, nil
}

func (s *session) try(ctx context.Context, all []wanted) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	for _, w := range all {
		*w.failed = nil
	}
	free, from, err := s.free(ctx, all)
	if err == nil && len(free) > 0 {
		err = s.takeFree(ctx, free, from)
	}
	return s.ended(err)
}

// free finds out who has locks, and returns those that nobody has, and the sessions that have ended of
// which some of these are left. Who waits looks often, and to take a row that is not to be had
// would write each time.
func (s *session) free(ctx context.Context, all []wanted) (free []wanted, from []int64, err error) {
	keys := make([][]byte, len(all))
	for i, w := range all {
		keys[i] = w.key
	}
	rows, err := s.conn.Query(ctx, `WITH sessions AS (SELECT DISTINCT session FROM locks WHERE key = ANY($1)), living AS (SELECT session, alive(session) FROM sessions)
		SELECT key, by, session, alive FROM locks JOIN living USING (session) WHERE key = ANY($1)`, keys)
	if err != nil {
		return nil, nil, err
	}
	var key []byte
	var by string
	var session int64
	var alive bool
	held, left, gone := map[string]string{}, map[string]int64{}, map[int64]bool{}
	if _, err = pgx.ForEachRow(rows, []any{&key, &by, &session, &alive}, func() error {
		if alive {
			held[string(key)] = by
		} else {
			left[string(key)], gone[session] = session, true
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	if err := s.outlive(ctx, gone); err != nil {
		return nil, nil, err
	}
	for id := range gone {
		if s.over[id] {
			from = append(from, id)
		}
	}
	for _, w := range all {
		by, has := held[string(w.key)]
		id, was := left[string(w.key)]
		switch {
		case has:
			*w.failed = fmt.Errorf("%w: %s", deploylog.ErrLocked, by)
		case was && !s.over[id]:
			*w.failed = fmt.Errorf("%w: that has ended, and what it was appending may still come into the log", deploylog.ErrLocked)
		default:
			free = append(free, w)
		}
	}
	return free, from, nil
}

// outlive waits for the appends of sessions that have ended. One that was under way when its session
// ended may still come into the log: whoever has a lock has seen all that was appended under it. That
// is waited for once for all locks of all these sessions, whose processes may have had thousands:
// after it none of their appends begins, since they ask whether their session lives. Where it takes
// long, it is tried again the next time.
func (s *session) outlive(ctx context.Context, gone map[int64]bool) error {
	var unsure, ended []int64
	for id := range gone {
		if !s.over[id] {
			unsure = append(unsure, id)
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	all := &pgx.Batch{}
	all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	all.Queue("SET LOCAL lock_timeout = '" + milliseconds(s.appendTime) + "'")
	all.Queue("SELECT pg_advisory_xact_lock($1)", s.log.key("append"))
	all.Queue("SELECT id FROM unnest($1::bigint[]) AS id WHERE NOT alive(id)", unsure).Query(func(rows pgx.Rows) (err error) {
		ended, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	all.Queue("COMMIT")
	err := s.conn.SendBatch(ctx, all).Close()
	if err == nil {
		for _, id := range ended {
			s.over[id] = true
		}
		return nil
	}
	if s.conn.IsClosed() {
		return err
	}
	if isCode(err, lockTimeout) {
		err = nil
	}
	_, undone := s.conn.Exec(ctx, "ROLLBACK")
	return cmp.Or(err, undone)
}

// takeFree takes locks that nobody has, or sessions that have ended: all that others were not first
// to take. A row that somebody is about to take is left to them, and not waited for: they may wait for
// one that was taken here. So nothing is inserted of which there is a row, and the rest in order.
func (s *session) takeFree(ctx context.Context, free []wanted, from []int64) error {
	keys, names := make([][]byte, len(free)), make([]string, len(free))
	for i, w := range free {
		keys[i], names[i] = w.key, shownName(w.name)
	}
	taken := map[string]bool{}
	note := func(rows pgx.Rows) error {
		var key []byte
		_, err := pgx.ForEachRow(rows, []any{&key}, func() error {
			taken[string(key)] = true
			return nil
		})
		return err
	}
	both := &pgx.Batch{} // one transaction: what is taken is known, or nothing is
	if len(from) > 0 {
		both.Queue(`WITH left_over AS (SELECT key FROM locks WHERE key = ANY($1) AND session = ANY($4) FOR UPDATE SKIP LOCKED)
			UPDATE locks SET session = $2, by = $3 FROM left_over WHERE locks.key = left_over.key RETURNING locks.key`, keys, s.id.Load(), self(), from).Query(note)
	}
	both.Queue(`INSERT INTO locks SELECT key, name, $3::bigint, $4::text FROM unnest($1::bytea[], $2::text[]) AS free (key, name)
		WHERE NOT EXISTS (SELECT FROM locks WHERE locks.key = free.key) ORDER BY key ON CONFLICT DO NOTHING RETURNING key`, keys, names, s.id.Load(), self()).Query(note)
	switch err := s.conn.SendBatch(ctx, both).Close(); {
	case isCode(err, deadlock): // of two who are first the server refuses one
		clear(taken)
	case err != nil:
		return err
	}
	for _, w := range free {
		if !taken[string(w.key)] {
			*w.failed = fmt.Errorf("%w: by somebody who was first just now", deploylog.ErrLocked)
		}
	}
	return nil
}

// ended ends the session where its connection was lost, and the log with it where that had locks.
func (s *session) ended(err error) error {
	if err == nil || !s.conn.IsClosed() {
		return err
	}
	s.conn = nil
	if s.held.Load() > 0 {
		err = fmt.Errorf("%w: %w", errLost, err)
		s.log.poison(err)
		s.log.endLife(errLost)
	}
	return err
}
