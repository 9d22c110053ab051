package objects

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Free is how many bytes can be written to the disk of the store, which need not be there yet.
func (s Store) Free() (bytes uint64, known bool) {
	if s.far != nil {
		return 0, false
	}
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		var disk syscall.Statfs_t
		err := syscall.Statfs(dir, &disk)
		switch {
		case err == nil:
			return uint64(disk.Bavail) * uint64(disk.Bsize), true //nolint:unconvert // types differ among systems
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return 0, false
		}
	}
}
