package entrypoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// EmptyTarget is where a container that empties a directory has that mounted.
const EmptyTarget = "/var/lib/deployster/empty"

// Empty returns the arguments of a process that removes all that is in EmptyTarget, and leaves that
// itself. It acts only as the first process of a container.
func Empty() []string { return []string{Word, roleEmpty} }

// takeEmpty empties the directory in the place of EmptyTarget.
func takeEmpty(dir string, pid int) int {
	if pid != 1 {
		return refuse("a directory is emptied in containers only")
	}
	if err := empty(dir); err != nil {
		return refuse(fmt.Sprintf("emptying %s: %v", dir, err))
	}
	return 0
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}
