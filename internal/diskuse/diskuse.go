// Package diskuse measures how much of a disk files take.
package diskuse

import (
	"io/fs"
	"syscall"
)

// blockSize is the unit of what a file system says that a file takes, whatever its own blocks have.
const blockSize = 512

// Tree returns how many bytes of the disk the files in a directory take. A file with several names counts
// in part for each. Tree leaves out what cannot be read.
func Tree(root fs.FS, dir string) (bytes int64) {
	_ = fs.WalkDir(root, dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += file(info)
		}
		return nil
	})
	return bytes
}

func file(info fs.FileInfo) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return stat.Blocks * blockSize / max(1, int64(stat.Nlink)) //nolint:unconvert // types differ among systems
}
