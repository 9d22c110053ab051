package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/deployster-go/deployster/control/filetree"
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
	if err := f.directory(directory); err != nil {
		return nil, f.leave(directory, err)
	}
	names, err = filetree.Files(root, directory, maxCarried, f.leave)
	if at := (*filetree.UnreadableError)(nil); errors.As(err, &at) {
		err = unreadable(at.Name, at.Cause)
	}
	return names, err
}
