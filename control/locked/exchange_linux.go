package locked

import "golang.org/x/sys/unix"

// exchange has two directories take each other's place, so that there is one at both paths all the time.
// Not every file system can.
func exchange(one, other string) error {
	return unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
}
