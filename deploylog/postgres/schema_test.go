package postgres_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

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
	v, err := l.Verify(t.Context())
	require.NoError(t, err)
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

// The same events have the same head, whichever store keeps them.
func TestAHeadIsThatOfTheSameEventsInAFile(t *testing.T) {
	t.Parallel()
	here := open(t, server.URL("same"))
	there, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	require.NoError(t, err)
	defer there.Close()
	for _, e := range hosts("d", 2) {
		written, err := here.Append(t.Context(), e)
		require.NoError(t, err)
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

// What people are shown says where the log is, and no password.
func TestTheNameOfALogHasNoPassword(t *testing.T) {
	t.Setenv("PGPASSWORD", "geheim")
	for url, want := range map[string]string{
		"postgres://u:geheim@db.example.com/log":                            "postgres://db.example.com:5432/log?schema=deployster",
		"postgresql://u:geheim@db:6000/log?schema=prod&sslmode=verify-full": "postgres://db:6000/log?schema=prod",
		"postgres://u:geheim@[::1]:6000/log":                                "postgres://[::1]:6000/log?schema=deployster",
		"postgres://a:1,b:2/log?user=u&password=geheim&sslmode=prefer":      "postgres://a:1,b:2/log?schema=deployster",
		"postgres://u@/log?host=/run/postgresql":                            "postgres:///log?host=/run/postgresql&schema=deployster",
	} {
		if got, err := postgres.Name(url); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", strings.ReplaceAll(url, "geheim", "…"), got, err, want)
		}
	}
	_, err := postgres.Name("postgres://u:geheim@h:port/db")
	assert.True(t, err != nil && !strings.Contains(err.Error(), "geheim"), "%v", err)
}

// What was meant for a database is no file, and is not shown.
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
