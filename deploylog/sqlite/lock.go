package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/turn"
)

// Lock implements deploylog.Log.
func (l *Log) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if strings.Contains(name, "/") { // that of one thing, whose callers say themselves that they wait
		return l.turns.Lock(ctx, name, l.TryLock, l.closed, errClosed)
	}
	if err := l.pauses.wait(ctx, l.closed); err != nil {
		return nil, err
	}
	began, said := time.Now(), time.Time{}
	unlock, err = l.turns.Lock(ctx, name, func(name string) (func(), error) {
		unlock, err := l.TryLock(name)
		if now := time.Now(); errors.Is(err, deploylog.ErrLocked) && now.Sub(began) >= turn.Silent && now.Sub(said) >= turn.Repeat {
			said = now
			held, _ := errors.AsType[*heldError](err)
			l.heldBy.Store(name, strings.TrimPrefix(held.by, ": "))
			l.logger.Warn("waiting for another process: "+err.Error(), "for", now.Sub(began).Truncate(time.Second).String())
		}
		return unlock, err
	}, l.closed, errClosed)
	by, held := l.heldBy.Load(name)
	if !said.IsZero() { // it is the one of its process that looked for it
		l.heldBy.Delete(name)
	}
	if err != nil && held {
		return nil, &deploylog.KeptError{By: fmt.Sprint(by), Lock: name, Err: err}
	}
	if err != nil {
		err = l.writer.kept.Explain(err)
		if kept, is := errors.AsType[*deploylog.KeptError](err); is { // the one that has the lock may wait for that
			kept.Lock, kept.Here = name, true
		}
		return nil, err
	}
	return l.pauses.hold(unlock), nil
}

// TryLock implements deploylog.Log. The error names the process that holds the
// lock.
func (l *Log) TryLock(name string) (unlock func(), err error) {
	if name == "" {
		return nil, errors.New("lock: the name must not be empty")
	}
	if l.copied != nil {
		return nil, fmt.Errorf("lock %q: %w", name, l.copied)
	}
	l.note()
	f, err := takeLock(l.lockDir(), name)
	if err == nil {
		err = l.holding.add(f, l.lockDir(), name)
	}
	var held *heldError
	switch {
	case errors.As(err, &held):
		return nil, fmt.Errorf("lock %q: %w", name, held)
	case err != nil:
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	l.holding.begun.Do(func() { go l.attend() })
	// Who holds it is news for people; the lock itself is the kernel's.
	if err := f.Truncate(0); err == nil {
		_, _ = f.Write(self(l.now()).record())
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			l.holding.remove(f)
			_ = f.Truncate(0)
			_ = flock(f, syscall.LOCK_UN) // closing alone would leave it to a child that is being started just now
			_ = f.Close()
		})
	}, nil
}

// takeLock opens the file of a lock and takes it. Where somebody holds it, it fails with
// a *heldError.
func takeLock(dir, name string) (*os.File, error) {
	for {
		f, err := openLock(dir, name)
		if err != nil {
			return nil, err
		}
		// Each opening of the file is its own holder, so two callers in one
		// process exclude each other as well.
		var by string
		if by, err = patiently(f, exclude); errors.Is(err, syscall.EWOULDBLOCK) {
			err = &heldError{by}
		}
		// Who prunes removes the file while it holds the lock, so a file that is not
		// there after the lock was taken never is again, and its lock excludes nobody.
		there := false
		if err == nil {
			there, err = isThere(f, dir, name)
		}
		if err == nil && there {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// patiently takes or asks for the lock of a file. Where it is held by somebody whose
// process the file does not name, that is one who is about to name it, who is letting go
// of it, or who prunes it: it is tried again, for longer than any of these takes.
// Otherwise it returns who holds it.
func patiently(f *os.File, try func(*os.File) error) (by string, err error) {
	const tries, pause = 10, 100 * time.Microsecond
	for n := 1; ; n++ {
		if err = try(f); !errors.Is(err, syscall.EWOULDBLOCK) {
			return "", err
		}
		if h, known := readRecord(f); known {
			by = ": " + h.String()
		}
		if by != "" || n == tries {
			return by, err
		}
		<-time.After(pause)
	}
}

// heldError is that somebody holds a lock.
type heldError struct{ by string }

func (e *heldError) Error() string        { return deploylog.ErrLocked.Error() + e.by }
func (e *heldError) Is(target error) bool { return target == deploylog.ErrLocked }

// isThere reports whether a file that was opened as that of a lock still is.
func isThere(f *os.File, dir, name string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(filepath.Join(dir, lockFile(name))) //nolint:gosec // no name leads out of dir
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, now), err
}

// Locked implements deploylog.Log. Whoever asks shares the lock for a moment: not
// beside its holder, but beside others who ask, and those who take it wait that out.
// A lock without a file is held by nobody, and asking makes none.
func (l *Log) Locked(name string) (bool, error) {
	f, err := os.OpenInRoot(l.lockDir(), lockFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for lock %q: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	_, err = patiently(f, func(f *os.File) error { return flock(f, syscall.LOCK_SH) })
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("ask for lock %q: %w", name, err)
	}
	// Closing alone would leave it to a child that is being started just now.
	if err := flock(f, syscall.LOCK_UN); err != nil {
		return false, fmt.Errorf("ask for lock %q: %w", name, err)
	}
	return false, nil
}

func (l *Log) lockDir() string { return l.path + ".locks" }

// exclude takes the lock of a file. That somebody only shares it, to ask for it, shows
// by its being shared with us: then it is tried again, for longer than asking takes
// unless who asks is stopped. It may then fail although nobody holds the lock, which
// those who try it again get over.
func exclude(f *os.File) error {
	const tries, pause = 100, 100 * time.Microsecond
	for n := 1; ; n++ {
		err := flock(f, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EWOULDBLOCK) || n == tries {
			return err
		}
		if err := flock(f, syscall.LOCK_SH); err != nil {
			return err
		}
		if err := flock(f, syscall.LOCK_UN); err != nil {
			return err
		}
		<-time.After(pause)
	}
}

// openLock opens the file of a lock, which no name can lead out of dir.
func openLock(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		//nolint:gosec // beside the log
		if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(lockFile(name), os.O_RDWR|os.O_CREATE, 0o600)
	return f, errors.Join(err, root.Close())
}

// flock does not wait.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// lockFile is the name's file: readable, unique, and valid on any file system.
func lockFile(name string) string {
	const limit = 160
	file := strings.ReplaceAll(url.QueryEscape(name), ".", "%2E")
	if len(file) > limit {
		sum := sha256.Sum256([]byte(name))
		file = file[:limit] + "~" + hex.EncodeToString(sum[:])
	}
	return file
}
