package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/internal/waittest"
)

// lines are what a log tells of itself.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all of them.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// granted is what docs/log.md says of the rights of roles.
func granted(t *testing.T) string {
	page := must.Get(os.ReadFile("../../docs/log.md"))(t)
	var statements strings.Builder
	blocks := strings.Split(string(page), "```sql\n")[1:]
	for _, block := range blocks {
		said, _, _ := strings.Cut(block, "```")
		statements.WriteString(said)
	}
	require.Len(t, blocks, 2)
	require.NotContains(t, statements.String(), "UPDATE, DELETE ON deployster.events", "the page says nothing of rights, or too much")
	return statements.String()
}

// withRoles is a log in a database of its own, with the rights that are documented.
func withRoles(t *testing.T) (url string) {
	t.Helper()
	sql(t, "public", "CREATE DATABASE roles")
	url = within("roles", server.URL("deployster"))
	open(t, url)
	require.NoError(t, saidAs(t, url, "postgres", "CREATE ROLE writer LOGIN; CREATE ROLE reader LOGIN; "+granted(t)))
	return url
}

// With the rights that are documented, who appends may insert, and change or remove no event; who
// reads may only read, and no secrets.
func TestRolesNeedFewRights(t *testing.T) {
	t.Parallel()
	url := withRoles(t)
	said := func(role, text string) error { return saidAs(t, url, role, text) }
	writer, reader := open(t, as("writer", url)), open(t, as("reader", url))
	require.NoError(t, errOf(writer.TryLock("stage")))
	appends(t, writer, event("d", "a"))
	texts, documents := objects.Via(writer.Objects()), protected.Via(writer.Documents())
	hash := must.Get(texts.Keep([]byte("a text")))(t)
	require.NoError(t, said("postgres", "UPDATE objects SET stored = now() - interval '2 days'"))
	assert.NoError(t, errOf(texts.Keep([]byte("a text"))), "a text that is there")
	assert.NoError(t, errOf(texts.MakeSalt()))
	ref := must.Get(documents.Put("a secret"))(t)
	verified(t, reader, 1)
	held := must.Get(reader.Locked("stage"))(t)
	assert.True(t, held, "%v", held)
	var secret string
	for what, err := range map[string]error{
		"a lock": errOf(reader.TryLock("other")), "an append": errOf(reader.Append(t.Context(), event("d", "b"))),
		"a text": errOf(objects.Via(reader.Objects()).Load(hash)), "keeping": errOf(objects.Via(reader.Objects()).Keep([]byte("another"))),
		"a secret": protected.Via(reader.Documents()).Get(ref, &secret),
	} {
		require.ErrorIs(t, err, fs.ErrPermission, what)
		assert.ErrorContains(t, err, `the user "reader" lacks a right`, what)
		assert.Equal(t, 1, strings.Count(err.Error(), "schema=deployster"), "%s: where it is, is not said once: %v", what, err)
	}
	assert.ErrorIs(t, errOf(texts.Prune(t.Context(), time.Now(), func(string) bool { return false }, true)), objects.ErrOwner, "a writer removes what is old")
	assert.NoError(t, documents.Remove(ref), "a secret that is needed no more")
	for _, text := range []string{"UPDATE events SET revision = 'x'", "DELETE FROM events", "TRUNCATE events",
		"UPDATE objects SET content = 'x'", "DELETE FROM objects", "UPDATE protected SET content = 'x'", "DELETE FROM salt", "CREATE TABLE more (x int)"} {
		assert.Error(t, said("writer", text), "a writer may %s", text)
	}
	testOnlyWritersTakeLocks(t, url, writer)
}

// saidAs has a role say something to the server, and returns why that is refused.
func saidAs(t *testing.T, url, role, text string, args ...any) error {
	c := must.Get(pgx.Connect(t.Context(), strings.NewReplacer("postgres@", role+"@", "schema=", "search_path=").Replace(url)))(t)
	defer c.Close(context.Background())
	_, err := c.Exec(t.Context(), text, args...)
	return err
}

// Who cannot leave the locks to writers, as the owner of a database cannot, hears so: PostgreSQL only warns.
func TestOnlyASuperuserLeavesLocksToWriters(t *testing.T) {
	t.Parallel()
	statements := granted(t)
	sql(t, "public", "CREATE ROLE hosted LOGIN")
	sql(t, "public", "CREATE DATABASE owned OWNER hosted")
	url := within("owned", server.URL("public"))
	assert.ErrorContains(t, saidAs(t, url, "hosted", statements[strings.Index(statements, "DO $$"):]), "only a superuser can do that")
}

