package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
)

// What the server does not store is not acknowledged.
func TestATriggerThatDropsEventsIsNoticed(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("dropping"))
	sql(t, "dropping", `CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.target = 'host/b' THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER dropping BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION drop_it()`)
	wantError(t, errOf(l.Append(t.Context(), event("d", "a"), event("d", "b"))), deploylog.ErrUnwritten, "did not store all events")
	verified(t, open(t, server.URL("dropping")), 0)
}

// Who loses its locks while it decides what follows from events appends neither.
func TestWhoLosesItsLocksMeanwhileAppendsNothing(t *testing.T) {
	l, other := open(t, server.URL("meanwhile")), open(t, server.URL("meanwhile"))
	require.NoError(t, errOf(l.TryLock("stage")))
	assert.ErrorIs(t, errOf(l.AppendThen(t.Context(), []deploylog.Event{event("d", "a")}, func([]deploylog.Event) []deploylog.Event {
		loseLocks(t)
		return []deploylog.Event{event("d", "b")}
	})), deploylog.ErrUnwritten)
	verified(t, other, 0)
}

// A standby that takes over may lack the newest events: what is remembered of them is forgotten.
func TestNothingIsRememberedOfAnotherServer(t *testing.T) {
	l := open(t, server.URL("standby"))
	appends(t, l, event("d1", "0"), event("d2", "1"), event("d2", "2"), event("d3", "3"))
	sql(t, "standby", "SET session_replication_role = replica; DELETE FROM events WHERE seq > 1; SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ILIKE '%commit%'")
	appends(t, l, event("d3", "again"), event("d2", "again"))
	verified(t, l, 3)
}

// What a role or a database has as its default is not what a log relies on.
func TestSettingsOfRolesAndDatabases(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"CREATE DATABASE odd", "ALTER DATABASE odd SET default_transaction_isolation = 'repeatable read'",
		"ALTER DATABASE odd SET client_encoding = 'latin1'", "ALTER DATABASE odd SET synchronous_commit = off",
	} {
		sql(t, "public", text)
	}
	url := within("odd", server.URL("log"))
	one, two := open(t, url), open(t, url+"&target_session_attrs=read-write")
	var all sync.WaitGroup
	for n, l := range []*postgres.Log{one, two} {
		all.Go(func() {
			for _, e := range hosts(fmt.Sprint(n), 30) {
				e.Data = []byte(`"ü 🚀"`)
				assert.NoError(t, errOf(l.Append(t.Context(), e)))
			}
		})
	}
	all.Wait()
	verified(t, two, 60)
	sql(t, "public", "CREATE DATABASE latin ENCODING latin1 TEMPLATE template0")
	assert.ErrorContains(t, notOpened(t, within("latin", server.URL("log")), postgres.Options{}), "the encoding of the database is LATIN1")
}

// What is acknowledged is on the disk of the server, and of a standby that it waits for, whatever a
// database or a role has as its default. What waits for more than that still does.
func TestWhatIsAcknowledgedIsOnTheDisksThatTheServerWaitsFor(t *testing.T) {
	t.Parallel()
	const schema = "durable"
	open(t, server.URL(schema))
	sql(t, schema, `CREATE TABLE seen (what text, level text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER INSERT ON events EXECUTE FUNCTION see(); CREATE TRIGGER see AFTER INSERT ON objects EXECUTE FUNCTION see()`)
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		sql(t, schema, "DELETE FROM seen")
		l := open(t, server.URL(schema)+"&synchronous_commit="+set)
		appends(t, l, hosts(set, 3)...) // looked for first, and presumed
		require.NoError(t, errOf(objects.Via(l.Objects()).Keep([]byte(set))))
		var seen []string
		require.NoError(t, connected(t, server, schema).QueryRow(t.Context(),
			"SELECT array_agg(DISTINCT what || ' ' || level ORDER BY what || ' ' || level) FROM seen").Scan(&seen))
		assert.Equal(t, []string{"events " + want, "objects " + want}, seen, "where the default is %s", set)
	}
}
