package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrReplaced is that a path does not lead to what was checked any more.
var ErrReplaced = errors.New("it was replaced by something else since it was checked")

// ErrHidden is that a path leads into a directory that no container may see.
var ErrHidden = errors.New("no container may see what is there")

// Found is a file or a directory of this machine that was checked. The zero Found is
// that nothing was.
type Found struct {
	Path   string // absolute and without links
	Device uint64
	Inode  uint64
	Dir    bool
}

// LinkError is that a path goes through a link that a container may have made.
type LinkError struct {
	Link   string // its path
	Within string // what containers may write to
}

// Error implements error.
func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a link within %s, to which types may write: no link is followed there", e.Link, e.Within)
}

// Finder finds out what paths of this machine lead to.
type Finder struct {
	Hidden  string   // directory in which nothing may be found; "" is none
	Written []string // what containers may write to: they may have made the links in it, which are not followed; "/" is for those that may do anything here
}

// Find returns what is at a path. It fails with ErrHidden, a LinkError, or why nothing
// can be found there. On other systems than Linux, where no engine can rely on what was
// found, the zero Found is no failure.
func (f Finder) Find(name string) (Found, error) {
	hidden, written, err := f.bounds()
	if err != nil {
		return Found{}, err
	}
	return find(name, hidden, written)
}

// bound is a directory that the way to a file may lead through.
type bound struct {
	path string
	info fs.FileInfo
}

func (f Finder) bounds() (hidden *bound, written []bound, err error) {
	for i, path := range append([]string{f.Hidden}, f.Written...) {
		if path == "" || i > 0 && path == "/" {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && i == 0:
			return nil, nil, fmt.Errorf("find %s: %w", path, err)
		case err != nil: // whoever mounts it says so
		case i == 0:
			hidden = &bound{path, info}
		default:
			written = append(written, bound{path, info})
		}
	}
	return hidden, written, nil
}

// Pin returns mounts of which each is of what its source leads to at present, and of
// nothing else (see Mount.Found). A source that is not there, or no path, is left to the engine.
func (f Finder) Pin(mounts []Mount) ([]Mount, error) {
	hidden, written, err := f.bounds()
	if err != nil {
		return nil, err
	}
	pinned := slices.Clone(mounts)
	for i := range pinned {
		m := &pinned[i]
		if !filepath.IsAbs(m.Source) {
			continue // it is no path of this machine
		}
		m.Found, err = find(m.Source, hidden, written)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the mount source %s: %w", m.Source, err)
		}
	}
	return pinned, nil
}

// Changed returns ErrReplaced, or another reason, if the source of the mount does not
// lead to what was found there any more.
func (m Mount) Changed() error {
	if m.Found == (Found{}) {
		return nil
	}
	now, err := find(m.Source, nil, nil)
	if err == nil && now != m.Found {
		err = ErrReplaced
	}
	if err != nil {
		return fmt.Errorf("mount source %s: %w", m.Source, err)
	}
	return nil
}

// leads returns what reports whether a file is the source of the mount, if that is there.
func (m Mount) leads() (to func(fs.FileInfo) bool, ok bool) {
	if m.Found != (Found{}) {
		return m.Found.Is, true
	}
	source, err := os.Stat(m.Source)
	return func(info fs.FileInfo) bool { return os.SameFile(source, info) }, err == nil
}
