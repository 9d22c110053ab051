package artifacts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/internal/filelock"
)

// workspace is a directory of one process at one task: what is to come into the store is made
// there, and what is to go is moved there first. It is locked, so that others know whether
// somebody is still at it.
type workspace struct {
	dir  string
	lock *filelock.Lock
}

func (s *Store) newWorkspace() (*workspace, error) {
	if err := s.makeDirectories(); err != nil {
		return nil, err
	}
	s.orphans.Do(func() { _, _ = s.removeOrphans(false) })
	for {
		dir, err := os.MkdirTemp(s.temporary(), "")
		if err != nil {
			return nil, err
		}
		held, err := filelock.Try(dir, filelock.Exclusive)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if held != nil {
			return &workspace{dir, held}, nil
		}
		// Who removes orphans came between making and locking it.
	}
}

// tempFile is a file that is to come into the store, or goes: less to make and to remove than a
// workspace. It is locked as that is.
type tempFile struct {
	*os.File
	placed bool
}

func (s *Store) newFile() (*tempFile, error) {
	if err := s.makeDirectories(); err != nil {
		return nil, err
	}
	s.orphans.Do(func() { _, _ = s.removeOrphans(false) })
	for {
		f, err := os.CreateTemp(s.temporary(), "")
		if err != nil {
			return nil, err
		}
		mine, err := filelock.Hold(f)
		if err == nil && mine {
			return &tempFile{File: f}, nil
		}
		if err := errors.Join(err, (&tempFile{File: f}).discard()); err != nil {
			return nil, err
		}
		// Who removes orphans came between making and locking it.
	}
}

// place puts the file where it is to be.
func (f *tempFile) place(path string) error {
	err := os.Rename(f.Name(), path)
	f.placed = err == nil
	return err
}

// discard removes the file, unless it was placed.
func (f *tempFile) discard() (err error) {
	if !f.placed {
		err = gone(os.Remove(f.Name()))
	}
	return errors.Join(err, f.Close())
}

func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

// remove removes the workspace with all in it.
func (w *workspace) remove() error {
	defer w.lock.Release()
	return removeAll(w.dir)
}

// removeOrphans removes the workspaces of processes that have ended, and returns how many
// bytes they held.
func (s *Store) removeOrphans(dryRun bool) (freed int64, err error) {
	left, err := os.ReadDir(s.temporary())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, e := range left {
		dir := filepath.Join(s.temporary(), e.Name())
		held, err := filelock.Try(dir, filelock.Exclusive)
		if errors.Is(err, fs.ErrNotExist) || err == nil && held == nil {
			continue
		}
		if err != nil {
			return freed, err
		}
		freed += sizeOf(dir)
		if dryRun {
			held.Release()
			continue
		}
		if err := (&workspace{dir, held}).remove(); err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// removeAll removes a directory with all in it, also what nobody may write to.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory is to be searched by its owner
		}
		return nil // os.RemoveAll says what is wrong
	})
	return os.RemoveAll(dir)
}

// sizeOf adds up the files below a directory.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // what is gone, or cannot be seen, counts nothing
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// locked does something while nothing is removed from the store, or nobody else does anything
// to what it holds. It must be quick: others wait.
func (s *Store) locked(ctx context.Context, how filelock.Mode, do func() error) error {
	held, err := filelock.Acquire(ctx, filepath.Dir(s.blobs()), how) // the directory of the store may be a link
	if err != nil {
		return err
	}
	defer held.Release()
	return do()
}
