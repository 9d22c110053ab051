package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) {
	code, err := 1, error(nil)
	if server, err = pgtest.New(); err == nil {
		if err = server.Start(); err == nil {
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

var schemas atomic.Int64

// fresh is a store of its own.
func fresh(t testing.TB) logtest.Store {
	url := server.URL(fmt.Sprintf("test_%d", schemas.Add(1)))
	return func() deploylog.Log { return open(t, url) }
}

func open(t testing.TB, url string) *postgres.Log {
	t.Helper()
	l, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestPostgresPassesTheSuite(t *testing.T) { logtest.Run(t, fresh) }
