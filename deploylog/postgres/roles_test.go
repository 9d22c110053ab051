package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// granted is what docs/log.md says of the rights of roles.
func granted(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/log.md")
	if err != nil {
		t.Fatal(err)
	}
	var statements strings.Builder
	blocks := strings.Split(string(page), "```sql\n")[1:]
	for _, block := range blocks {
		said, _, _ := strings.Cut(block, "```")
		statements.WriteString(said)
	}
	if len(blocks) != 2 || strings.Contains(statements.String(), "UPDATE, DELETE ON deployster.events") {
		t.Fatalf("the page says nothing of rights, or too much: %s", statements.String())
	}
	return statements.String()
}

// withRoles is a log in a database of its own, with the rights that are documented.
func withRoles(t *testing.T) (url string) {
	t.Helper()
	sql(t, server, "public", "CREATE DATABASE roles")
	url = strings.Replace(server.URL("deployster"), "/postgres?", "/roles?", 1)
	open(t, url)
	if err := saidAs(t, url, "postgres", "CREATE ROLE writer LOGIN; CREATE ROLE reader LOGIN; "+granted(t)); err != nil {
		t.Fatal(err)
	}
	return url
}

// With the rights that are documented, who appends may insert, and change or remove no event; who
// reads may only read, and no secrets.
func TestRolesNeedFewRights(t *testing.T) {
	url := withRoles(t)
	said := func(role, text string) error { return saidAs(t, url, role, text) }
	as := func(role string) *postgres.Log {
		return open(t, strings.Replace(url, "postgres@", role+"@", 1))
	}
	writer, reader := as("writer"), as("reader")
	unlock, err := writer.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := writer.Append(t.Context(), event("d", "a")); err != nil {
		t.Error(err)
	}
	texts, documents := objects.Via(writer.Objects()), protected.Via(writer.Documents())
	hash, err := texts.Keep([]byte("a text"))
	if err != nil {
		t.Fatal(err)
	}
	if err := said("postgres", "UPDATE objects SET stored = now() - interval '2 days'"); err != nil {
		t.Fatal(err)
	}
	if _, err := texts.Keep([]byte("a text")); err != nil {
		t.Errorf("a text that is there: %v", err)
	}
	if _, err := texts.MakeSalt(); err != nil {
		t.Error(err)
	}
	ref, err := documents.Put("a secret")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := reader.Verify(t.Context()); err != nil || v.Events != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if held, err := reader.Locked("stage"); !held || err != nil {
		t.Errorf("%v, %v", held, err)
	}
	_, locking := reader.TryLock("other")
	_, appending := reader.Append(t.Context(), event("d", "b"))
	_, text := objects.Via(reader.Objects()).Load(hash)
	_, keeping := objects.Via(reader.Objects()).Keep([]byte("another"))
	var secret string
	for what, err := range map[string]error{
		"a lock": locking, "an append": appending, "a text": text, "keeping": keeping, "a secret": protected.Via(reader.Documents()).Get(ref, &secret),
	} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `the user "reader" lacks a right`) {
			t.Errorf("%s of who only reads: %v", what, err)
		} else if strings.Count(err.Error(), "schema=deployster") != 1 {
			t.Errorf("%s: where it is, is not said once: %v", what, err)
		}
	}
	if _, err := texts.Prune(t.Context(), time.Now(), func(string) bool { return false }, true); !errors.Is(err, objects.ErrOwner) {
		t.Errorf("a writer removes what is old: %v", err)
	}
	if err := documents.Remove(ref); err != nil {
		t.Errorf("a secret that is needed no more: %v", err)
	}
	for _, text := range []string{"UPDATE events SET revision = 'x'", "DELETE FROM events", "TRUNCATE events", "UPDATE objects SET content = 'x'", "DELETE FROM objects", "UPDATE protected SET content = 'x'", "DELETE FROM salt", "CREATE TABLE more (x int)"} {
		if err := said("writer", text); err == nil {
			t.Errorf("a writer may %s", text)
		}
	}
	testOnlyWritersTakeLocks(t, url, writer)
}

