package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// counted makes names that were not used before.
var counted atomic.Int64

func uncounted() deploylog.Event { return event(fmt.Sprint(counted.Add(1)), "a") }

// whole is more parts than any test sends over a cable.
const whole = 1 << 40

// ends says whether the part at which a connection is cut still reaches the server. It does in make test, where
// the client knows least of what came of it; make test-all cuts before as well.
func ends() []bool {
	if ringtest.All() {
		return []bool{true, false}
	}
	return []bool{true}
}

// next is the part after so many at which a connection is cut: make test leaves out each second one of
// those after the first few.
func next(parts int64) int64 {
	if parts < 4 || ringtest.All() {
		return parts + 1
	}
	return parts + 2
}

// eachCut does something again and again, and cuts the connection at one message after the other, before
// it reaches the server or after, until it is done before the cut. What it was to do is checked
// with the connection whole again; a cut that was not survived has to say what was attempted.
func eachCut(t *testing.T, schema, says string, try func(t *testing.T, url string, cut func()) error, check func(t *testing.T, url string, failed error)) {
	t.Helper()
	for _, after := range ends() {
		failures := 0
		for parts, more := int64(0), true; more; parts = next(parts) {
			sound := t.Run(fmt.Sprintf("after %d parts (the last reaches the server: %v)", parts, after), func(t *testing.T) {
				c, url := newCable(t, schema)
				c.after.Store(after)
				err := try(t, url, func() { c.parts.Store(parts) })
				left := c.parts.Swap(whole)
				if err != nil {
					failures++
					assert.ErrorContains(t, err, says)
					assert.NotContains(t, err.Error(), "\n")
				}
				check(t, url, err)
				more = left <= 0 || left >= whole
			})
			if !sound {
				return
			}
		}
		assert.GreaterOrEqual(t, failures, 3, "cuts that were noticed")
	}
}

// Wherever the connection is cut while locks are taken, and taken over, a process has all of them or
// none, and whoever tries next has them.
func TestWhereverTheConnectionIsCutLocksAreTakenWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_locks"
	names := []string{"one", "two", "new"}
	other := open(t, server.URL(schema))
	var l *postgres.Log
	eachCut(t, schema, "lock \"", func(t *testing.T, url string, cut func()) error {
		leave(t, schema, names[:2]...)
		l = open(t, url)
		l.SetAttendPause(time.Hour) // what is sent beside what is cut would be cut, too
		l.SetPatience(time.Hour)
		cut()
		var failed []error
		for _, one := range l.TryLocks(names...) {
			if one.Err != nil {
				failed = append(failed, one.Err)
			}
		}
		assert.True(t, len(failed) == 0 || len(failed) == len(names), "of %d locks these are not taken: %v", len(names), failed)
		return errors.Join(failed[:min(len(failed), 1)]...)
	}, func(t *testing.T, _ string, failed error) {
		if failed == nil {
			for i, one := range other.TryLocks(names...) {
				assert.ErrorIs(t, one.Err, deploylog.ErrLocked, "somebody else has %s, too", names[i])
			}
			l.UnlockAll(names...)
		}
		ctx := waittest.Context(t)
		for _, next := range []*postgres.Log{l, other} {
			var unlock []func()
			for _, name := range names {
				one, err := next.Lock(ctx, name)
				require.NoError(t, err, "afterwards")
				unlock = append(unlock, one)
			}
			assert.NoError(t, errOf(next.Append(t.Context(), uncounted())), "an append afterwards")
			for _, one := range unlock {
				one()
			}
		}
		assert.NoError(t, l.Close())
	})
}

