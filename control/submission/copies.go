package submission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// copies begins the names of the directories that files are copied to, in the directory of what
// Deployster keeps.
const copies = "sources-"

// settled is how old the directory of a killed process is at least: a new one is locked a moment
// after it is made.
const settled = time.Minute

// MakeCopies makes a directory for copies of files, locked until remove removes it, and removes
// those of processes that were killed.
func MakeCopies(state string, now time.Time) (dir string, remove func() error, err error) {
	left, _ := filepath.Glob(filepath.Join(state, copies+"*"))
	for _, dir := range left {
		removeOrphan(dir, now)
	}
	dir, err = os.MkdirTemp(state, copies)
	if err != nil {
		return "", nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
}

// removeOrphan removes a directory of a process that was killed. What cannot be removed is left
// to the next one.
func removeOrphan(dir string, now time.Time) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < settled {
		return
	}
	if lock, err := lockDir(dir); err == nil {
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

// lockDir locks a directory, which nobody else may have locked, until it is closed.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}