// testOnlyWritersTakeLocks fails where a reader may take an advisory lock, of which turns to append and
// sessions consist, or a writer cannot take over what another had.
func testOnlyWritersTakeLocks(t *testing.T, url string, writer *postgres.Log) {
	for _, function := range []string{"pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared",
		"pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"} {
		assert.ErrorContains(t, saidAs(t, url, "reader", "SELECT "+function+"($1)", writer.AppendKey()), "permission denied for function", "a reader may %s", function)
		assert.Error(t, saidAs(t, url, "reader", "SELECT "+function+"(1, 2)"), "a reader may %s of two numbers", function)
	}
	again := open(t, as("writer", url))
	require.NoError(t, writer.Close())
	assert.NoError(t, errOf(again.Append(t.Context(), event("d", "again"))))
	assert.NoError(t, errOf(again.TryLock("stage")))
	require.NoError(t, saidAs(t, url, "postgres", "GRANT CREATE ON DATABASE roles TO reader"))
	wantError(t, notOpened(t, as("reader", strings.Replace(url, "schema=deployster", "schema=own", 1)), postgres.Options{}), nil,
		`a superuser gives: GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint), pg_advisory_xact_lock(bigint) TO "reader"`)
}

// Default privileges give readers all tables that will be made. They give them no secrets, neither
// of a new log nor of one of the first version.
func TestDefaultPrivilegesGiveNoSecrets(t *testing.T) {
	t.Parallel()
	sql(t, "public", `CREATE ROLE "All Readers" LOGIN; CREATE SCHEMA given; GRANT USAGE ON SCHEMA given TO PUBLIC;
		ALTER DEFAULT PRIVILEGES IN SCHEMA given GRANT ALL ON TABLES TO "All Readers" WITH GRANT OPTION; ALTER DEFAULT PRIVILEGES IN SCHEMA given GRANT SELECT ON TABLES TO PUBLIC`)
	for _, version := range []string{"a new log", "one of the first version"} {
		owner := open(t, server.URL("given"))
		ref := must.Get(protected.Via(owner.Documents()).Put("a secret"))(t)
		reader := open(t, as("All%20Readers", server.URL("given")))
		assert.NoError(t, errOf(reader.Verify(t.Context())), "%s: what they give", version)
		var secret string
		for what, err := range map[string]error{
			"a secret": protected.Via(reader.Documents()).Get(ref, &secret), "the key of hashes": errOf(reader.Objects().Salt()),
			"a text": errOf(reader.Objects().Load(objects.Hash(nil))),
		} {
			assert.ErrorContains(t, err, "lacks a right", "%s: %s is given", version, what)
		}
		sql(t, "given", firstVersion)
	}
}

// Where everybody may take the turn to append, who is kept waiting is told by whom, within two seconds, and waits
// for as long as they want, however often the server ends the wait.
func TestWhoKeepsTheTurnToAppendIsNamed(t *testing.T) {
	t.Parallel()
	const schema = "kept"
	owner := open(t, server.URL(schema))
	sql(t, schema, `CREATE ROLE waiting LOGIN; CREATE ROLE "Keeping" LOGIN;
		GRANT USAGE ON SCHEMA kept TO waiting; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA kept TO waiting`)
	keeping, err := pgx.Connect(t.Context(), strings.NewReplacer("postgres@", "Keeping@", "schema=", "application_name=over%20there&search_path=").Replace(server.URL(schema)))
	require.NoError(t, err)
	defer keeping.Close(context.Background())
	told := &lines{}
	open := func(t *testing.T, url string) *postgres.Log {
		return must.Get(postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.NewTextHandler(told, nil))}))(t)
	}
	presumes, looks := open(t, as("waiting", server.URL(schema))), open(t, as("waiting", server.URL(schema)))
	defer presumes.Close()
	defer looks.Close()
	for _, l := range []*postgres.Log{presumes, looks} {
		l.SetTurnTime(time.Second)
		l.SetPresumeTime(time.Hour)
	}
	appends(t, presumes, hosts("d", 2)...)
	does(t, keeping, "SELECT pg_advisory_lock($1)", owner.AppendKey())
	says := fmt.Sprintf(`process %d of the server, of the user "Keeping" with application_name 'over there'`, keeping.PgConn().PID())
	began := time.Now()
	var patient sync.WaitGroup
	for i, l := range []*postgres.Log{presumes, looks} {
		patient.Go(func() { assert.NoError(t, errOf(l.Append(context.Background(), event("patient", fmt.Sprint(i))))) })
	}
	waittest.Until(t, func() bool {
		return strings.Count(told.String(), "the turn to write is kept by "+strings.ReplaceAll(says, `"`, `\"`)) == 2
	}, "both say who has the turn")
	t.Logf("both said so after %s", time.Since(began))
	var both sync.WaitGroup
	for _, l := range []*postgres.Log{presumes, looks} {
		both.Go(func() {
			within, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := errOf(l.Append(within, event("d", "kept waiting")))
			wantError(t, err, context.DeadlineExceeded, says)
			kept, _ := errors.AsType[*deploylog.KeptError](err)
			require.NotNil(t, kept, "%v", err)
			assert.Contains(t, kept.By, says)
		})
	}
	both.Wait()
	does(t, keeping, "SELECT pg_advisory_unlock_all()")
	patient.Wait()
	appends(t, presumes, event("d", "after"))
}

