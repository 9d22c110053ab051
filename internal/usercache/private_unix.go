//go:build unix

package usercache

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// private refuses a directory to which another user can write, or in whose place
// another user can put one. Root does not count as another user.
func private(directory string) error {
	at, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return fmt.Errorf("look at %s: %w", directory, err)
	}
	for first := true; ; first = false {
		info, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("look at %s: %w", at, err)
		}
		// Of a sticky directory, such as /tmp, others cannot move what is not theirs.
		shared := !first && info.Mode()&fs.ModeSticky != 0
		if !privateFile(info) && (!shared || !ownedByUs(info)) {
			return fmt.Errorf("others can write to %s, and so to %s: make it yours alone (chown, chmod go-w), or set XDG_CACHE_HOME to another", at, directory)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return nil
		}
		at = parent
	}
}

// privateFile reports whether nobody but this user, and root, can write to a file.
func privateFile(info fs.FileInfo) bool {
	return ownedByUs(info) && info.Mode().Perm()&0o022 == 0
}

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
