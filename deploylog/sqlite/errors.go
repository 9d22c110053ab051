package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/deployster-go/deployster/deploylog"
)

// code is SQLite's primary result code within err, 0 where there is none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isDuplicate reports whether an insert met a row with the same key.
func isDuplicate(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == codes.SQLITE_CONSTRAINT_UNIQUE
}

// isRefusal reports whether a transaction could not begin for a reason that left
// the store as it was, so that trying again is safe.
func isRefusal(err error) bool {
	switch code(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		return true
	default:
		return false
	}
}

// explain says in the user's terms what an error about the log at path means
// and what to do. It is applied once, where the error leaves the package.
func explain(path string, err error) error {
	const (
		restore   = "%s: %w; nothing was changed: restore it from a backup; of a log that still opens, 'deployster log export' saves what can be read"
		forbidden = "%s: even reading a log writes beside it; make the file and its directory %s writable, or copy them to where they are: %w"
		foreign   = "%s: %w; nothing was changed: compare its head with one that was noted elsewhere (log verify --anchor HEAD), then restore it from a backup, or undo the change with sqlite3"
		found     = "%s: %w; no more events are written: restore it from a backup ('deployster log export' saves what can be read), and have 'deployster log verify' go over it, which ends the refusal when it finds no damage; what has the log open is to be started again then"
		busy      = "%s: another process has been writing for too long; try again once it is done: %w"
		lost      = "%s: %w; nothing was changed: put the newest files of the log that you have here (with -wal and -anchor), or, where it is meant to end like this, as a restored backup is, 'deployster log verify --accept-head' goes on from there"
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy):
		return fmt.Errorf(busy, path, err)
	case isLoss(err):
		return fmt.Errorf(lost, path, err)
	case isFoundDamage(err):
		return fmt.Errorf(found, path, err)
	case isForeign(err):
		return fmt.Errorf(foreign, path, err)
	case errors.Is(err, deploylog.ErrCorrupt):
		return fmt.Errorf(restore, path, err)
	case isForbidden(err):
		return fmt.Errorf(forbidden, path, filepath.Dir(path), err)
	}
	switch code(err) {
	case codes.SQLITE_NOTADB:
		return fmt.Errorf(restore, path, corrupt("this is not a deployment log: %w", err))
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf(restore, path, corrupt("the file is damaged: %w", err))
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return fmt.Errorf(busy, path, err)
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		return fmt.Errorf(forbidden, path, filepath.Dir(path), err)
	case codes.SQLITE_FULL:
		return fmt.Errorf("%s: no room for more events; free some space on its disk: %w", path, err)
	case codes.SQLITE_IOERR:
		return fmt.Errorf("%s: the disk failed; look into the system's log: %w", path, err)
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
}

// unwritten is a write that failed, which says its cause alone.
type unwritten struct{ error }

func (u unwritten) Unwrap() error        { return u.error }
func (u unwritten) Is(target error) bool { return target == deploylog.ErrUnwritten }

// isForbidden reports whether a file may not be opened or made as it was tried.
func isForbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// isLoss reports whether acknowledged events are not in the log.
func isLoss(err error) bool {
	_, ok := errors.AsType[*lossError](err)
	return ok
}

// isFoundDamage reports whether a check found damage before.
func isFoundDamage(err error) bool {
	_, ok := errors.AsType[*damageError](err)
	return ok
}

// isForeign reports whether a log's tables and triggers are not its own.
func isForeign(err error) bool {
	_, ok := errors.AsType[*foreignError](err)
	return ok
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", deploylog.ErrCorrupt, fmt.Errorf(format, args...))
}
