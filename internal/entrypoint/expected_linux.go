package entrypoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// verify fails if something else is mounted than what the caller has checked. Numbers of files
// mean the same only on the same kernel, and where that shows this program's file by the number
// that the caller sees: elsewhere nothing is compared. Nor is what the program cannot reach.
func verify(text string) error {
	if text == "" {
		return nil
	}
	var e Expected
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fmt.Errorf("what is expected of mounts: %w", err)
	}
	boot, err := os.ReadFile(BootFile)
	if err != nil || string(boot) != e.Boot {
		return nil //nolint:nilerr // another kernel, or one that does not say
	}
	if same, err := e.Shim.at("/proc/self/exe"); err != nil || !same {
		return nil //nolint:nilerr // its numbers are others
	}
	for _, m := range e.Mounts {
		same, err := m.at(m.Path)
		if errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s%s: %w", ReplacedText, m.Path, err)
		}
		if !same {
			return fmt.Errorf("%s%s", ReplacedText, m.Path)
		}
	}
	return nil
}

// at reports whether the source is what is at a path.
func (s Source) at(path string) (bool, error) {
	var is unix.Stat_t
	err := unix.Stat(path, &is)
	return err == nil && is.Dev == s.Device && is.Ino == s.Inode, err
}
