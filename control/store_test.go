package control_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

// inMemory is a log for whoever lets hours pass: nothing has to look at a file
// twenty times a second, and nothing is synced. Both stores pass package logtest.
func inMemory(t testing.TB) logtest.Store {
	store := logtest.NewMemory()
	return func() deploylog.Log {
		log := store.Open()
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
}

// inFile is a log as people have it.
func inFile(t testing.TB) logtest.Store {
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
