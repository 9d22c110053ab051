//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	shared    = unix.LOCK_SH
	exclusive = unix.LOCK_EX
)

// longestPause is the longest time for which a lock that became free is not noticed.
const longestPause = 25 * time.Millisecond

// lock is a lock on a file or directory, held until released or until the
// process ends: the file is closed on exec, so no child keeps it.
type lock struct{ file *os.File }

func (l *lock) release() { _ = l.file.Close() }

// acquire waits for the lock of a file, which is made when missing.
func acquire(ctx context.Context, path string, how int) (*lock, error) {
	return retry(ctx, path, func() (*lock, error) { return try(path, how) })
}

// retry repeats attempt until there is a lock or an error.
func retry(ctx context.Context, path string, attempt func() (*lock, error)) (*lock, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, longestPause) {
		held, err := attempt()
		if err != nil || held != nil {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// try takes the lock of a file, or returns nil if it is held by others.
func try(path string, how int) (*lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		held, err := lockOpen(file, how)
		if err != nil || held == nil {
			return nil, err
		}
		if held.isAt(path) {
			return held, nil
		}
		held.release() // it was removed before it was locked, and means nothing
	}
}

// lockOpen locks an open file; it closes it, and returns nil, if others hold
// the lock.
func lockOpen(file *os.File, how int) (*lock, error) {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return &lock{file: file}, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, file.Close()
		default:
			_ = file.Close()
			return nil, &fs.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
	}
}

// isAt reports whether the locked file is still the one at path.
func (l *lock) isAt(path string) bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(locked, there)
}
