package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// A process that appends in a row presumes that it is alone. Whatever proves that wrong, the log
// is as it would be if it had looked.
func TestWhatIsPresumedWronglyIsLookedFor(t *testing.T) {
	t.Parallel()
	const schema = "presumed"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
	l.SetPresumeTime(time.Hour)
	appended := func(l deploylog.Log, deployment, host string) error {
		return errOf(l.Append(t.Context(), event(deployment, host)))
	}
	n := 0
	presuming := func() { // leaves it with all reason to presume
		for range 3 {
			n++
			require.NoError(t, appended(l, "own", fmt.Sprint("before", n)))
		}
	}
	for _, c := range []struct {
		name string
		do   func() error // what happens meanwhile
		then func() error
		want error
	}{
		{name: "somebody else has appended", do: func() error { return appended(other, "theirs", "a") }, then: func() error { return appended(l, "own", "a") }},
		{name: "somebody else has begun the deployment", do: func() error { return appended(other, "both", "a") }, then: func() error { return appended(l, "both", "b") }},
		{name: "the event is there", do: func() error { return nil }, then: func() error { return appended(l, "own", "before1") }, want: deploylog.ErrDuplicate},
		{name: "somebody else has appended the event", do: func() error { return appended(other, "same", "a") }, then: func() error { return appended(l, "same", "a") }, want: deploylog.ErrDuplicate},
		{name: "an event comes twice", do: func() error { return nil }, then: func() error {
			return errOf(l.Append(t.Context(), event("twice", "a"), event("twice", "a")))
		}, want: deploylog.ErrDuplicate},
		{name: "a deployment goes on that this process knows nothing of", do: func() error { return appended(other, "older", "a") }, then: func() error {
			presuming()
			return appended(l, "older", "b")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			presuming()
			require.NoError(t, c.do())
			assert.ErrorIs(t, c.then(), c.want)
			presuming()
			assert.NoError(t, errOf(other.Verify(t.Context())))
		})
	}
	registered, found := map[string]int64{}, map[string]int64{}
	for _, e := range read(t, other, deploylog.Filter{}) {
		if registered[e.Deployment] == 0 {
			registered[e.Deployment] = e.Seq
		}
	}
	rows := must.Get(connected(t, server, schema).Query(t.Context(), "SELECT DISTINCT deployment, registered FROM events"))(t)
	var deployment string
	var first int64
	must.Get(pgx.ForEachRow(rows, []any{&deployment, &first}, func() error {
		assert.Zero(t, found[deployment], "%s has begun twice", deployment)
		found[deployment] = first
		return nil
	}))(t)
	assert.Equal(t, registered, found)
}

func TestWhoAppendsInARowWaitsForOneAnswer(t *testing.T) {
	t.Parallel()
	const many, enough = 200, 1 << 20
	c, url := newCable(t, "in_a_row")
	l := open(t, url)
	l.SetPresumeTime(time.Hour)
	for i := range many {
		require.NoError(t, errOf(l.Append(t.Context(), event(fmt.Sprint(i/2), fmt.Sprint(i)))))
		if i == 0 {
			c.parts.Store(enough)
		}
	}
	assert.LessOrEqual(t, enough-c.parts.Load(), int64(many+10), "messages of %d appends", many-1)
}

