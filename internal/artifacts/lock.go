package artifacts

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

const (
	shared    = unix.LOCK_SH
	exclusive = unix.LOCK_EX
)

// longestPause is the longest time for which a lock that became free is not noticed.
const longestPause = 20 * time.Millisecond

// lock is a lock of a file or directory. It ends with the process at the latest.
type lock struct{ file *os.File }

func (l *lock) release() { _ = l.file.Close() }

// acquire waits for the lock of what is at a path.
func acquire(ctx context.Context, path string, how int) (*lock, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, longestPause) {
		held, err := try(path, how)
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

// try takes the lock of what is at a path, or returns nil where others hold it.
func try(path string, how int) (*lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		err = flock(f, how|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, f.Close()
		}
		if err != nil {
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
		held := &lock{f}
		mine, err := isAt(f, path)
		if err == nil && mine {
			return held, nil
		}
		held.release() // it was removed or replaced before it was locked, and means nothing
		if err != nil {
			return nil, err
		}
	}
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
