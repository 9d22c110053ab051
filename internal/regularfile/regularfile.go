// Package regularfile opens files that must be regular ones. Opening what is something else could wait
// forever, for whoever writes to a FIFO, or do something to a device.
package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotFile is why something was not opened that is there.
var ErrNotFile = errors.New("not a file")

const flags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// Open opens a regular file for reading, wherever links lead.
func Open(path string) (*os.File, fs.FileInfo, error) {
	return regular(os.OpenFile(path, flags, 0))
}

// OpenNoLink opens a regular file for reading, and no link to one.
func OpenNoLink(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		if _, way := os.Lstat(path); !errors.Is(way, syscall.ELOOP) { // which a loop of links on the way to it is, too
			err = &fs.PathError{Op: "open", Path: path, Err: notFile(fs.ModeSymlink)}
		}
	}
	return regular(f, err)
}

// OpenIn opens a regular file for reading that is below a directory, which no link leads out of.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return regular(root.OpenFile(name, flags, 0))
}

// regular refuses what was opened and is no regular file.
func regular(f *os.File, err error) (*os.File, fs.FileInfo, error) {
	if errors.Is(err, syscall.ENXIO) { // so ends opening a socket
		var at *fs.PathError
		if errors.As(err, &at) {
			err = &fs.PathError{Op: "open", Path: at.Path, Err: notFile(fs.ModeSocket)}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: notFile(info.Mode())}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func notFile(mode fs.FileMode) error { return fmt.Errorf("it is %s, %w", Kind(mode), ErrNotFile) }

// Kind is what something is, in words.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}
