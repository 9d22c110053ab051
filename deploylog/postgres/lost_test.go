package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// lost is what those are told whose locks are lost.
const lost = "the connection was lost by which this process had its locks"

// Wherever the connection is cut, what was acknowledged is there, once, and what was not is
// there or not, but nothing in between; and the log can be opened again.
func TestWhereverTheConnectionIsCutNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	poisoned := 0
	for _, after := range ends() {
		for parts := range 14 {
			schema := fmt.Sprintf("cut_%v_%d", after, parts)
			c, url := newCable(t, schema)
			c.after.Store(after)
			l := open(t, url)
			appends(t, l, event("before", "a"))
			c.parts.Store(int64(parts))
			acknowledged, ended := []string{"before"}, error(nil)
			for i := range 6 {
				deployment := fmt.Sprintf("d%d", i)
				_, err := l.Append(t.Context(), event(deployment, "a"), event(deployment, "b"))
				if err == nil {
					acknowledged = append(acknowledged, deployment)
				} else if ended = err; errors.Is(err, deploylog.ErrDuplicate) {
					t.Errorf("cut after %d parts: %v", parts, err)
				}
			}
			if errors.Is(ended, deploylog.ErrPoisoned) {
				poisoned++
			}
			c.parts.Store(whole)
			again := open(t, url)
			assert.NoError(t, errOf(again.Append(t.Context(), event("after", "a"))), "cut after %d parts", parts)
			found := map[string]int{}
			for _, e := range read(t, again, deploylog.Filter{}) {
				found[e.Deployment]++
			}
			for _, deployment := range acknowledged {
				assert.Contains(t, found, deployment, "cut after %d parts (the last reached the server: %v)", parts, after)
			}
			for deployment, n := range found {
				assert.True(t, n == 2 || !strings.HasPrefix(deployment, "d"), "cut after %d parts: of %s there are %d events", parts, deployment, n)
			}
			assert.NoError(t, errOf(again.Verify(t.Context())), "cut after %d parts", parts)
		}
	}
	assert.NotZero(t, poisoned, "no cut came where the outcome of a write was unknown")
}

// Who has lost its locks appends nothing. Who is told that an event is there already takes it for done,
// so that is not said either.
func TestWhoLosesTheConnectionOfItsLocksAppendsNothing(t *testing.T) {
	const schema = "lost_locks"
	l, other, repeats := open(t, server.URL(schema)), open(t, server.URL(schema)), open(t, server.URL("repeats"))
	unlock := must.Get(l.TryLock("stage"))(t)
	err := errOf(other.TryLock("stage"))
	assert.ErrorIs(t, err, deploylog.ErrLocked)
	assert.ErrorContains(t, err, "process")
	require.NoError(t, errOf(repeats.TryLock("stage")))
	appends(t, l, event("d", "a"))
	appends(t, repeats, event("d", "a"))
	assert.ErrorIs(t, errOf(repeats.Append(t.Context(), event("d", "a"))), deploylog.ErrDuplicate, "with the lock")
	loseLocks(t)
	theirs := must.Get(other.Lock(t.Context(), "stage"))(t)
	defer theirs()
	err = errOf(l.Append(t.Context(), event("d", "b")))
	assert.True(t, refused(err))
	assert.ErrorContains(t, err, lost)
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "b"))), deploylog.ErrPoisoned)
	unlock()
	held, err := other.Locked("stage")
	assert.True(t, held && err == nil, "it was given up for who has it now: %v", err)
	err = errOf(repeats.Append(t.Context(), event("d", "a")))
	assert.True(t, refused(err) && !errors.Is(err, deploylog.ErrDuplicate), "without the lock: %v", err)
}

func TestWhoWaitsIsToldThatItsLocksAreLost(t *testing.T) {
	l := open(t, server.URL("idle"))
	l.SetAttendPause(10 * time.Millisecond)
	require.NoError(t, errOf(l.TryLock("stage")))
	ended := endOfWatch(t, l)
	loseLocks(t)
	assert.ErrorContains(t, soon(t, ended), lost)
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "a"))), deploylog.ErrPoisoned)
}

func endOfWatch(t *testing.T, l deploylog.Log) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for _, err := range l.Watch(t.Context(), deploylog.Filter{After: 1 << 40}) {
			ended <- err
		}
	}()
	return ended
}

// A network that is gone without a word ends what is read over it, and what will be, as soon as the
// locks are known to be lost: nothing waits until TCP gives up, which it never does here.
func TestWhatIsReadEndsWhenTheNetworkIsGoneWithoutAWord(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "without_a_word")
	l := open(t, url)
	appends(t, l, event("d", "a"))
	require.NoError(t, errOf(l.TryLock("stage")))
	watches, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		for _, err := range l.Watch(t.Context(), deploylog.Filter{}) {
			if err != nil {
				watched <- err
			} else {
				close(watches)
			}
		}
	}()
	soon(t, watches)
	l.SetLockTime(time.Second)
	c.held.Store(true)
	read := func() error {
		for _, err := range l.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for what, err := range map[string]error{"a read": read(), "a watch": soon(t, watched), "a later read": read(), "a text": l.Objects().Keep("00", nil)} {
		assert.ErrorContains(t, err, lost, what)
	}
	assert.ErrorContains(t, errOf(l.Locked("stage")), "the connection was lost")
	assert.NoError(t, l.Close())
}

