package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestReadOnlyDirectory opens a log as someone who may not write there.
func TestReadOnlyDirectory(t *testing.T) {
	path := written(t)
	dir := filepath.Dir(path)
	if err := errors.Join(os.Chmod(path, 0o444), os.Chmod(dir, 0o555), openUp(filepath.Dir(dir))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	failed := make(chan error)
	go func() {
		// Root may write everywhere; without its rights over files this
		// thread is anybody. It is not unlocked and so ends with the goroutine.
		runtime.LockOSThread()
		if err := syscall.Setfsuid(65534); err != nil && os.Getuid() == 0 {
			failed <- fs.ErrInvalid
			return
		}
		l, err := Open(t.Context(), path, Options{})
		if err == nil {
			err = l.Close()
		}
		failed <- err
	}()
	wantError(t, <-failed, nil, "make the file and its directory", dir)
}
