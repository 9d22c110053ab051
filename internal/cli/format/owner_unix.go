//go:build unix

package format

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner of the one that it replaces, as far as that is another.
func keepOwner(f *os.File, old os.FileInfo) error {
	stat, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if now, err := f.Stat(); err == nil {
		if is, ok := now.Sys().(*syscall.Stat_t); ok && is.Uid == stat.Uid && is.Gid == stat.Gid {
			return nil
		}
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}
