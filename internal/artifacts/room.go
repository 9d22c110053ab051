package artifacts

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// room is what may be written to a disk.
type room struct {
	file    *os.File // on the disk
	minFree uint64   // what is left of it
	written int64    // since it was measured
}

// measured is how much is written at most until the disk is looked at again.
const measured = 16 << 20

// wants fails where so much of a file does not fit. The fault is that of the job where the
// file has holes: it took less space there than it takes here, each time that it is made.
func (r *room) wants(at string, info fs.FileInfo, size int64) error {
	if r == nil || r.minFree == 0 {
		return nil
	}
	r.written = 0
	free, known := freeBytes(r.file)
	if !known { // writing tells
		return nil
	}
	if free >= r.minFree && uint64(size) <= free-r.minFree {
		return nil
	}
	if stat, known := info.Sys().(*syscall.Stat_t); known && info.Size()-stat.Blocks*512 > measured {
		return &RefusedError{
			Path: at, Reason: fmt.Sprintf("has %d bytes with its holes, and the disk has no room for them", info.Size()),
			Remedy: "make it without holes as long as it needs to be, or make room",
		}
	}
	return fmt.Errorf("%q has %d bytes, and of %d that are free %d are to stay so: %w", at, info.Size(), free, r.minFree, syscall.ENOSPC)
}

// freeBytes is how much can be written to the disk of a file.
func freeBytes(f *os.File) (free uint64, known bool) {
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &disk); err != nil {
		return 0, false
	}
	return uint64(disk.Bavail) * uint64(disk.Bsize), true //nolint:unconvert // types differ among systems
}

// took notes that something was written of a file, and looks at the disk from time to time.
func (r *room) took(at string, info fs.FileInfo, n int) error {
	if r == nil {
		return nil
	}
	if r.written += int64(n); r.written < measured {
		return nil
	}
	return r.wants(at, info, 0)
}
