// Package namedfile reads files that somebody has named: what is none, is too large, or would be
// waited for forever, is refused in words that fit behind the name.
package namedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// ReadNamed is Read of a file whose name goes into the log and into plans, which hold no other
// texts than UTF-8.
func ReadNamed(path string, most int64) ([]byte, error) {
	if !utf8.ValidString(path) {
		return nil, errors.New("the name of the file is not valid UTF-8; rename it")
	}
	return Read(path, most)
}

// ReadRegular is ReadNamed of what is a file, or was given to this process as one.
func ReadRegular(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil {
		if err := Irregular(info); err != nil && !inherited(path) {
			return nil, fmt.Errorf("%w, or give that as /dev/stdin or <(COMMAND)", err)
		}
	}
	return ReadNamed(path, most)
}

// Irregular is why something is no file that can be read to its end: a FIFO to which nobody
// writes is waited for forever. It is nil of files and directories.
func Irregular(info fs.FileInfo) error {
	if mode := info.Mode(); mode.IsRegular() || mode.IsDir() {
		return nil
	}
	return fmt.Errorf("is %s, not a file: write what it is to say into a file", regularfile.Kind(info.Mode()))
}

// inherited reports whether a path is one of a file that this process was started with, such
// as /dev/stdin, or what a shell puts in the place of <(COMMAND).
func inherited(path string) bool {
	const mostLinks = 10
	descriptors := fmt.Sprintf("/proc/%d/fd", os.Getpid())
	for range mostLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return false
		}
		if dir, err = filepath.Abs(dir); err != nil || dir == descriptors || dir == "/dev/fd" {
			return err == nil
		}
		to, err := os.Readlink(path)
		switch {
		case err != nil:
			return false
		case filepath.IsAbs(to):
			path = to
		default:
			path = filepath.Join(dir, to)
		}
	}
	return false
}

// Read reads a file, of at most so many bytes, that may also be a pipe.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, Failure(err)
	case info.IsDir():
		return nil, errors.New("is a directory; give the files in it")
	case info.Size() > most:
		return nil, yamlfile.TooLarge(info.Size(), most)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Failure(err)
	}
	// A pipe or a device does not know its size before it is read.
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, Failure(err)
	}
	if int64(len(data)) > most {
		return nil, yamlfile.TooLarge(int64(len(data)), most)
	}
	return data, nil
}

// Failure says in words what the system said; the path stands before it.
func Failure(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("cannot be read: permission denied")
	}
	var detail *fs.PathError
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
