package postgres_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog/postgres"
)

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
	if _, err := postgres.Name("postgres://u:geheim@h:port/db"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("%v", err)
	}
}

// What was meant for a database is no file, and is not shown.
func TestWhatWasMeantForADatabaseIsNoFile(t *testing.T) {
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
