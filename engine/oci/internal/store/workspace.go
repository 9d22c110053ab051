//go:build linux

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// workspace is a temporary directory of the store. It is locked, so that a
// removeOrphans knows whether a process works in it.
type workspace struct {
	dir  string
	lock *lock
}

func (s *Store) newWorkspace() (*workspace, error) {
	for {
		dir, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "")
		if err != nil {
			return nil, err
		}
		held, err := tryDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if held != nil {
			return &workspace{dir: dir, lock: held}, nil
		}
		// removeOrphans came between making and locking it.
	}
}

// tryDir locks a directory that stays where it is, or returns nil.
func tryDir(dir string) (*lock, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	held, err := lockOpen(file, exclusive)
	if err != nil || held == nil {
		return nil, err
	}
	if !held.isAt(dir) {
		held.release()
		return nil, nil
	}
	return held, nil
}

func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

// remove removes the workspace with all in it.
func (w *workspace) remove() error {
	defer w.lock.release()
	return os.RemoveAll(w.dir)
}

// removeOrphans removes the workspaces of processes that have ended, and returns how
// many bytes they held.
func (s *Store) removeOrphans() (int64, error) {
	tmp := filepath.Join(s.dir, "tmp")
	left, err := os.ReadDir(tmp)
	if err != nil {
		return 0, err
	}
	var freed int64
	for _, each := range left {
		dir := filepath.Join(tmp, each.Name())
		held, err := tryDir(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && held == nil {
			continue
		}
		if err != nil {
			return freed, err
		}
		size, err := sizeOf(dir)
		if err == nil {
			err = (&workspace{dir: dir, lock: held}).remove()
		}
		if err != nil {
			return freed, fmt.Errorf("remove what an interrupted process left: %w", err)
		}
		s.logger.Info("removed what an interrupted process left", "directory", dir, "bytes", size)
		freed += size
	}
	return freed, nil
}

// sizeOf adds up the regular files below a directory, those with several names
// once.
func sizeOf(dir string) (int64, error) {
	var size int64
	linked := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
			if linked[stat.Ino] {
				return nil
			}
			linked[stat.Ino] = true
		}
		size += info.Size()
		return nil
	})
	return size, err
}
