package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
)

func event(deployment, host string) deploylog.Event {
	return deploylog.Event{Deployment: deployment, Target: deploylog.Target("host/" + host), Name: "host-started", Attempt: 1}
}

// connected is a connection of the administrator of a server.
func connected(t *testing.T, s *pgtest.Server, schema string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(s.URL(schema), "schema=", "search_path=", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// sql has the server do something, as its administrator.
func sql(t *testing.T, s *pgtest.Server, schema, text string, args ...any) {
	t.Helper()
	c := connected(t, s, schema)
	defer c.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if _, err := c.Exec(ctx, text, args...); err != nil {
		t.Fatal(err)
	}
}

// longest is how long something is waited for that comes at once on a machine with nothing else to do.
const longest = 2 * time.Minute

// soon is what comes.
func soon[T any](t *testing.T, from <-chan T) (it T) {
	t.Helper()
	select {
	case it = <-from:
	case <-time.After(longest):
		t.Fatalf("nothing came within %s", longest)
	}
	return it
}

// loseLocks has the server end the connections by which processes have locks, and none that appends.
func loseLocks(t *testing.T, schema string) {
	t.Helper()
	sql(t, server, schema, `DO $$ BEGIN
		IF 0 = (SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND granted AND state <> 'idle in transaction' AND pid <> pg_backend_pid())
		THEN RAISE 'nobody has locks'; END IF; END $$`)
}

// awaitWaiting waits until so many wait for advisory locks.
func awaitWaiting(t *testing.T, n int) {
	t.Helper()
	sql(t, server, "public", fmt.Sprintf(`DO $$ BEGIN WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) < %d LOOP PERFORM pg_sleep(0.01); END LOOP; END $$`, n))
}
