package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// View is what paths of this machine lead to: a container keeps what they led to when
// it was started, whatever is made or mounted in their place later.
type View struct {
	files  []os.FileInfo
	mounts []string // at the paths and below them
}

// Views looks at paths again and again. The zero value is ready, and is to be closed. It
// is safe for concurrent use.
type Views struct {
	mounts mounts

	mu   sync.Mutex
	text string // of the mounts that were last read
	all  []mounted

	again mountsAgain // of the directory that was last asked for
}

// mounted is a mount: its number and device, and where it is.
type mounted struct{ id, at string }

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
	v.mounts = mountsBelow(s.mounted(), real)
	return v, nil
}

// mounted returns all mounts, which are read anew only where there are others.
func (s *Views) mounted() []mounted {
	text := s.mounts.info()
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != s.text || s.all == nil {
		s.text, s.all = text, mountsIn(text)
	}
	return s.all
}

// Close gives back what is kept to look again.
func (s *Views) Close() { s.mounts.close() }

// Same reports whether the paths lead where they led.
func (v View) Same(other View) bool {
	return slices.EqualFunc(v.files, other.files, os.SameFile) && slices.Equal(v.mounts, other.mounts)
}

// mountsIn reads mountinfo, see proc(5).
func mountsIn(mountinfo string) (all []mounted) {
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			all = append(all, mounted{fields[0] + " " + fields[2], unescaped(fields[4])})
		}
	}
	return all
}

// mountsBelow returns the mounts, in order, of which each is known by its number, at
// the paths and below them.
func mountsBelow(all []mounted, paths []string) (found []string) {
	for _, m := range all {
		if slices.ContainsFunc(paths, func(path string) bool { return below(m.at, path) }) {
			found = append(found, m.id+" "+m.at)
		}
	}
	return found
}