// Whether the locks are still there is asked for a batch, and not for each of its rows, since others wait meanwhile.
func TestManyEventsAskForLocksOnce(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("asked"))
	require.NoError(t, errOf(l.TryLock("stage")))
	sql(t, "asked", `CREATE SEQUENCE calls; ALTER FUNCTION alive RENAME TO is_alive;
		CREATE FUNCTION alive(session bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM nextval('calls'); RETURN is_alive(session); END $$`)
	require.NoError(t, errOf(l.Append(t.Context(), hosts("d", 500)...)))
	var calls int
	require.NoError(t, connected(t, server, "asked").QueryRow(t.Context(), "SELECT last_value FROM calls").Scan(&calls))
	assert.Equal(t, 1, calls)
}

// A process that is stopped keeps its connections, for which its machine answers. Its locks others
// have all the same, and it records nothing when it goes on.
func TestAProcessThatIsStoppedLosesItsLocks(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "stopped")
	l, other := open(t, url), open(t, server.URL("stopped"))
	l.SetPatience(8 * time.Second)
	require.NoError(t, errOf(l.TryLock("stage")))
	appends(t, l, event("d", "a"))
	c.held.Store(true)
	require.NoError(t, errOf(other.Lock(t.Context(), "stage")))
	c.held.Store(false)
	assert.True(t, refused(errOf(l.Append(t.Context(), event("d", "b")))), "who was stopped appends")
}

func TestAProcessThatOnlyWaitsKeepsItsLocks(t *testing.T) {
	t.Parallel()
	const schema = "patient"
	l, other := open(t, server.URL(schema)+"&application_name=patient"), open(t, server.URL(schema))
	l.SetAttendPause(100 * time.Millisecond)
	require.NoError(t, errOf(l.TryLock("stage")))
	sql(t, schema, `DO $$ DECLARE heard timestamptz; pings int := 0; last timestamptz; BEGIN
		WHILE pings < 3 LOOP
			PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot();
			SELECT max(state_change) INTO heard FROM pg_stat_activity WHERE query = '-- ping' AND application_name = 'patient';
			IF heard IS DISTINCT FROM last THEN pings := pings + 1; last := heard; END IF;
		END LOOP; END $$`)
	held := must.Get(other.Locked("stage"))(t)
	assert.True(t, held, "it is held: %v", held)
}

func TestALockIsNotWaitedForLongerThanSaid(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "hanging")
	l := open(t, url)
	unlock := must.Get(l.TryLock("one"))(t)
	unlock()
	c.held.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, errOf(l.Lock(ctx, "two")), context.DeadlineExceeded)
	c.held.Store(false)
	c.cut()
}

// pooler lends one connection, which has a path, to all its clients, for a query each. It returns
// the URL of the log behind it.
func pooler(t *testing.T, schema, path string) string {
	url, dir := server.URL(schema), t.TempDir()
	backend := must.Get(pgx.Connect(t.Context(), strings.Replace(url, "schema="+schema, "search_path="+path, 1)))(t)
	lent := must.Get(backend.PgConn().Hijack())(t)
	listener := must.Get(net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")))(t)
	var mu sync.Mutex
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
		_ = lent.Conn.Close()
	})
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { lend(&mu, lent, client) })
		}
	})
	from := url[strings.Index(url, "host=")+len("host=") : strings.Index(url, "&")]
	return strings.Replace(url, from, strings.ReplaceAll(dir, "/", "%2F"), 1) + "&default_query_exec_mode=simple_protocol"
}

func lend(mu *sync.Mutex, lent *pgconn.HijackedConn, client net.Conn) {
	defer client.Close()
	near := pgproto3.NewBackend(client, client)
	if _, err := near.ReceiveStartupMessage(); err != nil {
		return
	}
	near.Send(&pgproto3.AuthenticationOk{})
	near.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	near.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	near.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	near.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for near.Flush() == nil {
		message, err := near.Receive()
		query, is := message.(*pgproto3.Query)
		if err != nil || !is {
			return
		}
		if !answer(mu, lent, near, query) {
			return
		}
	}
}

func answer(mu *sync.Mutex, lent *pgconn.HijackedConn, near *pgproto3.Backend, query *pgproto3.Query) bool {
	mu.Lock()
	defer mu.Unlock()
	lent.Frontend.Send(query)
	if lent.Frontend.Flush() != nil {
		return false
	}
	for {
		message, err := lent.Frontend.Receive()
		if err != nil {
			return false
		}
		near.Send(message)
		if _, done := message.(*pgproto3.ReadyForQuery); done {
			return true
		}
		if near.Flush() != nil { // what was received is valid until the next one
			return false
		}
	}
}

// Behind what lends a connection for each transaction, two who have a lock each could have the
// same one; and what drops settings leads to other tables.
func TestAPoolerOfTransactionsIsRefused(t *testing.T) {
	t.Parallel()
	open(t, server.URL("pooled"))
	for name, path := range map[string]string{"it keeps settings": "%22pooled%22", "it drops settings": "public"} {
		err := notOpened(t, pooler(t, "pooled", path), postgres.Options{})
		assert.ErrorContains(t, err, "a pooler is between", name)
		assert.ErrorContains(t, err, "name the server itself", name)
	}
}

func takeAll(t *testing.T, l *postgres.Log, names ...string) {
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

func trying(l *postgres.Log, names ...string) <-chan []deploylog.TriedLock {
	tried := make(chan []deploylog.TriedLock, 1)
	go func() { tried <- l.TryLocks(names...) }()
	return tried
}

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
			unlock := must.Get(other.Lock(t.Context(), name))(t)
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
