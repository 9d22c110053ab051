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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// asSomebody does something in a thread without root's rights over files, which is not unlocked and so
// ends with its goroutine.
func asSomebody(t *testing.T, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := syscall.Setfsuid(65534); err != nil && os.Getuid() == 0 {
			done <- fs.ErrInvalid
			return
		}
		done <- do()
	}()
	return <-done
}

// TestReadOnlyDirectory opens a log as someone who may not write there.
func TestReadOnlyDirectory(t *testing.T) {
	path := written(t)
	dir := filepath.Dir(path)
	require.NoError(t, errors.Join(os.Chmod(path, 0o444), os.Chmod(dir, 0o555), openUp(filepath.Dir(dir))))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	wantError(t, asSomebody(t, func() error {
		l, err := Open(t.Context(), path, Options{})
		if err == nil {
			err = l.Close()
		}
		return err
	}), nil, "make the file and its directory", dir)
}

// A lock file of another user keeps nobody from pruning the rest.
func TestPrunedLocksBesideThoseOfOthers(t *testing.T) {
	l := newLog(t)
	const most = 10
	for i := range most {
		unlock := must.Get(l.TryLock(fmt.Sprint(i)))(t)
		unlock()
	}
	entries, err := os.ReadDir(l.lockDir())
	require.True(t, err == nil && len(entries) == most, "%v %v", entries, err)
	// Anybody may remove from the directory, and open all files but two.
	err = errors.Join(os.Chmod(l.lockDir(), 0o777), openUp(filepath.Dir(filepath.Dir(l.path))), openUp(filepath.Dir(l.path)))
	for i, e := range entries {
		mode := fs.FileMode(0o666)
		if i < 2 {
			mode = 0
		}
		err = errors.Join(err, os.Chmod(filepath.Join(l.lockDir(), e.Name()), mode))
	}
	require.NoError(t, err)
	var got deploylog.Pruned
	err = asSomebody(t, func() (err error) { got, err = l.PruneLocks(t.Context(), time.Time{}, false); return err })
	assert.True(t, got.Count == most-2 && errors.Is(err, fs.ErrPermission) &&
		strings.Contains(err.Error(), "2 could not be removed"), "it removed %d, %v", got.Count, err)
}
