package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/waittest"
)

// takeAll has a log take locks that are free.
func takeAll(t *testing.T, l *postgres.Log, names ...string) {
	t.Helper()
	for _, one := range l.TryLocks(names...) {
		require.NoError(t, one.Err)
	}
}

// leave has locks left over by a process that has ended, as the server has noticed.
func leave(t *testing.T, schema string, names ...string) {
	t.Helper()
	l := open(t, server.URL(schema))
	takeAll(t, l, names...)
	require.NoError(t, l.Close())
	for _, name := range names {
		sql(t, schema, fmt.Sprintf(`DO $$ BEGIN WHILE EXISTS (SELECT FROM locks WHERE name = '%q' AND alive(session))
			LOOP PERFORM pg_sleep(0.01); END LOOP; END $$`, name))
	}
}

// trying are the outcomes of locks that are tried meanwhile.
func trying(l *postgres.Log, names ...string) <-chan []deploylog.TriedLock {
	tried := make(chan []deploylog.TriedLock, 1)
	go func() { tried <- l.TryLocks(names...) }()
	return tried
}

// Of two who take over the same at once, neither waits for the other, who may wait in turn.
func TestWhatSomebodyElseIsAboutToTakeOverIsNotWaitedFor(t *testing.T) {
	l, first := open(t, server.URL("about")), connected(t, server, "about")
	leave(t, "about", "one", "two")
	does(t, first, "BEGIN")
	does(t, first, `UPDATE locks SET by = 'somebody' WHERE name = '"one"'`)
	tried := soon(t, trying(l, "one", "two", "new"))
	assert.ErrorIs(t, tried[0].Err, deploylog.ErrLocked)
	assert.NoError(t, errors.Join(tried[1].Err, tried[2].Err))
}

// Whom the server refuses since two wait for each other, has not been first, and tries again.
func TestWhoIsRefusedForADeadlockTriesAgain(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("deadlock"))
	sql(t, "deadlock", `CREATE FUNCTION refuse_lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END $$;
		CREATE TRIGGER refuse_lock BEFORE INSERT ON locks EXECUTE FUNCTION refuse_lock()`)
	assert.ErrorIs(t, errOf(l.TryLock("one")), deploylog.ErrLocked)
	sql(t, "deadlock", "DROP TRIGGER refuse_lock ON locks")
	assert.NoError(t, errOf(l.TryLock("one")))
}

// Who takes over from several processes waits once for appends, and not once for each of them.
func TestATakeoverWaitsOnceForAllProcesses(t *testing.T) {
	l := open(t, server.URL("several"))
	l.SetAppendTime(waittest.Limit)
	l.SetLockTime(2 * waittest.Limit)
	for _, name := range []string{"one", "two", "three"} {
		leave(t, "several", name)
	}
	appends, next := connected(t, server, "several"), connected(t, server, "several")
	does(t, appends, "SELECT pg_advisory_lock($1)", l.AppendKey())
	tried := trying(l, "one", "two", "three")
	awaitWaiting(t, 1)
	queued := make(chan error, 1)
	go func() { queued <- errOf(next.Exec(t.Context(), "SELECT pg_advisory_lock($1)", l.AppendKey())) }()
	awaitWaiting(t, 2)
	does(t, appends, "SELECT pg_advisory_unlock_all()")
	require.NoError(t, soon(t, queued))
	for i, one := range soon(t, tried) {
		assert.True(t, one.Err == nil, "of process %d: %v", i, one.Err)
	}
}

// Who has to wait long for appends is told so, and not that another has the lock.
func TestATakeoverSaysThatItWaitsForAppends(t *testing.T) {
	l, appends := open(t, server.URL("waits")), connected(t, server, "waits")
	leave(t, "waits", "one")
	l.SetAppendTime(time.Millisecond)
	does(t, appends, "SELECT pg_advisory_lock($1)", l.AppendKey())
	tried := l.TryLocks("one", "new")
	assert.ErrorIs(t, tried[0].Err, deploylog.ErrLocked)
	assert.ErrorContains(t, tried[0].Err, "that has ended, and what it was appending may still come into the log")
	assert.NoError(t, tried[1].Err)
	does(t, appends, "SELECT pg_advisory_unlock_all()")
	l.SetAppendTime(waittest.Limit)
	assert.NoError(t, errOf(l.TryLock("one")))
}

// beginsToAppend has a log be in the middle of an append until goOn is closed.
func beginsToAppend(t *testing.T, l deploylog.ThenAppender) (goOn chan<- struct{}, appended <-chan error) {
	t.Helper()
	began, waits, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := l.AppendThen(t.Context(), []deploylog.Event{event("d", "a")}, func([]deploylog.Event) []deploylog.Event {
			close(began)
			select {
			case <-waits:
			case <-t.Context().Done():
			}
			return nil
		})
		done <- err
	}()
	soon(t, began)
	return waits, done
}

