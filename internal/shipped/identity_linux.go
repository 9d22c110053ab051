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
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", info.ModTime(), nil
	}
	changed = time.Unix(s.Ctim.Unix())
	return fmt.Sprint(s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano()), changed, nil
}
