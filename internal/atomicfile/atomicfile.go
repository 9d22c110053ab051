// Package atomicfile writes files that are in their place whole or not at all,
// whatever happens to the process or the machine: the content is made durable under
// another name in the same directory, and then renamed.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file on its way to its place. Until Commit only its owner can find it,
// under a name that begins with a dot.
type File struct {
	*os.File
	path string
}

// Create makes an empty file that is to replace what is at path. Only its owner can
// read it, also in its place.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".deployster-new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Commit puts the file into its place, durably, and closes it.
func (f *File) Commit() error {
	if err := f.Place(); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// Place is Commit of one of several files: that it is in its place is durable only after a
// SyncDir of its directory.
func (f *File) Place() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), f.path)
}

// Discard removes a file that was not committed; it is deferred.
func (f *File) Discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// Write replaces what is at path by a file of what write writes.
func Write(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f.File); err != nil {
		return err
	}
	return f.Commit()
}

// WriteFile is Write of a content that is known.
func WriteFile(path string, content []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// SyncDir makes durable which files a directory holds, where the file system knows such a
// thing.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("making %s durable: %w", dir, err)
	}
	return nil
}
