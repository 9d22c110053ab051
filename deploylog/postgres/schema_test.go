package postgres_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

func TestNothingIsChanged(t *testing.T) {
	l := open(t, server.URL("unchanged"))
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), strings.Replace(server.URL("unchanged"), "schema=", "search_path=", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, text := range []string{"UPDATE events SET revision = 'x'", "DELETE FROM events", "TRUNCATE events", "UPDATE log SET id = 'x'", "DELETE FROM log"} {
		if _, err := c.Exec(t.Context(), text); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	for name, change := range map[string]string{
		"an event":     "UPDATE events SET revision = 'forged' WHERE seq = 2",
		"its data":     `UPDATE events SET data = '{"a":2}' WHERE seq = 2`,
		"removed":      "DELETE FROM events WHERE seq = 2",
		"the end":      "DELETE FROM events WHERE seq = 3",
		"exchanged":    "UPDATE events e SET id = (SELECT id FROM events o WHERE o.seq = 3 - e.seq) WHERE seq < 3",
		"registration": "UPDATE events SET registered = 2 WHERE seq = 2",
	} {
		t.Run(name, func(t *testing.T) {
			schema := "changed_" + strings.ReplaceAll(name, " ", "_")
			l := open(t, server.URL(schema))
			for _, host := range []string{"a", "b", "c"} {
				e := event("d", host)
				e.Data = []byte(`{"a":1}`)
				if _, err := l.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			v, err := l.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sql(t, server, schema, "SET session_replication_role = replica; "+change)
			if _, err := l.Verify(t.Context(), v.Anchor()); !errors.Is(err, deploylog.ErrCorrupt) {
				t.Errorf("%s: %v", change, err)
			}
		})
	}
}

// The same events have the same head, whichever store keeps them.
func TestAHeadIsThatOfTheSameEventsInAFile(t *testing.T) {
	here := open(t, server.URL("same"))
	there, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	for _, host := range []string{"a", "b"} {
		written, err := here.Append(t.Context(), event("d", host))
		if err == nil {
			_, err = there.Append(t.Context(), written...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, failed := here.Verify(t.Context())
	b, err := there.Verify(t.Context())
	if a != b || a.Events != 2 || err != nil || failed != nil {
		t.Errorf("%+v, %v; in a file %+v, %v", a, failed, b, err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	sql(t, server, "public", "CREATE SCHEMA foreign_log; CREATE TABLE foreign_log.log (line text); CREATE SCHEMA newer")
	sql(t, server, "public", "CREATE ROLE nobody LOGIN")
	newer := open(t, server.URL("newer"))
	_ = newer.Close()
	sql(t, server, "newer", "SET session_replication_role = replica; UPDATE newer.log SET version = 99")
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
		"no database":        {strings.Replace(server.URL("x"), "/postgres?", "/missing?", 1), []string{"createdb missing"}},
		"a role without any": {strings.Replace(server.URL("x"), "postgres@", "nobody@", 1), []string{"the user may not make a schema", `CREATE SCHEMA "x" AUTHORIZATION "nobody"`}},
	} {
		l, err := postgres.Open(t.Context(), c.url, postgres.Options{})
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: it was opened", name)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", name, err, part)
			}
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	if _, err := postgres.Open(t.Context(), server.URL("nothing"), postgres.Options{ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "there is no deployment log") {
		t.Errorf("a log to be read that is not there: %v", err)
	}
}
