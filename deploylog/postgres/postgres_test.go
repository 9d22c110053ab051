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

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

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

// as returns the URL by which a role opens a log, and of one in a database.
func as(role, url string) string { return strings.Replace(url, "postgres@", role+"@", 1) }
func within(database, url string) string {
	return strings.Replace(url, "/postgres?", "/"+database+"?", 1)
}

// openWith opens a log until the end of the test.
func openWith(t testing.TB, url string, o postgres.Options) *postgres.Log {
	t.Helper()
	l, err := postgres.Open(context.Background(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// notOpened returns why a log is not opened.
func notOpened(t *testing.T, url string, o postgres.Options) error {
	t.Helper()
	l, err := postgres.Open(t.Context(), url, o)
	if err == nil {
		_ = l.Close()
	}
	return err
}

func event(deployment, host string) deploylog.Event {
	return deploylog.Event{Deployment: deployment, Target: deploylog.Target("host/" + host), Name: "host-started", Attempt: 1}
}

// hosts are n events of a deployment.
func hosts(deployment string, n int) []deploylog.Event {
	events := make([]deploylog.Event, n)
	for i := range events {
		events[i] = event(deployment, fmt.Sprint(i))
	}
	return events
}

// appends appends each event by itself.
func appends(t testing.TB, l deploylog.Log, events ...deploylog.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, errOf(l.Append(t.Context(), e)))
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// wantError fails unless an error is of a kind, if one is named, and says something.
func wantError(t *testing.T, err, kind error, says ...string) {
	t.Helper()
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

// verified fails unless a log is sound and has so many events.
func verified(t testing.TB, l deploylog.Log, events int) {
	t.Helper()
	v, err := l.Verify(t.Context())
	assert.NoError(t, err)
	assert.EqualValues(t, events, v.Events)
}

// read returns the events that a filter selects.
func read(t testing.TB, l deploylog.Log, f deploylog.Filter) (all []deploylog.Event) {
	t.Helper()
	for e, err := range l.Read(t.Context(), f) {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// connected is a connection of the administrator of a server.
func connected(t testing.TB, s *pgtest.Server, schema string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(s.URL(schema), "schema=", "search_path=", 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// administrator is a connection to server that all tests share.
var administrator struct {
	sync.Mutex
	*pgx.Conn
}

// sql has the server of all tests do something, as its administrator.
func sql(t *testing.T, schema, text string, args ...any) {
	t.Helper()
	a, ctx := &administrator, waittest.Context(t)
	a.Lock()
	defer a.Unlock()
	if a.Conn == nil {
		c, err := pgx.Connect(context.Background(), strings.Replace(server.URL(""), "schema=", "default_query_exec_mode=simple_protocol", 1))
		require.NoError(t, err)
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

// soon is what comes.
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
