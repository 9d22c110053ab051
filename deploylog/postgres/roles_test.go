package postgres_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// granted is what docs/log.md says of the rights of roles.
func granted(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/log.md")
	require.NoError(t, err)
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
	hash, err := texts.Keep([]byte("a text"))
	require.NoError(t, err)
	require.NoError(t, said("postgres", "UPDATE objects SET stored = now() - interval '2 days'"))
	assert.NoError(t, errOf(texts.Keep([]byte("a text"))), "a text that is there")
	assert.NoError(t, errOf(texts.MakeSalt()))
	ref, err := documents.Put("a secret")
	require.NoError(t, err)
	verified(t, reader, 1)
	held, err := reader.Locked("stage")
	assert.True(t, held && err == nil, "%v, %v", held, err)
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
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.NewReplacer("postgres@", role+"@", "schema=", "search_path=").Replace(url))
	require.NoError(t, err)
	defer c.Close(context.Background())
	_, err = c.Exec(t.Context(), text, args...)
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
	t.Helper()
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
		ref, err := protected.Via(owner.Documents()).Put("a secret")
		require.NoError(t, err)
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

// Where everybody may take the turn to append, who is kept waiting is told by whom.
func TestWhoKeepsTheTurnToAppendIsNamed(t *testing.T) {
	t.Parallel()
	const schema = "kept"
	owner := open(t, server.URL(schema))
	sql(t, schema, `CREATE ROLE waiting LOGIN; CREATE ROLE "Keeping" LOGIN;
		GRANT USAGE ON SCHEMA kept TO waiting; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA kept TO waiting`)
	keeping, err := pgx.Connect(t.Context(), strings.NewReplacer("postgres@", "Keeping@", "schema=", "application_name=over%20there&search_path=").Replace(server.URL(schema)))
	require.NoError(t, err)
	defer keeping.Close(context.Background())
	presumes, looks := open(t, as("waiting", server.URL(schema))), open(t, as("waiting", server.URL(schema)))
	for _, l := range []*postgres.Log{presumes, looks} {
		l.SetTurnTime(4 * time.Second)
		l.SetPresumeTime(time.Hour)
	}
	appends(t, presumes, hosts("d", 2)...)
	does(t, keeping, "SELECT pg_advisory_lock($1)", owner.AppendKey())
	says := fmt.Sprintf(`the turn to append is kept by process %d of the server, of the user "Keeping" with application_name 'over there'`, keeping.PgConn().PID())
	var both sync.WaitGroup
	for _, l := range []*postgres.Log{presumes, looks} {
		both.Go(func() {
			err := errOf(l.Append(t.Context(), event("d", "kept waiting")))
			wantError(t, err, nil, says)
			assert.NotErrorIs(t, err, deploylog.ErrPoisoned)
		})
	}
	both.Wait()
	does(t, keeping, "SELECT pg_advisory_unlock_all()")
	appends(t, presumes, event("d", "after"))
}

// Who may not even look into a schema is told so, and not that there is no log.
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
