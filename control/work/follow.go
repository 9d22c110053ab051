package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
)

var errAnywhere = errors.New("it includes a file whose name is known only when it is evaluated, so a revision cannot carry it")

// follow reads what may be included by names that are known only later, with what that
// includes. What is not there now is not there for whoever includes it, and what is no
// template fails where it is included, if it is. What somebody names, and is there and
// cannot be read, is refused: it would be missing in the revision, and a fallback would take
// its place. What only lies in a directory from which something is included, such as the
// backup of an editor, need not be for anybody: what cannot be read of that is left out, and
// refused where it is included after all.
func (c *collector) follow(possible expression.Usage) error {
	f := following{collector: c, seen: map[string]bool{}}
	defer func() { c.seen = append(c.seen, f.seen) }()
	directories, err := f.all(possible.Candidates, possible.Directories)
	for f.stray = true; err == nil && len(directories) > 0; {
		var names []string
		for _, directory := range directories {
			below, failed := f.below(directory)
			if failed != nil {
				return failed
			}
			names = append(names, below...)
		}
		directories, err = f.all(names, nil)
	}
	return err
}

// following is one follow: first what is named, and then what lies in directories.
type following struct {
	*collector
	seen  map[string]bool
	stray bool // what comes now only lies in a directory, or is named by what does
}

// all reads files with all that they name, and returns the directories from which these and
// others may include something. It fails where a directory that is named is none.
func (f *following) all(names, directories []string) ([]string, error) {
	for len(names) > 0 {
		name := path.Clean(names[0])
		if names = names[1:]; f.seen[name] {
			continue
		}
		f.seen[name] = true
		u, err := f.one(name)
		if err != nil {
			return nil, err
		}
		names, directories = append(names, u.Candidates...), append(directories, u.Directories...)
	}
	if f.stray {
		return directories, nil
	}
	for _, directory := range directories {
		if err := f.directory(path.Clean(directory)); err != nil {
			return nil, unreadable(path.Clean(directory), err)
		}
	}
	return directories, nil
}

// one reads a file, and returns what it may include.
func (f *following) one(name string) (expression.Usage, error) {
	_, known := f.files[name]
	_, err := f.read(name)
	switch {
	case err != nil && f.bounded() != nil:
		return expression.Usage{}, f.bounded()
	case errors.Is(err, fs.ErrNotExist):
		return expression.Usage{}, nil
	case err != nil:
		return expression.Usage{}, f.leave(name, err)
	}
	u, err := f.evaluator.Includes(name)
	switch {
	case err != nil:
		return expression.Usage{}, nil
	case u.Anywhere && f.stray && known:
		return expression.Usage{}, nil // a manifest, of whose expressions that was said already
	case u.Anywhere:
		delete(f.files, name)
		return expression.Usage{}, f.leave(name, errAnywhere)
	}
	return u, nil
}

// leave leaves out what cannot be carried where nobody names it, and refuses it elsewhere.
func (f *following) leave(name string, why error) error {
	switch {
	case f.stray:
		f.omitted[name] = why.Error()
		return nil
	case errors.Is(why, errAnywhere):
		return fmt.Errorf("%s, which may be included: %w", name, why)
	}
	return unreadable(name, why)
}

// unreadable refuses what may be included, and is there, and cannot be read.
func unreadable(name string, err error) error {
	return fmt.Errorf("%s, which may be included, cannot be read: %w; correct or remove it", name, err)
}

// directory fails where there is something else than a directory of the workspace.
func (f *following) directory(name string) error {
	if !fs.ValidPath(name) {
		return nil // it leads out of the workspace, and is refused where it is included
	}
	root, err := os.OpenRoot(f.workspace)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.IsDir():
		err = errors.New("it is not a directory")
	}
	return err
}

// below are the files in a directory of the workspace and those below it; none where
// there is no such directory.
func (f *following) below(directory string) (names []string, err error) {
	directory = path.Clean(directory)
	if f.seen[directory+"/"] || !fs.ValidPath(directory) {
		return nil, nil
	}
	f.seen[directory+"/"] = true
	root, err := os.OpenRoot(f.workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	w := &walk{root: root, start: directory, leave: f.leave}
	if err := f.directory(directory); err != nil {
		return nil, f.leave(directory, err)
	}
	err = fs.WalkDir(root.FS(), directory, w.visit)
	return w.names, err
}

// walk finds the files below a directory of the workspace, also those that symbolic links
// lead to, since whoever includes them follows these.
type walk struct {
	root  *os.Root
	start string
	leave func(name string, why error) error
	links int // to directories
	names []string
}

func (w *walk) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		return nil
	case err != nil && name == w.start:
		return unreadable(name, err)
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
	if w.names = append(w.names, name); len(w.names) > maxCarried {
		return fmt.Errorf("the directory %s has more than %d files, too many for a revision to carry", w.start, maxCarried)
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
	if w.links++; w.links > maxCarried {
		return fmt.Errorf("the directory %s has more than %d links to directories, too many for a revision to carry", w.start, maxCarried)
	}
	return fs.WalkDir(w.root.FS(), link, w.visit)
}
