package sqlite

import "golang.org/x/sys/unix"

// renameNew renames a file unless the name is taken, which is fs.ErrExist.
func renameNew(file, name string) error {
	return unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
}
