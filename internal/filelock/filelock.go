// Package filelock has processes take turns: whoever opens a file or directory can lock it, for the
// kernel releases what a process held when that ends, however it does.
//
// What is locked may be renamed or removed by then. A lock counts only of what is at its path still.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Mode is with whom a lock can be shared.
type Mode int

// A shared lock lets others have shared ones, an exclusive one lets nobody have any.
const (
	Shared    Mode = unix.LOCK_SH
	Exclusive Mode = unix.LOCK_EX
)

// longestPause is the longest time for which a lock that became free is not noticed.
const longestPause = 20 * time.Millisecond

// Lock is a lock of a file or directory. It ends with the process at the latest.
type Lock struct{ file *os.File }

// Release gives the lock up.
func (l *Lock) Release() { _ = l.file.Close() }

// Acquire waits for the lock of what is at a path.
func Acquire(ctx context.Context, path string, mode Mode) (*Lock, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, longestPause) {
		held, err := Try(path, mode)
		if err != nil || held != nil {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock of %s: %w", path, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// Try takes the lock of what is at a path, or returns nil where others hold it.
func Try(path string, mode Mode) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		err = flock(f, int(mode)|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, f.Close()
		}
		if err != nil {
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
		held := &Lock{f}
		mine, err := isAt(f, path)
		if err == nil && mine {
			return held, nil
		}
		held.Release() // it was removed or replaced before it was locked, and means nothing
		if err != nil {
			return nil, err
		}
	}
}

// Hold locks an open file, for as long as it is open, and reports whether it is this process that
// has it now, and it is at its path still.
func Hold(f *os.File) (bool, error) {
	err := flock(f, int(Exclusive)|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return isAt(f, f.Name())
}

// open opens what is to be locked, for writing where that is possible: over NFS nobody gets an exclusive
// lock of what is open for reading alone, and so none of a directory.
func open(path string) (*os.File, error) {
	const flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	return os.OpenFile(path, os.O_RDONLY|flags, 0)
}

// isAt reports whether an open file is what is at a path.
func isAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there), nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
