package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// A lock file of another user keeps nobody from pruning the rest.
func TestPrunedLocksBesideThoseOfOthers(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "log.db"))
	const most = 10
	for i := range most {
		unlock, err := l.TryLock(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
	entries, err := os.ReadDir(l.lockDir())
	if err != nil || len(entries) != most {
		t.Fatal(entries, err)
	}
	// Anybody may remove from the directory, and open all files but two.
	err = errors.Join(os.Chmod(l.lockDir(), 0o777), openUp(filepath.Dir(filepath.Dir(l.path))), openUp(filepath.Dir(l.path)))
	for i, e := range entries {
		mode := fs.FileMode(0o666)
		if i < 2 {
			mode = 0
		}
		err = errors.Join(err, os.Chmod(filepath.Join(l.lockDir(), e.Name()), mode))
	}
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		deploylog.Pruned
		error
	}
	done := make(chan result)
	go func() {
		// As in TestReadOnlyDirectory this thread is anybody.
		runtime.LockOSThread()
		if err := syscall.Setfsuid(65534); err != nil && os.Getuid() == 0 {
			done <- result{error: fs.ErrInvalid}
			return
		}
		p, err := l.PruneLocks(t.Context(), time.Time{}, false)
		done <- result{p, err}
	}()
	got := <-done
	if got.Count != most-2 || !errors.Is(got.error, fs.ErrPermission) || !strings.Contains(got.Error(), "2 could not be removed") {
		t.Errorf("it removed %d, %v", got.Count, got.error)
	}
}
