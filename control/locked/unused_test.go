package locked_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/internal/lockfile"
)

func TestModulesThatNoLockNamesAreRemoved(t *testing.T) {
	m := newModules(t)
	prune := func(before time.Time, dryRun bool) (count int, left string) {
		t.Helper()
		pruned, left, err := locked.PruneModules(t.Context(), m.cache, before, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		return pruned.Count, left
	}
	later := time.Now().Add(time.Hour) // until when nothing was used
	if err := m.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.lock.Write(m.workspace); err != nil {
		t.Fatal(err)
	}
	if n, left := prune(later, false); n != 0 || left != "" {
		t.Errorf("of what the lock of a workspace names, it removed %d, %q", n, left)
	}
	broken := filepath.Join(t.TempDir(), "w")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.cache.Remember(broken); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, lockfile.Name), []byte("version: 99"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.workspace, lockfile.Name)); err != nil {
		t.Fatal(err)
	}
	if n, left := prune(later, false); n != 0 || !strings.Contains(left, broken) {
		t.Errorf("beside a lock that cannot be read, it removed %d, %q", n, left)
	}
	if err := os.RemoveAll(broken); err != nil {
		t.Fatal(err)
	}
	if n, left := prune(time.Now().Add(-time.Hour), false); n != 0 || left != "" {
		t.Errorf("of what was used, it removed %d, %q", n, left)
	}
	for _, dryRun := range []bool{true, false} {
		if n, left := prune(later, dryRun); n != 1 || left != "" {
			t.Errorf("dry run %v: of what nothing names, it removed %d, %q", dryRun, n, left)
		}
	}
	if all, err := m.cache.Workspaces(); err != nil || len(all) != 0 {
		t.Errorf("there are workspaces %q, %v", all, err)
	}
	if err := m.place(t.Context()); err != nil {
		t.Errorf("it is not fetched again: %v", err)
	}
}
