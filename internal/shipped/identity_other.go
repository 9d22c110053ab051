//go:build !linux

package shipped

import (
	"os"
	"time"
)

// identity is empty where the system has no time that programs cannot set:
// then hashes are not remembered.
func identity(f *os.File) (id string, changed time.Time, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	id, changed = identityOf(info)
	return id, changed, nil
}

// identityOf is identity of what is known of a file.
func identityOf(info os.FileInfo) (id string, changed time.Time) { return "", info.ModTime() }
