package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
)

// leave has locks left over by a process that has ended.
func leave(t *testing.T, schema string, names ...string) {
	t.Helper()
	l := open(t, server.URL(schema))
	for _, one := range l.TryLocks(names...) {
		if one.Err != nil {
			t.Fatal(one.Err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// trying are the outcomes of locks that are tried meanwhile.
func trying(l *postgres.Log, names ...string) <-chan []deploylog.TriedLock {
	tried := make(chan []deploylog.TriedLock, 1)
	go func() { tried <- l.TryLocks(names...) }()
	return tried
}

// does has a connection do something.
func does(t *testing.T, c *pgx.Conn, text string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), text, args...); err != nil {
		t.Fatal(err)
	}
}

// Of two who take over the same at once, neither waits for the other, who may wait in turn.
func TestWhatSomebodyElseIsAboutToTakeOverIsNotWaitedFor(t *testing.T) {
	l, first := open(t, server.URL("about")), connected(t, server, "about")
	leave(t, "about", "one", "two")
	does(t, first, "BEGIN")
	does(t, first, `UPDATE locks SET by = 'somebody' WHERE name = '"one"'`)
	tried := soon(t, trying(l, "one", "two", "new"))
	if !errors.Is(tried[0].Err, deploylog.ErrLocked) || tried[1].Err != nil || tried[2].Err != nil {
		t.Errorf("%v; %v; %v", tried[0].Err, tried[1].Err, tried[2].Err)
	}
}

// Whom the server refuses since two wait for each other, has not been first, and tries again.
func TestWhoIsRefusedForADeadlockTriesAgain(t *testing.T) {
	l := open(t, server.URL("deadlock"))
	sql(t, server, "deadlock", `CREATE FUNCTION refuse_lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END $$;
		CREATE TRIGGER refuse_lock BEFORE INSERT ON locks EXECUTE FUNCTION refuse_lock()`)
	if _, err := l.TryLock("one"); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("%v", err)
	}
	sql(t, server, "deadlock", "DROP TRIGGER refuse_lock ON locks")
	if _, err := l.TryLock("one"); err != nil {
		t.Error(err)
	}
}

// Who takes over from several processes waits once for appends, and not once for each of them.
func TestATakeoverWaitsOnceForAllProcesses(t *testing.T) {
	l := open(t, server.URL("several"))
	l.SetAppendTime(longest)
	l.SetLockTime(2 * longest)
	for _, name := range []string{"one", "two", "three"} {
		leave(t, "several", name)
	}
	appends, next := connected(t, server, "several"), connected(t, server, "several")
	does(t, appends, "SELECT pg_advisory_lock($1)", l.AppendKey())
	tried := trying(l, "one", "two", "three")
	awaitWaiting(t, 1)
	queued := make(chan error, 1)
	go func() {
		_, err := next.Exec(t.Context(), "SELECT pg_advisory_lock($1)", l.AppendKey())
		queued <- err
	}()
	awaitWaiting(t, 2)
	does(t, appends, "SELECT pg_advisory_unlock_all()")
	if err := soon(t, queued); err != nil {
		t.Fatal(err)
	}
	for i, one := range soon(t, tried) {
		if one.Err != nil {
			t.Errorf("of process %d: %v", i, one.Err)
		}
	}
}

// Who has to wait long for appends is told so, and not that another has the lock.
func TestATakeoverSaysThatItWaitsForAppends(t *testing.T) {
	l, appends := open(t, server.URL("waits")), connected(t, server, "waits")
	leave(t, "waits", "one")
	l.SetAppendTime(time.Millisecond)
	does(t, appends, "SELECT pg_advisory_lock($1)", l.AppendKey())
	tried := l.TryLocks("one", "new")
	if err := tried[0].Err; !errors.Is(err, deploylog.ErrLocked) || !strings.Contains(err.Error(), "that has ended, and what it was appending may still come into the log") || tried[1].Err != nil {
		t.Errorf("%v; %v", err, tried[1].Err)
	}
	does(t, appends, "SELECT pg_advisory_unlock_all()")
	l.SetAppendTime(longest)
	if _, err := l.TryLock("one"); err != nil {
		t.Error(err)
	}
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
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	goOn, appended := beginsToAppend(t, l)
	loseLocks(t, "takeover")
	taken := make(chan int64, 1)
	go func() {
		unlock, err := other.Lock(t.Context(), "stage")
		if err != nil {
			t.Error(err)
		} else {
			defer unlock()
		}
		v, err := other.Verify(t.Context())
		if err != nil {
			t.Error(err)
		}
		taken <- v.Events
	}()
	awaitWaiting(t, 1)
	close(goOn)
	err := soon(t, appended)
	if seen := soon(t, taken); err == nil && seen != 1 || err != nil && seen != 0 {
		t.Errorf("who took the lock over saw %d events; the append: %v", seen, err)
	}
}

// Who takes over what a process had that has ended waits once for appends, and not for each of its
// locks: there may be thousands, and somebody who always appends.
func TestATakeoverWaitsOnceForAllLocksOfAProcess(t *testing.T) {
	l, other, third := open(t, server.URL("often")), open(t, server.URL("often")), open(t, server.URL("often"))
	for _, name := range []string{"one", "two"} {
		if _, err := l.TryLock(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	goOn, appended := beginsToAppend(t, third)
	if _, err := other.TryLock("two"); err != nil {
		t.Errorf("while somebody appends: %v", err)
	}
	close(goOn)
	if err := soon(t, appended); err != nil {
		t.Error(err)
	}
	if _, err := third.TryLock("two"); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("it is taken, and the error is %v", err)
	}
}

// Wherever the connection is cut while many locks are given up, nobody else has one of those that
// this process still has, and others get all that it gave up.
func TestWhereverManyLocksAreCutOffNoneHasTwoHolders(t *testing.T) {
	c, url := newCable(t, "giving_up")
	other := open(t, server.URL("giving_up"))
	names := func(of string) (all []string) {
		for i := range 50 {
			all = append(all, fmt.Sprintf("%s/%d", of, i))
		}
		return all
	}
	given, kept := names("given"), names("kept")
	lost := 0
	for i := range 6 {
		l := open(t, url)
		l.SetAttendPause(time.Hour) // what is sent beside what is cut would be cut, too
		l.SetPatience(time.Hour)
		for _, one := range l.TryLocks(append(given, kept...)...) {
			if one.Err != nil {
				t.Fatal(one.Err)
			}
		}
		c.after.Store(i%2 == 1)
		c.parts.Store(int64(i / 2))
		l.UnlockAll(given...)
		c.parts.Store(1 << 40)
		for _, name := range given {
			unlock, err := other.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			unlock()
		}
		_, err := l.Append(t.Context(), event("d", fmt.Sprint(i)))
		if err != nil && !refused(err) {
			t.Errorf("cut %d: %v", i, err)
		}
		if err != nil {
			lost++
		}
		for _, one := range other.TryLocks(kept...) {
			if err == nil && !errors.Is(one.Err, deploylog.ErrLocked) {
				t.Fatalf("cut %d: somebody else has a lock that was not given up: %v", i, one.Err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, name := range kept {
			other.UnlockAll(name)
		}
	}
	if lost == 0 || lost == 6 {
		t.Errorf("of 6 processes %d lost their locks", lost)
	}
}

// The locks of a process that was killed are all taken in the first round in which one of them is, by
// a few messages, however many they are.
func TestThousandsOfLocksAreTakenOverInOneRound(t *testing.T) {
	const schema, many, enough = "thousands", 1000, 1 << 20
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("stage/%d", i)
	}
	killed, killedURL := newCable(t, schema)
	takes, takesURL := newCable(t, schema)
	other := open(t, takesURL)
	taken := func(l *postgres.Log) (n int) {
		for _, one := range l.TryLocks(names...) {
			switch {
			case one.Err == nil:
				n++
			case !errors.Is(one.Err, deploylog.ErrLocked):
				t.Fatal(one.Err)
			}
		}
		return n
	}
	if n := taken(open(t, killedURL)); n != many {
		t.Fatalf("of %d locks that nobody has %d are taken", many, n)
	}
	if n := taken(other); n != 0 {
		t.Fatalf("of %d locks that somebody has %d are taken", many, n)
	}
	killed.cut() // as the kernel does for a process that is killed; the server hears of it when it may
	for deadline := time.Now().Add(longest); ; {
		takes.parts.Store(enough)
		n := taken(other)
		if n == 0 && time.Now().Before(deadline) {
			continue
		}
		if n != many {
			t.Errorf("in one round %d of %d locks are taken", n, many)
		}
		if parts := enough - takes.parts.Load(); parts > 50 {
			t.Errorf("to take %d locks takes %d messages", many, parts)
		}
		return
	}
}