// Wherever the connection is cut while an object is kept, it is there whole or not at all, and it is
// there if that was said; it can be kept again.
func TestWhereverTheConnectionIsCutObjectsAreKeptWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_objects"
	other := objects.Via(open(t, server.URL(schema)).Objects())
	var content []byte
	var store objects.Store
	eachCut(t, schema, "storing object ", func(t *testing.T, url string, cut func()) error {
		content = fmt.Append(bytes.Repeat([]byte("x"), 100<<10), counted.Add(1))
		store = objects.Via(open(t, url).Objects())
		cut()
		_, err := store.Keep(content)
		return err
	}, func(t *testing.T, _ string, failed error) {
		got, err := other.Load(objects.Hash(content))
		missing := failed != nil && errors.Is(err, objects.ErrMissing)
		assert.True(t, missing || err == nil && bytes.Equal(got, content), "there are %d bytes: %v", len(got), err)
		assert.NoError(t, errOf(store.Keep(content)), "again")
		loads(t, other, content)
	})
}

// loads fails unless a store has an object whole.
func loads(t *testing.T, store objects.Store, content []byte) {
	t.Helper()
	got, err := store.Load(objects.Hash(content))
	assert.NoError(t, err)
	assert.True(t, bytes.Equal(got, content), "there are %d of %d bytes", len(got), len(content))
}

// Wherever the connection is cut while an object is fetched, nobody gets a part of it, or is told
// that it is missing, and it can be fetched again.
func TestWhereverTheConnectionIsCutObjectsAreFetchedWhollyOrNot(t *testing.T) {
	t.Parallel()
	const schema = "cut_fetches"
	content := bytes.Repeat([]byte("x"), 100<<10)
	hash, err := objects.Via(open(t, server.URL(schema)).Objects()).Keep(content)
	require.NoError(t, err)
	var store objects.Store
	eachCut(t, schema, "object "+hash, func(t *testing.T, url string, cut func()) error {
		store = objects.Via(open(t, url).Objects())
		cut()
		got, err := store.Load(hash)
		if err == nil && !bytes.Equal(got, content) || errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrAltered) {
			t.Errorf("there are %d bytes: %v", len(got), err)
		}
		return err
	}, func(t *testing.T, _ string, _ error) {
		loads(t, store, content)
	})
}

// Wherever the connection is cut while a log is made, or brought to this version, that is done wholly
// or not at all, and the next command does it.
func TestWhereverTheConnectionIsCutALogIsMadeWhollyOrNot(t *testing.T) {
	t.Parallel()
	for schema, c := range map[string]struct{ attempt, before, none string }{
		"cut_new": {"create the log: ", "DROP SCHEMA cut_new CASCADE", "0 tables, 0 triggers, version 0"},
		"cut_old": {"bring the log to version 2: ", firstVersion, "3 tables, 2 triggers, version 1"},
	} {
		t.Run(schema, func(t *testing.T) {
			require.NoError(t, open(t, server.URL(schema)).Close())
			said := 0
			eachCut(t, schema, "open deployment log: ", func(t *testing.T, url string, cut func()) error {
				sql(t, schema, c.before)
				cut()
				err := notOpened(t, url, postgres.Options{})
				if err != nil && strings.Contains(err.Error(), c.attempt) {
					said++
				}
				return err
			}, func(t *testing.T, url string, failed error) {
				state := made(t, schema)
				assert.True(t, state == "6 tables, 2 triggers, version 2" || failed != nil && state == c.none, "%v, and there are %s", failed, state)
				assert.NoError(t, errOf(open(t, url).Append(t.Context(), uncounted())), "the next command")
			})
			assert.GreaterOrEqual(t, said, ringtest.Cases(2, 3), "errors that say what was attempted")
		})
	}
}

// made says what there is of a log.
func made(t *testing.T, schema string) string {
	t.Helper()
	var tables, triggers, version int64
	c := connected(t, server, schema)
	defer c.Close(context.Background())
	does(t, c, "BEGIN ISOLATION LEVEL REPEATABLE READ") // the server may be about to commit
	require.NoError(t, c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = $1),
		(SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text IN ('log', 'events') AND tgenabled = 'O')`, schema).Scan(&tables, &triggers))
	if tables > 0 {
		require.NoError(t, c.QueryRow(t.Context(), "SELECT version FROM log").Scan(&version))
	}
	return fmt.Sprintf("%d tables, %d triggers, version %d", tables, triggers, version)
}
