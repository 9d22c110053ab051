package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// View is what paths of this machine lead to: a container keeps what they led to when
// it was started, whatever is made or mounted in their place later.
type View struct {
	files  []os.FileInfo
	mounts []string // at the paths and below them
}

// Views looks at paths again and again. The zero value is ready, and is to be closed. It
// is safe for concurrent use.
type Views struct{ mounts mounts }

// Of looks at paths, all of which must be there.
func (s *Views) Of(paths []string) (View, error) {
	var v View
	real := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if real[i], err = filepath.EvalSymlinks(path); err != nil {
			return View{}, fmt.Errorf("find %s: %w", path, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return View{}, fmt.Errorf("find %s: %w", path, err)
		}
		v.files = append(v.files, info)
	}
	v.mounts = mountsBelow(s.mounts.info(), real)
	return v, nil
}

// Close gives back what is kept to look again.
func (s *Views) Close() { s.mounts.close() }

// Same reports whether the paths lead where they led.
func (v View) Same(other View) bool {
	return slices.EqualFunc(v.files, other.files, os.SameFile) && slices.Equal(v.mounts, other.mounts)
}

// mountsBelow returns the mounts, in order, of which each is known by its number, at
// the paths and below them.
func mountsBelow(mountinfo string, paths []string) (found []string) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := unescaped(fields[4])
		if slices.ContainsFunc(paths, func(path string) bool { return below(at, path) }) {
			found = append(found, fields[0]+" "+fields[2]+" "+at)
		}
	}
	return found
}
