package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Source is a file that has been read.
type Source struct {
	Name string
	Data []byte
}

// ReadFiles reads manifests. What cannot be read is reported for all files
// together, as an *Error.
func ReadFiles(paths []string) ([]Source, error) {
	var found yamlfile.Report
	var sources []Source
	seen := map[string]bool{}
	for _, path := range paths {
		if clean := filepath.Clean(path); seen[clean] {
			found.Add(Problem{Position: Position{File: path}, Message: "is given twice"})
			continue
		} else {
			seen[clean] = true
		}
		data, err := readRegular(path, yamlfile.MaxSize)
		if err != nil {
			found.Add(Problem{Position: Position{File: path}, Message: err.Error()})
			continue
		}
		sources = append(sources, Source{Name: path, Data: data})
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return sources, nil
}

// ReadFile reads one file that somebody named, of at most so many bytes. It fails with an
// *Error.
func ReadFile(path string, most int64) ([]byte, error) {
	data, err := readRegular(path, most)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Position: Position{File: path}, Message: err.Error()}}}
	}
	return data, nil
}

func readNamed(path string) ([]byte, error) { return readNamedUpTo(path, yamlfile.MaxSize) }

// readNamedUpTo reads a file that somebody named. Its name goes into the log and
// into plans, which hold no other texts than UTF-8.
func readNamedUpTo(path string, most int64) ([]byte, error) {
	if !utf8.ValidString(path) {
		return nil, errors.New("the name of the file is not valid UTF-8; rename it")
	}
	return readUpTo(path, most)
}

// readRegular is readNamedUpTo of what is a file, or was given to this process as one.
// Variables are taken from any FIFO, too: commands that keep them out of files write to those.
func readRegular(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil {
		if err := Irregular(info); err != nil && !inherited(path) {
			return nil, fmt.Errorf("%w, or give that as /dev/stdin or <(COMMAND)", err)
		}
	}
	return readNamedUpTo(path, most)
}

// Irregular is why something is no file that can be read to its end: a FIFO to which nobody
// writes is waited for forever. It is nil of files and directories.
func Irregular(info fs.FileInfo) error {
	what := "a special file"
	switch mode := info.Mode(); {
	case mode.IsRegular(), mode.IsDir():
		return nil
	case mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return fmt.Errorf("is %s, not a file: write what it is to say into a file", what)
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

func readFile(path string) ([]byte, error) { return readUpTo(path, yamlfile.MaxSize) }

func readUpTo(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fileError(err)
	case info.IsDir():
		return nil, errors.New("is a directory; give the files in it")
	case info.Size() > most:
		return nil, yamlfile.TooLarge(info.Size(), most)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(err)
	}
	// A pipe or a device does not know its size before it is read.
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fileError(err)
	}
	if int64(len(data)) > most {
		return nil, yamlfile.TooLarge(int64(len(data)), most)
	}
	return data, nil
}

// fileError says in words what the system said; the path stands before it.
func fileError(err error) error {
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