// What was under way when its writer lost its locks is in the log before somebody else has them.
func TestATakeoverWaitsForTheAppendThatIsUnderWay(t *testing.T) {
	l, other := open(t, server.URL("takeover")), open(t, server.URL("takeover"))
	require.NoError(t, errOf(l.TryLock("stage")))
	goOn, appended := beginsToAppend(t, l)
	loseLocks(t)
	taken := make(chan int64, 1)
	go func() {
		unlock, err := other.Lock(t.Context(), "stage")
		if assert.NoError(t, err) {
			defer unlock()
		}
		v, err := other.Verify(t.Context())
		assert.NoError(t, err)
		taken <- v.Events
	}()
	awaitWaiting(t, 1)
	close(goOn)
	err := soon(t, appended)
	seen := soon(t, taken)
	assert.True(t, err == nil && seen == 1 || err != nil && seen == 0, "who took the lock over saw %d events; the append: %v", seen, err)
}

// Who takes over what a process had that has ended waits once for appends, and not for each of its
// locks: there may be thousands, and somebody who always appends.
func TestATakeoverWaitsOnceForAllLocksOfAProcess(t *testing.T) {
	other, third := open(t, server.URL("often")), open(t, server.URL("often"))
	leave(t, "often", "one", "two")
	require.NoError(t, errOf(other.Lock(t.Context(), "one")))
	goOn, appended := beginsToAppend(t, third)
	assert.NoError(t, errOf(other.TryLock("two")), "while somebody appends")
	close(goOn)
	assert.NoError(t, soon(t, appended))
	assert.ErrorIs(t, errOf(third.TryLock("two")), deploylog.ErrLocked, "it is taken")
}

func numbered(of string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s/%d", of, i))
	}
	return names
}

// Wherever the connection is cut while many locks are given up, nobody else has one of those that
// this process still has, and others get all that it gave up.
func TestWhereverManyLocksAreCutOffNoneHasTwoHolders(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "giving_up")
	other := open(t, server.URL("giving_up"))
	given, kept := numbered("given", 12), numbered("kept", 12)
	lost := 0
	for i := range 6 {
		l := open(t, url)
		l.SetAttendPause(time.Hour) // what is sent beside what is cut would be cut, too
		l.SetPatience(time.Hour)
		takeAll(t, l, append(given, kept...)...)
		c.after.Store(i%2 == 1)
		c.parts.Store(int64(i / 2))
		l.UnlockAll(given...)
		c.parts.Store(whole)
		for _, name := range given {
			unlock, err := other.Lock(t.Context(), name)
			require.NoError(t, err)
			unlock()
		}
		_, err := l.Append(t.Context(), event("d", fmt.Sprint(i)))
		if err != nil {
			assert.True(t, refused(err), "cut %d: %v", i, err)
			lost++
		}
		for _, one := range other.TryLocks(kept...) {
			if err == nil {
				require.ErrorIs(t, one.Err, deploylog.ErrLocked, "cut %d: somebody else has a lock that was not given up", i)
			}
		}
		assert.NoError(t, l.Close())
		other.UnlockAll(kept...)
	}
	assert.True(t, lost > 0 && lost < 6, "of 6 processes %d lost their locks", lost)
}

// The locks of a process that was killed are all taken in the first round in which one of them is, by
// a few messages, however many they are.
func TestThousandsOfLocksAreTakenOverInOneRound(t *testing.T) {
	t.Parallel()
	const schema, many, enough = "thousands", 1000, 1 << 20
	names := numbered("stage", many)
	killed, killedURL := newCable(t, schema)
	takes, takesURL := newCable(t, schema)
	other := open(t, takesURL)
	taken := func(l *postgres.Log) (n int) {
		for _, one := range l.TryLocks(names...) {
			if one.Err == nil {
				n++
			} else {
				require.ErrorIs(t, one.Err, deploylog.ErrLocked)
			}
		}
		return n
	}
	require.Equal(t, many, taken(open(t, killedURL)), "locks that nobody has")
	require.Zero(t, taken(other), "locks that somebody has")
	killed.cut() // as the kernel does for a process that is killed; the server hears of it when it may
	n := 0
	waittest.Until(t, func() bool {
		takes.parts.Store(enough)
		n = taken(other)
		return n > 0
	}, "a lock is taken")
	assert.Equal(t, many, n, "in one round")
	assert.LessOrEqual(t, enough-takes.parts.Load(), int64(50), "messages to take %d locks", many)
}