// A table that others have locked is no turn that another process has: the wait for it ends.
func TestALockedTableEndsTheWait(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("locked_table"))
	l.SetTurnTime(time.Second)
	for name, mode := range map[string]string{"for all": "ACCESS EXCLUSIVE", "for writers": "SHARE"} {
		appends(t, l, event("d", name))
		locking := must.Get(pgx.Connect(t.Context(), strings.Replace(server.URL("locked_table"), "schema=", "search_path=", 1)))(t)
		does(t, locking, "BEGIN")
		does(t, locking, "LOCK TABLE events IN "+mode+" MODE")
		err := errOf(l.Append(t.Context(), event("d", name+", locked")))
		wantError(t, err, nil, "lock timeout")
		kept, _ := errors.AsType[*deploylog.KeptError](err)
		assert.Nil(t, kept, "%v", err)
		does(t, locking, "ROLLBACK") // the lock is free then, which it need not be after Close
		require.NoError(t, locking.Close(t.Context()))
		appends(t, l, event("d", name+", free"))
	}
}

func TestWhoMayNotUseASchemaIsToldSo(t *testing.T) {
	t.Parallel()
	open(t, server.URL("closed_schema"))
	sql(t, "closed_schema", "CREATE ROLE stranger LOGIN; CREATE SCHEMA made_for_others")
	for schema, says := range map[string]string{
		"closed_schema":   `the user may not use the schema; whoever owns that says: GRANT USAGE ON SCHEMA "closed_schema" TO "stranger"`,
		"made_for_others": "may not use the schema",
		"not_there":       `CREATE SCHEMA "not_there" AUTHORIZATION "stranger"`,
	} {
		wantError(t, notOpened(t, as("stranger", server.URL(schema)), postgres.Options{}), nil, says)
	}
	sql(t, "public", "GRANT USAGE ON SCHEMA made_for_others TO stranger")
	wantError(t, notOpened(t, as("stranger", server.URL("made_for_others")), postgres.Options{}), nil, `GRANT CREATE ON SCHEMA "made_for_others" TO "stranger"`)
}

// What the server does not store is not acknowledged.
func TestATriggerThatDropsEventsIsNoticed(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("dropping"))
	sql(t, "dropping", `CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.target = 'host/b' THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER dropping BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION drop_it()`)
	wantError(t, errOf(l.Append(t.Context(), event("d", "a"), event("d", "b"))), deploylog.ErrUnwritten, "did not store all events")
	verified(t, open(t, server.URL("dropping")), 0)
}

