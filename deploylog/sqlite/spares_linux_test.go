package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The files of locks that are over become those of others, and none is left in the end.
func TestFilesOfLocksAreUsedAgain(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	files := func(pattern string) int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(l.lockDir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for i := range 10 {
		name := fmt.Sprint("run/", i)
		unlock, err := l.TryLock(name)
		if err != nil {
			t.Fatal(err)
		}
		if held, err := l.Locked(name); err != nil || !held || files("*") != 1 {
			t.Errorf("%s: held is %t (%v), and there are %d files", name, held, err, files("*"))
		}
		if _, err := l.TryLock(name); !errors.Is(err, deploylog.ErrLocked) {
			t.Errorf("%s is held twice (%v)", name, err)
		}
		unlock()
		if err := l.PruneLock(name); err != nil || files("run*") != 0 {
			t.Errorf("%s has a file when it is over (%v)", name, err)
		}
		if held, err := l.Locked(name); err != nil || held {
			t.Errorf("%s is held when it is over (%v)", name, err)
		}
	}
	if err := l.Close(); err != nil || files("*") != 0 {
		t.Errorf("after the log was closed there are %d files (%v)", files("*"), err)
	}
}

// A file that was pruned meanwhile is not needed.
func TestASpareFileOfALockMayBePruned(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	for _, name := range []string{"run/a", "run/b"} {
		unlock, err := l.TryLock(name)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if err := l.PruneLock(name); err != nil {
			t.Error(err)
		}
		if p, err := l.PruneLocks(t.Context(), time.Time{}, false); err != nil || p.Count != 1 {
			t.Errorf("%d files were pruned (%v)", p.Count, err)
		}
	}
}

// Who opened the file of a lock that was another's by the time it is locked does not
// take one for the other.
func TestAFileThatIsOfAnotherLockTellsNothingOfThis(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	old, err := l.openLock(l.lockDir(), "run/old")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if err := l.PruneLock("run/old"); err != nil {
		t.Fatal(err)
	}
	unlock, err := l.TryLock("run/new")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if there, err := isThere(old, l.lockDir(), "run/new"); err != nil || !there {
		t.Fatalf("the file was not used again (%v)", err)
	}
	if there, err := isThere(old, l.lockDir(), "run/old"); err != nil || there {
		t.Errorf("the file is taken for that of the old lock (%v)", err)
	}
	again, err := l.TryLock("run/old")
	if err != nil {
		t.Fatal("the old lock is held with the new one: ", err)
	}
	again()
}
