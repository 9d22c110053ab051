package contents

import (
	"io/fs"
	"syscall"
	"time"
)

// statusOf returns when a file or anything of it was changed last, and which file it is.
func statusOf(info fs.FileInfo) (changed time.Time, id uint64, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return changed, 0, false
	}
	return time.Unix(s.Ctim.Unix()), s.Ino, true
}
