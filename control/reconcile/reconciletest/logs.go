// Package reconciletest has the logs that the controllers are tested on.
package reconciletest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

// InMemory is a log for whoever lets hours pass: nothing has to look at a file
// twenty times a second, and nothing is synced. Both stores pass package logtest.
func InMemory(t testing.TB) logtest.Store {
	store := logtest.NewMemory()
	return func() deploylog.Log {
		log := store.Open()
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
}

// InFile is a log as people have it.
func InFile(t testing.TB) logtest.Store {
	path := filepath.Join(t.TempDir(), "log.db")
	return func() deploylog.Log {
		log, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
}
