//go:build !linux

package engine

import (
	"io/fs"
	"os"
	"path/filepath"
)

// find finds nothing that an engine could rely on: containers are elsewhere then.
func find(name string, hidden *bound, _ []bound) (Found, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil || hidden == nil {
		return Found{}, err
	}
	above, err := ancestors(real)
	for _, a := range above {
		if os.SameFile(a.info, hidden.info) {
			return Found{}, ErrHidden
		}
	}
	return Found{}, err
}

// Is reports whether it is a file.
func (Found) Is(fs.FileInfo) bool { return false }