func TestWhoLosesItsLocksMeanwhileAppendsNothing(t *testing.T) {
	l, other := open(t, server.URL("meanwhile")), open(t, server.URL("meanwhile"))
	require.NoError(t, errOf(l.TryLock("stage")))
	assert.ErrorIs(t, errOf(l.AppendThen(t.Context(), []deploylog.Event{event("d", "a")}, func(unread []deploylog.Event) []deploylog.Event {
		if len(unread) > 1 {
			return nil
		}
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

func TestNothingIsChanged(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("unchanged"))
	appends(t, l, event("d", "a"))
	c := connected(t, server, "unchanged")
	for _, text := range []string{"UPDATE events SET revision = 'x'", "DELETE FROM events", "TRUNCATE events", "UPDATE log SET id = 'x'", "DELETE FROM log"} {
		assert.ErrorContains(t, errOf(c.Exec(t.Context(), text)), "append-only", text)
	}
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("changed"))
	for _, e := range hosts("d", 3) {
		e.Data = []byte(`{"a":1}`)
		appends(t, l, e)
	}
	v := must.Get(l.Verify(t.Context()))(t)
	c := connected(t, server, "changed")
	does(t, c, "CREATE TABLE saved AS SELECT * FROM events; SET session_replication_role = replica")
	for _, change := range []string{
		"UPDATE events SET revision = 'forged' WHERE seq = 2",
		`UPDATE events SET data = '{"a":2}' WHERE seq = 2`,
		"DELETE FROM events WHERE seq = 2",
		"DELETE FROM events WHERE seq = 3",
		"UPDATE events e SET id = (SELECT id FROM events o WHERE o.seq = 3 - e.seq) WHERE seq < 3",
		"UPDATE events SET registered = 2 WHERE seq = 2",
	} {
		does(t, c, change)
		assert.ErrorIs(t, errOf(l.Verify(t.Context(), v.Anchor())), deploylog.ErrCorrupt, change)
		does(t, c, "DELETE FROM events; INSERT INTO events SELECT * FROM saved")
		verified(t, l, 3)
	}
}

func TestAHeadIsThatOfTheSameEventsInAFile(t *testing.T) {
	t.Parallel()
	here := open(t, server.URL("same"))
	there := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	defer there.Close()
	for _, e := range hosts("d", 2) {
		written := must.Get(here.Append(t.Context(), e))(t)
		appends(t, there, written...)
	}
	a, failed := here.Verify(t.Context())
	b, err := there.Verify(t.Context())
	require.NoError(t, errors.Join(err, failed))
	assert.Equal(t, a, b)
	assert.EqualValues(t, 2, a.Events)
}

func TestWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	sql(t, "public", "CREATE SCHEMA foreign_log; CREATE TABLE foreign_log.log (line text); CREATE SCHEMA newer; CREATE ROLE nobody LOGIN")
	require.NoError(t, open(t, server.URL("newer")).Close())
	sql(t, "newer", "SET session_replication_role = replica; UPDATE newer.log SET version = 99")
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"no URL":             {"postgres://%zz", []string{"the URL of the database cannot be read", "postgres://USER@HOST"}},
		"another URL":        {"mysql://a", []string{`not one of "mysql"`}},
		"a bad port":         {"postgres://u:geheim@host:port/db", []string{"URL of the database"}},
		"a bad parameter":    {"postgres://u:geheim@host/db?sslmode=perhaps", []string{"URL of the database"}},
		"an empty schema":    {"postgres://host/db?schema=", []string{"the name of a schema"}},
		"a schema with a ,":  {"postgres://host/db?schema=a,b", []string{"the name of a schema"}},
		"a special schema":   {"postgres://host/db?schema=$user", []string{"the name of a schema"}},
		"a broken parameter": {"postgres://u:geheim@host/db?sslmode=verify-full;x", []string{"the parameters of the URL"}},
		"another's table":    {server.URL("foreign_log"), []string{"none of a deployment log", "schema=NAME"}},
		"a newer version":    {server.URL("newer"), []string{"version 99", "use the newer one"}},
		"no database":        {within("missing", server.URL("x")), []string{"createdb missing"}},
		"a role without any": {as("nobody", server.URL("x")), []string{"the user may not make a schema", `CREATE SCHEMA "x" AUTHORIZATION "nobody"`}},
	} {
		t.Run(name, func(t *testing.T) {
			err := notOpened(t, c.url, postgres.Options{})
			require.Error(t, err)
			wantError(t, err, nil, c.says...)
			assert.NotContains(t, err.Error(), "geheim", "the error shows the password")
		})
	}
	wantError(t, notOpened(t, server.URL("nothing"), postgres.Options{ReadOnly: true}), nil, "there is no deployment log")
}

func TestTheNameOfALogHasNoPassword(t *testing.T) {
	t.Setenv("PGPASSWORD", "geheim")
	for url, want := range map[string]string{
		"postgres://u:geheim@db.example.com/log":                            "postgres://db.example.com:5432/log?schema=deployster",
		"postgresql://u:geheim@db:6000/log?schema=prod&sslmode=verify-full": "postgres://db:6000/log?schema=prod",
		"postgres://u:geheim@[::1]:6000/log":                                "postgres://[::1]:6000/log?schema=deployster",
		"postgres://a:1,b:2/log?user=u&password=geheim&sslmode=prefer":      "postgres://a:1,b:2/log?schema=deployster",
		"postgres://u@/log?host=/run/postgresql":                            "postgres:///log?host=/run/postgresql&schema=deployster",
	} {
		assert.Equal(t, want, must.Get(postgres.Name(url))(t), "%s, want %s", strings.ReplaceAll(url, "geheim", "…"), want)
	}
	_, err := postgres.Name("postgres://u:geheim@h:port/db")
	assert.True(t, err != nil && !strings.Contains(err.Error(), "geheim"), "%v", err)
}

func TestWhatWasMeantForADatabaseIsNoFile(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"deployments.db": true, "/srv/postgres/log.db": true, "postgres.db": true, "a b=c": true,
		"postgres:/u:geheim@h/db": false, "PostgreSQL:u:geheim@h/db": false, "POSTGRES://u:geheim@h/db": false, "postgres//u:geheim@h/db": false,
		"host=x password=geheim dbname=y": false, "host=x PASSWORD = 'geheim'": false, "dbname=y": false,
	} {
		err := postgres.IsFile(name)
		if (err == nil) != is || err != nil && (strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "postgres://USER@HOST")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