// whileWaiting has a log append under a lock, in a row, and once more while somebody else has the turn to
// append, until the returned function ends that.
func whileWaiting(t *testing.T, l *postgres.Log, schema string, late deploylog.Event) (appended <-chan error, goOn func()) {
	t.Helper()
	l.SetPresumeTime(time.Hour)
	appends(t, l, hosts("own", 3)...)
	turn := must.Get(connected(t, server, schema).Begin(t.Context()))(t)
	must.Get(turn.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", l.AppendKey()))(t)
	done := make(chan error, 1)
	go func() { done <- errOf(l.Append(context.Background(), late)) }()
	awaitWaiting(t, 1)
	return done, func() { assert.NoError(t, turn.Rollback(t.Context())) }
}

func lacksLate(t *testing.T, l *postgres.Log) {
	assert.Empty(t, read(t, l, deploylog.Filter{Deployment: "late"}), "what was refused is in the log")
}

func TestWhoGivesUpALostLockAppendsNothing(t *testing.T) {
	for there, late := range map[bool]deploylog.Event{false: event("late", "a"), true: event("own", "0")} {
		t.Run(fmt.Sprintf("the event is there: %v", there), func(t *testing.T) {
			schema := fmt.Sprintf("given_up_%v", there)
			l := open(t, server.URL(schema))
			l.SetTurnTime(waittest.Limit)
			l.SetAttendPause(10 * time.Millisecond)
			unlock := must.Get(l.TryLock("stage"))(t)
			appended, goOn := whileWaiting(t, l, schema, late)
			ended := endOfWatch(t, l)
			loseLocks(t)
			require.Error(t, soon(t, ended), "the watch goes on")
			unlock()
			goOn()
			assert.True(t, refused(soon(t, appended)), "without the lock")
			lacksLate(t, open(t, server.URL(schema)))
		})
	}
}

// A server still has what a lost connection has sent. Who is told that it was not written gives a
// lock up, and who takes that sees all that will ever come of it; the other locks are kept.
func TestWhatALostConnectionHasSentDoesNotComeLater(t *testing.T) {
	const schema = "sent"
	c, url := newCable(t, schema)
	l, other := open(t, url), open(t, server.URL(schema))
	l.SetTurnTime(waittest.Limit)
	appends(t, l, event("own", "first"))
	c.mu.Lock()
	appending := c.all[len(c.all)-2]
	c.mu.Unlock()
	unlock := must.Get(l.TryLock("stage"))(t)
	require.NoError(t, errOf(l.TryLock("other")))
	appended, goOn := whileWaiting(t, l, schema, event("late", "a"))
	require.NoError(t, appending.Close())
	assert.True(t, refused(soon(t, appended)), "without a connection")
	unlock()
	assert.NoError(t, errOf(other.TryLock("stage")))
	assert.ErrorIs(t, errOf(other.TryLock("other")), deploylog.ErrLocked, "a lock that was not given up")
	goOn()
	assert.NoError(t, errOf(other.Append(t.Context(), event("own", "after"))))
	lacksLate(t, other)
}

// server is the one of all tests that need no other. Each test has a schema of its own.
var server *pgtest.Server

func TestMain(m *testing.M) {
	code, err := 1, error(nil)
	flag.Parse()
	settings := pgtest.Cheap()
	if flag.Lookup("test.bench").Value.String() != "" {
		settings = nil
	}
	if server, err = pgtest.New(); err == nil {
		if err = server.Start(settings...); err == nil {
			code = m.Run()
		}
		err = errors.Join(err, server.Remove())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestPostgresPassesTheSuite(t *testing.T) {
	t.Parallel()
	var schemas atomic.Int64
	logtest.Run(t, func(t testing.TB) logtest.Store {
		url := server.URL(fmt.Sprintf("test_%d", schemas.Add(1)))
		return func() deploylog.Log { return open(t, url) }
	})
}

func open(t testing.TB, url string) *postgres.Log { return openWith(t, url, postgres.Options{}) }

// firstVersion makes a log one of the first version.
const firstVersion = `DROP TABLE objects, salt, protected; ALTER TABLE log DISABLE TRIGGER USER;
	UPDATE log SET version = 1; ALTER TABLE log ENABLE TRIGGER USER`

func as(role, url string) string { return strings.Replace(url, "postgres@", role+"@", 1) }
func within(database, url string) string {
	return strings.Replace(url, "/postgres?", "/"+database+"?", 1)
}

func openWith(t testing.TB, url string, o postgres.Options) *postgres.Log {
	l := must.Get(postgres.Open(context.Background(), url, o))(t)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

func notOpened(t *testing.T, url string, o postgres.Options) error {
	l, err := postgres.Open(t.Context(), url, o)
	if err == nil {
		_ = l.Close()
	}
	return err
}

func event(deployment, host string) deploylog.Event {
	return deploylog.Event{Deployment: deployment, Target: deploylog.Target("host/" + host), Name: "host-started", Attempt: 1}
}

func hosts(deployment string, n int) []deploylog.Event {
	events := make([]deploylog.Event, n)
	for i := range events {
		events[i] = event(deployment, fmt.Sprint(i))
	}
	return events
}

func appends(t testing.TB, l deploylog.Log, events ...deploylog.Event) {
	for _, e := range events {
		require.NoError(t, errOf(l.Append(t.Context(), e)))
	}
}

func errOf[T any](_ T, err error) error { return err }

func wantError(t *testing.T, err, kind error, says ...string) {
	if kind != nil {
		assert.ErrorIs(t, err, kind)
	}
	for _, text := range says {
		assert.ErrorContains(t, err, text)
	}
}

// refused reports whether an append failed since it, or what came before it, was not to be written.
func refused(err error) bool {
	return errors.Is(err, deploylog.ErrUnwritten) || errors.Is(err, deploylog.ErrPoisoned)
}

func verified(t testing.TB, l deploylog.Log, events int) {
	v, err := l.Verify(t.Context())
	assert.NoError(t, err)
	assert.EqualValues(t, events, v.Events)
}

func read(t testing.TB, l deploylog.Log, f deploylog.Filter) (all []deploylog.Event) {
	for e, err := range l.Read(t.Context(), f) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

func connected(t testing.TB, s *pgtest.Server, schema string) *pgx.Conn {
	c := must.Get(pgx.Connect(t.Context(), strings.Replace(s.URL(schema), "schema=", "search_path=", 1)))(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// administrator is a connection to server that all tests share.
var administrator struct {
	sync.Mutex
	*pgx.Conn
}

func sql(t *testing.T, schema, text string, args ...any) {
	t.Helper()
	a, ctx := &administrator, waittest.Context(t)
	a.Lock()
	defer a.Unlock()
	if a.Conn == nil {
		c := must.Get(pgx.Connect(context.Background(), strings.Replace(server.URL(""), "schema=", "default_query_exec_mode=simple_protocol", 1)))(t)
		a.Conn = c
	}
	defer does(t, a.Conn, "DISCARD ALL")
	require.NoError(t, errOf(a.Exec(ctx, "SELECT set_config('search_path', quote_ident($1), false)", schema)))
	require.NoError(t, errOf(a.Exec(ctx, text, args...)))
}

// does has a connection do something.
func does(t *testing.T, c *pgx.Conn, text string, args ...any) {
	t.Helper()
	require.NoError(t, errOf(c.Exec(waittest.Context(t), text, args...)), text)
}

func soon[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return waittest.Receive(t, from, "what was begun")
}

// loseLocks has the server end the connections by which processes have locks, and none that appends.
// No other test may use the server meanwhile.
func loseLocks(t *testing.T) {
	t.Helper()
	sql(t, "public", `DO $$ BEGIN
		IF 0 = (SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND granted AND state <> 'idle in transaction' AND pid <> pg_backend_pid())
		THEN RAISE 'nobody has locks'; END IF; END $$`)
}

// awaitWaiting waits until so many wait for advisory locks. No other test may use the server meanwhile.
func awaitWaiting(t *testing.T, n int) {
	t.Helper()
	sql(t, "public", fmt.Sprintf(`DO $$ BEGIN WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) < %d
		LOOP PERFORM pg_sleep(0.01); END LOOP; END $$`, n))
}
