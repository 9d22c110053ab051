package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
)

// draftLife is how long a log of drafts is kept from its first event. Within that, what a command
// left on an engine that was killed still has an owner, so that the next one removes it.
const draftLife = 24 * time.Hour

// The names of what is kept of drafts, beside each other.
const (
	draftsName  = "drafts"       // directory of the log
	draftsLock  = "drafts.lock"  // shared by who drafts
	draftsOld   = ".drafts-old-" // begins what is being removed
	oldDraftsDB = "drafts.db"    // begins what earlier versions kept
)

// Drafting is a log of this machine for work that is only to find something out: containers
// have an owner by it. It is the log itself, unless that is a server's. Closed, one that is of
// use no more is removed.
func (a *App) Drafting(ctx context.Context, log deploylog.Log) (_ deploylog.Log, closed func() error, err error) {
	if a.Server() == "" {
		return log, func() error { return nil }, nil
	}
	dir := filepath.Join(a.Workspace, engine.StateDir)
	lock, err := shareDrafts(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("noting here what is checked before it is sent: %w", err)
	}
	own, err := sqlite.Open(ctx, filepath.Join(dir, draftsName, "log.db"), sqlite.Options{Logger: Logger(a.Err), Now: a.Now})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("noting here what is checked before it is sent: %w", err), lock.Close())
	}
	return own, func() error {
		first, err := firstOf(context.WithoutCancel(ctx), own)
		err = errors.Join(err, own.Close())
		if err == nil && !first.IsZero() && a.Now().Sub(first) > draftLife {
			if err := pruneDrafts(dir, lock); err != nil { // which the next command tries again
				Logger(a.Err).Warn("what was checked before it was sent is left here", "directory", filepath.Join(dir, draftsName), "error", err)
			}
		}
		return errors.Join(err, lock.Close())
	}, nil
}

// firstOf is when the first event of a log was; zero where there is none.
func firstOf(ctx context.Context, log deploylog.Log) (at time.Time, err error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Until: 1}) {
		if err != nil {
			return at, err
		}
		at = e.CreatedAt
	}
	return at, nil
}

// shareDrafts locks the drafts, as all do who use them.
func shareDrafts(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, draftsLock), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", lock.Name(), err), lock.Close())
	}
	return lock, nil
}

// pruneDrafts removes the log of drafts, unless somebody else uses it: then the last of them
// does. It is moved away as a whole first, so that whoever is killed here leaves none in parts.
func pruneDrafts(dir string, lock *os.File) error {
	err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	away, err := os.MkdirTemp(dir, draftsOld)
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, draftsName), filepath.Join(away, draftsName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, os.Remove(away))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), draftsOld) || strings.HasPrefix(e.Name(), oldDraftsDB) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
