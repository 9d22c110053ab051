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
	prune := func(before time.Time, dryRun bool, wantCount int, wantLeft, of string) {
		t.Helper()
		pruned, left, err := locked.PruneModules(t.Context(), m.cache, before, dryRun)
		if err != nil || pruned.Count != wantCount || !strings.Contains(left, wantLeft) || wantLeft == "" && left != "" {
			t.Errorf("of what %s, it removed %d, %q, %v", of, pruned.Count, left, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour) // until when nothing was used
	must(m.place(t.Context()))
	must(m.lock.Write(m.workspace))
	prune(later, false, 0, "", "the lock of a workspace names")
	broken := filepath.Join(t.TempDir(), "w")
	must(os.Mkdir(broken, 0o700))
	must(m.cache.Remember(broken))
	must(os.WriteFile(filepath.Join(broken, lockfile.Name), []byte("version: 99"), 0o600))
	must(os.Remove(filepath.Join(m.workspace, lockfile.Name)))
	prune(later, false, 0, broken, "a lock may name that cannot be read")
	must(os.RemoveAll(broken))
	prune(time.Now().Add(-time.Hour), false, 0, "", "was used")
	prune(later, true, 1, "", "nothing names, in a dry run")
	prune(later, false, 1, "", "nothing names")
	if all, err := m.cache.Workspaces(); err != nil || len(all) != 0 {
		t.Errorf("there are workspaces %q, %v", all, err)
	}
	if err := m.place(t.Context()); err != nil {
		t.Errorf("it is not fetched again: %v", err)
	}
}
