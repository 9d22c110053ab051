package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// PruneLock implements deploylog.LockPruner.
func (l *Log) PruneLock(name string) error {
	if _, err := pruneLock(filepath.Join(l.lockDir(), lockFile(name)), time.Time{}, false); err != nil {
		return fmt.Errorf("prune lock %q: %w", name, err)
	}
	return nil
}

// PruneLocks implements deploylog.LockPruner.
func (l *Log) PruneLocks(ctx context.Context, before time.Time, dryRun bool) (deploylog.Pruned, error) {
	var all deploylog.Pruned
	var denied deniedLocks
	dir, err := os.Open(l.lockDir()) //nolint:gosec // beside the log, wherever its user wants that
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("prune locks: %w", err)
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	for {
		names, end := dir.Readdirnames(1000)
		for _, name := range names {
			if ctx.Err() != nil {
				return all, fmt.Errorf("prune locks: %w", ctx.Err())
			}
			info, err := pruneLock(filepath.Join(dir.Name(), name), before, dryRun)
			if denied.add(err) {
				continue
			}
			if err != nil {
				return all, fmt.Errorf("prune locks: %w", err)
			}
			if info != nil {
				all.Add(info)
			}
		}
		if errors.Is(end, io.EOF) {
			return all, denied.err()
		}
		if end != nil {
			return all, fmt.Errorf("prune locks: %w", end)
		}
	}
}

// deniedLocks are the files of locks that belong to other users, which keep nobody from
// pruning the rest. The first of them is told.
type deniedLocks struct {
	first error
	count int
}

// add reports whether an error is that of such a file.
func (d *deniedLocks) add(err error) bool {
	if !errors.Is(err, fs.ErrPermission) {
		return false
	}
	if d.count++; d.first == nil {
		d.first = err
	}
	return true
}

func (d *deniedLocks) err() error {
	if d.count == 0 {
		return nil
	}
	return fmt.Errorf("prune locks: %d could not be removed (%w): they belong to other users, so prune them as these, or as root", d.count, d.first)
}

// pruneLock removes the file of a lock that nobody holds and that was not taken since a
// time, unless that is zero. It returns what it removed, or would remove, which is nil
// where the file stays.
//
// It holds the lock while it removes the file. Whoever waits for the lock of that file
// finds after taking it that the file is gone, and begins anew with one that is there.
func pruneLock(path string, before time.Time, dryRun bool) (fs.FileInfo, error) {
	seen, err := os.Lstat(path) //nolint:gosec // beside the log, wherever its user wants that
	if err != nil {
		return nil, ignoreMissing(err)
	}
	// Nothing but a lock is a plain file here; a pipe would be waited for.
	old := func(info fs.FileInfo) bool { return before.IsZero() || info.ModTime().Before(before) }
	if !seen.Mode().IsRegular() || !old(seen) {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) //nolint:gosec // as above
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	how := syscall.LOCK_EX
	if dryRun {
		how = syscall.LOCK_SH // as who only asks, which keeps nobody from it
	}
	if err := flock(f, how); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	now, err := os.Lstat(path) //nolint:gosec // as above
	if err != nil {
		return nil, ignoreMissing(err)
	}
	if !os.SameFile(opened, now) || !old(opened) {
		return nil, nil
	}
	if !dryRun {
		if err := os.Remove(path); err != nil { //nolint:gosec // as above
			return nil, ignoreMissing(err)
		}
	}
	return opened, nil
}

// ignoreMissing is the error of what may have been removed by others.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
