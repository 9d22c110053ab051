package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
)

// What the server does not store is not acknowledged.
func TestATriggerThatDropsEventsIsNoticed(t *testing.T) {
	l := open(t, server.URL("dropping"))
	sql(t, server, "dropping", `CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.target = 'host/b' THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER dropping BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION drop_it()`)
	_, err := l.Append(t.Context(), event("d", "a"), event("d", "b"))
	if !errors.Is(err, deploylog.ErrUnwritten) || !strings.Contains(err.Error(), "did not store all events") {
		t.Errorf("%v", err)
	}
	if v, err := open(t, server.URL("dropping")).Verify(t.Context()); err != nil || v.Events != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Who loses its locks while it decides what follows from events appends neither.
func TestWhoLosesItsLocksMeanwhileAppendsNothing(t *testing.T) {
	l, other := open(t, server.URL("meanwhile")), open(t, server.URL("meanwhile"))
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	_, err = l.AppendThen(t.Context(), []deploylog.Event{event("d", "a")}, func([]deploylog.Event) []deploylog.Event {
		loseLocks(t, "meanwhile")
		return []deploylog.Event{event("d", "b")}
	})
	if !errors.Is(err, deploylog.ErrUnwritten) {
		t.Errorf("%v", err)
	}
	if v, err := other.Verify(t.Context()); err != nil || v.Events != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A standby that takes over may lack the newest events: what is remembered of them is forgotten.
func TestNothingIsRememberedOfAnotherServer(t *testing.T) {
	l := open(t, server.URL("standby"))
	for i, deployment := range []string{"d1", "d2", "d2", "d3"} {
		if _, err := l.Append(t.Context(), event(deployment, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	sql(t, server, "standby", "SET session_replication_role = replica; DELETE FROM events WHERE seq > 1; SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ILIKE '%commit%'")
	for _, deployment := range []string{"d3", "d2"} {
		if _, err := l.Append(t.Context(), event(deployment, "again")); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

// What a role or a database has as its default is not what a log relies on.
func TestSettingsOfRolesAndDatabases(t *testing.T) {
	for _, text := range []string{
		"CREATE DATABASE odd", "ALTER DATABASE odd SET default_transaction_isolation = 'repeatable read'", "ALTER DATABASE odd SET client_encoding = 'latin1'", "ALTER DATABASE odd SET synchronous_commit = off",
	} {
		sql(t, server, "public", text)
	}
	url := strings.Replace(server.URL("log"), "/postgres?", "/odd?", 1)
	one, two := open(t, url), open(t, url+"&target_session_attrs=read-write")
	var all sync.WaitGroup
	for n, l := range []*postgres.Log{one, two} {
		all.Go(func() {
			for i := range 30 {
				e := event(fmt.Sprint(n), fmt.Sprint(i))
				e.Data = []byte(`"ü 🚀"`)
				if _, err := l.Append(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if v, err := two.Verify(t.Context()); err != nil || v.Events != 60 {
		t.Errorf("%+v, %v", v, err)
	}
	sql(t, server, "public", "CREATE DATABASE latin ENCODING latin1 TEMPLATE template0")
	if _, err := postgres.Open(t.Context(), strings.Replace(server.URL("log"), "/postgres?", "/latin?", 1), postgres.Options{}); err == nil || !strings.Contains(err.Error(), "the encoding of the database is LATIN1") {
		t.Errorf("%v", err)
	}
}

// What is acknowledged is on the disk of the server, and of a standby that it waits for, whatever a
// database or a role has as its default. What waits for more than that still does.
func TestWhatIsAcknowledgedIsOnTheDisksThatTheServerWaitsFor(t *testing.T) {
	const schema = "durable"
	open(t, server.URL(schema))
	sql(t, server, schema, `CREATE TABLE seen (what text, level text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER INSERT ON events EXECUTE FUNCTION see(); CREATE TRIGGER see AFTER INSERT ON objects EXECUTE FUNCTION see()`)
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		sql(t, server, schema, "DELETE FROM seen")
		l := open(t, server.URL(schema)+"&synchronous_commit="+set)
		for i := range 3 { // looked for first, and presumed
			if _, err := l.Append(t.Context(), event(set, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := objects.Via(l.Objects()).Keep([]byte(set)); err != nil {
			t.Fatal(err)
		}
		var seen []string
		if err := connected(t, server, schema).QueryRow(t.Context(), "SELECT array_agg(DISTINCT what || ' ' || level ORDER BY what || ' ' || level) FROM seen").Scan(&seen); err != nil {
			t.Fatal(err)
		}
		if wanted := []string{"events " + want, "objects " + want}; !slices.Equal(seen, wanted) {
			t.Errorf("where the default is %s there is %q, want %q", set, seen, wanted)
		}
	}
}

func TestAWatchOfAClosedLogListensToNothing(t *testing.T) {
	l := open(t, server.URL("closed"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range l.Watch(t.Context(), deploylog.Filter{}) {
		if err == nil {
			t.Error("an event of a closed log")
		}
	}
}
