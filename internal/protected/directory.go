package protected

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// directory has a file for each document, which only its owner can read.
type directory string

func (d directory) String() string { return string(d) }

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

// Keep implements Remote.
func (d directory) Keep(name string, content []byte) error {
	if err := d.make(); err != nil {
		return err
	}
	return atomicfile.WriteFile(d.path(name), content)
}

// make makes the directory, durably, and keeps others out of one that is there.
func (d directory) make() error {
	info, err := os.Lstat(string(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(string(d), 0o700); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(string(d)))
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a directory: move it away")
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(string(d), 0o700) //nolint:gosec // a directory is entered by its owner
	}
	return nil
}

// Load implements Remote. What leads elsewhere, is too large or never ends is refused.
func (d directory) Load(name string) ([]byte, error) {
	file, info, err := regularfile.OpenNoLink(d.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", info.Size(), MaxSize)
	}
	return io.ReadAll(io.LimitReader(file, MaxSize+1))
}

// Remove implements Remote.
func (d directory) Remove(name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Old implements Remote.
func (d directory) Old(before time.Time) (all []Kept, err error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) { // what is gone by now is none
			all = append(all, Kept{e.Name(), info.Size(), info.ModTime()})
		}
	}
	return all, err
}