// saidAs has a role say something to the server, and returns why that is refused.
func saidAs(t *testing.T, url, role, text string, args ...any) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.NewReplacer("postgres@", role+"@", "schema=", "search_path=").Replace(url))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	_, err = c.Exec(t.Context(), text, args...)
	return err
}

// Who cannot leave the locks to writers, as the owner of a database cannot, hears so: PostgreSQL only warns.
func TestOnlyASuperuserLeavesLocksToWriters(t *testing.T) {
	statements := granted(t)
	sql(t, server, "public", "CREATE ROLE hosted LOGIN")
	sql(t, server, "public", "CREATE DATABASE owned OWNER hosted")
	url := strings.Replace(server.URL("public"), "/postgres?", "/owned?", 1)
	if err := saidAs(t, url, "hosted", statements[strings.Index(statements, "DO $$"):]); err == nil || !strings.Contains(err.Error(), "only a superuser can do that") {
		t.Error(err)
	}
}

// testOnlyWritersTakeLocks fails where a reader may take an advisory lock, of which turns to append and
// sessions consist, or a writer cannot take over what another had.
func testOnlyWritersTakeLocks(t *testing.T, url string, writer *postgres.Log) {
	t.Helper()
	for _, function := range []string{"pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared",
		"pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"} {
		if err := saidAs(t, url, "reader", "SELECT "+function+"($1)", writer.AppendKey()); err == nil || !strings.Contains(err.Error(), "permission denied for function") {
			t.Errorf("a reader may %s: %v", function, err)
		}
		if err := saidAs(t, url, "reader", "SELECT "+function+"(1, 2)"); err == nil {
			t.Errorf("a reader may %s of two numbers", function)
		}
	}
	again := open(t, strings.Replace(url, "postgres@", "writer@", 1))
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Append(t.Context(), event("d", "again")); err != nil {
		t.Error(err)
	}
	if _, err := again.TryLock("stage"); err != nil {
		t.Error(err)
	}
	if err := saidAs(t, url, "postgres", "GRANT CREATE ON DATABASE roles TO reader"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), strings.NewReplacer("postgres@", "reader@", "schema=deployster", "schema=own").Replace(url), postgres.Options{}); err == nil ||
		!strings.Contains(err.Error(), `a superuser gives: GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint), pg_advisory_xact_lock(bigint) TO "reader"`) {
		t.Errorf("who may make a schema, and take no locks: %v", err)
	}
}

// Default privileges give readers all tables that will be made. They give them no secrets, neither
// of a new log nor of one of the first version.
func TestDefaultPrivilegesGiveNoSecrets(t *testing.T) {
	sql(t, server, "public", `CREATE ROLE "All Readers" LOGIN; CREATE SCHEMA given; GRANT USAGE ON SCHEMA given TO PUBLIC;
		ALTER DEFAULT PRIVILEGES IN SCHEMA given GRANT ALL ON TABLES TO "All Readers" WITH GRANT OPTION; ALTER DEFAULT PRIVILEGES IN SCHEMA given GRANT SELECT ON TABLES TO PUBLIC`)
	for _, version := range []string{"a new log", "one of the first version"} {
		owner := open(t, server.URL("given"))
		ref, err := protected.Via(owner.Documents()).Put("a secret")
		if err != nil {
			t.Fatal(err)
		}
		reader := open(t, strings.Replace(server.URL("given"), "postgres@", "All%20Readers@", 1))
		if _, err := reader.Verify(t.Context()); err != nil {
			t.Errorf("%s: what they give: %v", version, err)
		}
		_, salt := reader.Objects().Salt()
		_, text := reader.Objects().Load(objects.Hash(nil))
		var secret string
		for what, err := range map[string]error{"a secret": protected.Via(reader.Documents()).Get(ref, &secret), "the key of hashes": salt, "a text": text} {
			if err == nil || !strings.Contains(err.Error(), "lacks a right") {
				t.Errorf("%s: %s is given: %v", version, what, err)
			}
		}
		sql(t, server, "given", "DROP TABLE objects, salt, protected; ALTER TABLE log DISABLE TRIGGER USER; UPDATE log SET version = 1; ALTER TABLE log ENABLE TRIGGER USER")
	}
}

