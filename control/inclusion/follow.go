package inclusion

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/filetree"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

// ErrAnywhere says that any file at all may be included.
var ErrAnywhere = errors.New("it includes a file whose name is known only when it is evaluated, so a revision cannot carry it")

// Follow reads what may be included by names that are known only later, with what that
// includes. What is not there now is not there for whoever includes it, and what is no
// template fails where it is included, if it is. What somebody names, and is there and
// cannot be read, is refused: it would be missing in the revision, and a fallback would take
// its place. What only lies in a directory from which something is included, such as the
// backup of an editor, need not be for anybody: what cannot be read of that is left out, and
// refused where it is included after all.
func (r *Reader) Follow(inclusions manifest.Inclusions) error {
	for _, dir := range slices.Sorted(maps.Keys(inclusions)) {
		if err := r.FollowIn(dir, inclusions[dir]); err != nil {
			return err
		}
	}
	return nil
}

// FollowIn is Follow for what is included by names in a directory.
func (r *Reader) FollowIn(dir string, possible expression.Usage) error {
	f := following{Reader: r, dir: dir, seen: map[string]bool{}}
	defer func() { r.seen = append(r.seen, f.seen) }()
	directories, err := f.all(f.whole(possible))
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

// following is one FollowIn: first what is named, and then what lies in directories.
type following struct {
	*Reader
	dir   string // names of others are below it
	seen  map[string]bool
	stray bool // what comes now only lies in a directory, or is named by what does
}

// whole are the names of what may be included, from the workspace. What leads out of the
// directory is refused where it is included.
func (f *following) whole(u expression.Usage) (names, directories []string) {
	at := func(below []string) (all []string) {
		for _, name := range below {
			if name = path.Clean(name); f.dir == "" || filepath.IsLocal(name) {
				all = append(all, path.Join(f.dir, name))
			}
		}
		return all
	}
	return at(u.Candidates), at(u.Directories)
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
		more, below := f.whole(u)
		names, directories = append(names, more...), append(directories, below...)
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
	_, known := f.Files[name]
	_, err := f.read(name)
	switch {
	case err != nil && f.Bounded() != nil:
		return expression.Usage{}, f.Bounded()
	case errors.Is(err, fs.ErrNotExist):
		return expression.Usage{}, nil
	case err != nil:
		return expression.Usage{}, f.leave(name, err)
	}
	below := strings.TrimPrefix(strings.TrimPrefix(name, f.dir), "/")
	u, err := f.Expressions.Within(f.dir).Includes(below)
	switch {
	case err != nil:
		return expression.Usage{}, nil
	case u.Anywhere && f.stray && known:
		return expression.Usage{}, nil // a manifest, of whose expressions that was said already
	case u.Anywhere:
		delete(f.Files, name)
		return expression.Usage{}, f.leave(name, ErrAnywhere)
	}
	return u, nil
}

// leave leaves out what cannot be carried where nobody names it, and refuses it elsewhere.
func (f *following) leave(name string, why error) error {
	switch {
	case f.stray:
		f.Omitted[name] = why.Error()
		return nil
	case errors.Is(why, ErrAnywhere):
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
	names, err = filetree.Files(root, directory, MaxFiles, f.leave)
	if at := (*filetree.UnreadableError)(nil); errors.As(err, &at) {
		err = unreadable(at.Name, at.Cause)
	}
	return names, err
}
