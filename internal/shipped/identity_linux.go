package shipped

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// identity describes an open file so that it differs after any change, and
// is when the last change was.
func identity(f *os.File) (id string, changed time.Time, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	id, changed = identityOf(info)
	return id, changed, nil
}

// identityOf is identity of what is known of a file.
func identityOf(info os.FileInfo) (id string, changed time.Time) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", info.ModTime()
	}
	return fmt.Sprint(s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano()), time.Unix(s.Ctim.Unix())
}