// Where everybody may take the turn to append, who is kept waiting is told by whom.
func TestWhoKeepsTheTurnToAppendIsNamed(t *testing.T) {
	const schema = "kept"
	owner := open(t, server.URL(schema))
	sql(t, server, schema, `CREATE ROLE waiting LOGIN; CREATE ROLE "Keeping" LOGIN;
		GRANT USAGE ON SCHEMA kept TO waiting; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA kept TO waiting`)
	keeping, err := pgx.Connect(t.Context(), strings.NewReplacer("postgres@", "Keeping@", "schema=", "application_name=over%20there&search_path=").Replace(server.URL(schema)))
	if err != nil {
		t.Fatal(err)
	}
	defer keeping.Close(context.Background())
	l := open(t, strings.Replace(server.URL(schema), "postgres@", "waiting@", 1))
	l.SetTurnTime(4 * time.Second)
	l.SetPresumeTime(time.Hour)
	for i := range 3 {
		if i == 2 { // it presumes by now
			does(t, keeping, "SELECT pg_advisory_lock($1)", owner.AppendKey())
		}
		if _, err = l.Append(t.Context(), event("d", fmt.Sprint(i))); i < 2 && err != nil {
			t.Fatal(err)
		}
	}
	looking := open(t, strings.Replace(server.URL(schema), "postgres@", "waiting@", 1))
	looking.SetTurnTime(4 * time.Second)
	_, looked := looking.Append(t.Context(), event("d", "looked"))
	says := fmt.Sprintf(`the turn to append is kept by process %d of the server, of the user "Keeping" with application_name 'over there'`, keeping.PgConn().PID())
	for _, err := range []error{err, looked} {
		if err == nil || errors.Is(err, deploylog.ErrPoisoned) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
	does(t, keeping, "SELECT pg_advisory_unlock_all()")
	if _, err := l.Append(t.Context(), event("d", "after")); err != nil {
		t.Error(err)
	}
}

// Who may not even look into a schema is told so, and not that there is no log.
func TestWhoMayNotUseASchemaIsToldSo(t *testing.T) {
	open(t, server.URL("closed_schema"))
	sql(t, server, "closed_schema", "CREATE ROLE stranger LOGIN; CREATE SCHEMA made_for_others")
	for schema, says := range map[string]string{
		"closed_schema":   `the user may not use the schema; whoever owns that says: GRANT USAGE ON SCHEMA "closed_schema" TO "stranger"`,
		"made_for_others": "may not use the schema",
		"not_there":       `CREATE SCHEMA "not_there" AUTHORIZATION "stranger"`,
	} {
		url := strings.Replace(server.URL(schema), "postgres@", "stranger@", 1)
		if l, err := postgres.Open(t.Context(), url, postgres.Options{}); err == nil {
			_ = l.Close()
			t.Errorf("%s was opened", schema)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %s", schema, err, says)
		}
	}
	sql(t, server, "public", "GRANT USAGE ON SCHEMA made_for_others TO stranger")
	if _, err := postgres.Open(t.Context(), strings.Replace(server.URL("made_for_others"), "postgres@", "stranger@", 1), postgres.Options{}); err == nil || !strings.Contains(err.Error(), `GRANT CREATE ON SCHEMA "made_for_others" TO "stranger"`) {
		t.Errorf("a schema in which nothing may be made: %v", err)
	}
}
