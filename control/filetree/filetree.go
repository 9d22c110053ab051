// Package filetree finds the files below a directory of the workspace, as a revision carries
// them: also those that symbolic links lead to, since whoever includes them follows these.
package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/deployster-go/deployster/engine"
)

// UnreadableError says that the directory itself cannot be read.
type UnreadableError struct {
	Name  string
	Cause error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("reading the directory %s: %v", e.Name, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Cause }

// Files are the files below a directory of the root, of which there may be at most so many,
// and as many links to directories. leave is called for what cannot be read, with the reason,
// and may refuse it. What Deployster keeps for itself is left out.
func Files(root *os.Root, directory string, most int, leave func(name string, why error) error) ([]string, error) {
	w := &walk{root: root, start: directory, most: most, leave: leave}
	err := fs.WalkDir(root.FS(), directory, w.visit)
	return w.names, err
}

// walk finds the files below a directory of the workspace, also those that symbolic links
// lead to, since whoever includes them follows these.
type walk struct {
	root  *os.Root
	start string
	most  int
	leave func(name string, why error) error
	links int // to directories
	names []string
}

func (w *walk) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		return nil
	case err != nil && name == w.start:
		return &UnreadableError{name, err}
	case err != nil:
		return w.leave(name, err)
	case name == engine.StateDir:
		return fs.SkipDir
	case entry.IsDir():
		return nil
	}
	if entry.Type()&fs.ModeSymlink != 0 {
		info, err := w.root.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return w.leave(name, errors.New("it is a link to what is not there"))
		case err == nil && info.IsDir():
			return w.through(name, info)
		} // Why a link leads out is found when it is read as a file.
	}
	if w.names = append(w.names, name); len(w.names) > w.most {
		return fmt.Errorf("the directory %s has more than %d files, too many for a revision to carry", w.start, w.most)
	}
	return nil
}

// through walks the directory that a link leads to. Below one that leads to a directory
// in which it is itself, there is no end of names.
func (w *walk) through(link string, target fs.FileInfo) error {
	for within := link; within != "."; {
		within = path.Dir(within)
		info, err := w.root.Stat(within)
		if err != nil {
			return w.leave(link, err)
		}
		if os.SameFile(info, target) {
			return w.leave(link, fmt.Errorf("it is a link to %s, in which it is itself", within))
		}
	}
	if w.links++; w.links > w.most {
		return fmt.Errorf("the directory %s has more than %d links to directories, too many for a revision to carry", w.start, w.most)
	}
	return fs.WalkDir(w.root.FS(), link, w.visit)
}
