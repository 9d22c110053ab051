package sqlite

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// TestAFileSystemThatIsReadOnly has the remedy of one that somebody may not
// write to.
func TestAFileSystemThatIsReadOnly(t *testing.T) {
	for _, refused := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		err := explain("/mnt/log.db", &os.PathError{Op: "open", Path: "/mnt/log.db-anchor", Err: refused})
		wantError(t, err, refused, "make the file and its directory /mnt writable, or copy them")
	}
	if err := explain("/mnt/log.db", fs.ErrNotExist); isForbidden(err) {
		t.Error(err)
	}
}
