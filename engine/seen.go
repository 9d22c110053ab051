package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// StateDir is the name of what Deployster keeps below a workspace: its log,
// whose locks are files, and what every type was given. No type may see it.
const StateDir = ".deployster"

// Seen returns the paths at which a container with these mounts sees a
// directory of this machine: those that Spec.Hide is to name. A directory that
// is not there is seen nowhere. Links on the way are followed, and bind mounts of
// this machine, inside of what is mounted too.
func Seen(directory string, mounts []Mount) ([]string, error) {
	return seen(directory, mounts, appearances)
}

// Seen is the function Seen, for who asks again and again for one directory.
func (s *Views) Seen(directory string, mounts []Mount) ([]string, error) {
	return seen(directory, mounts, s.appearances)
}

func seen(directory string, mounts []Mount, appearances func(string) []string) ([]string, error) {
	real, err := filepath.EvalSymlinks(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", directory, err)
	}
	var all []string
	for _, shown := range appearances(real) {
		more, err := seenAt(shown, mounts)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", directory, err)
		}
		all = append(all, more...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// seenAt returns the paths at which mounts show a directory at a path of this
// machine without links.
func seenAt(real string, mounts []Mount) (seen []string, err error) {
	above, err := ancestors(real)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		leads, ok := m.leads()
		if !ok {
			continue // whoever mounts it will say so
		}
		for _, a := range above {
			if !leads(a.info) {
				continue
			}
			below, err := filepath.Rel(a.path, real)
			if err != nil {
				return nil, err
			}
			at := path.Join(m.Target, filepath.ToSlash(below))
			if !covered(at, m, mounts) {
				seen = append(seen, at)
			}
		}
	}
	return seen, nil
}

// ancestor is a file or a directory that holds it.
type ancestor struct {
	path string
	info fs.FileInfo
}

// ancestors returns what is at a path and every directory above it.
func ancestors(at string) ([]ancestor, error) {
	var found []ancestor
	for {
		info, err := os.Stat(at)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", at, err)
		}
		found = append(found, ancestor{at, info})
		if parent := filepath.Dir(at); parent != at {
			at = parent
			continue
		}
		return found, nil
	}
}

// covered reports whether what a mount would show at a path is covered by
// another mount below it.
func covered(at string, by Mount, mounts []Mount) bool {
	target := path.Clean(by.Target)
	return slices.ContainsFunc(mounts, func(m Mount) bool {
		inner := path.Clean(m.Target)
		return inner != target && below(inner, target) && below(at, inner)
	})
}

// below reports whether a clean path is another or below it.
func below(name, directory string) bool {
	rest, ok := strings.CutPrefix(name, directory)
	return ok && (rest == "" || rest[0] == '/' || directory == "/")
}
