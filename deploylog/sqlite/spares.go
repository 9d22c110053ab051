package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// spares are files of locks that nobody will take again, which will do for others: to
// remove one and to make another costs a file system many times as much as to rename it.
// Who still waits for the former lock finds that its file is gone, as if it were removed.
type spares struct {
	mu    sync.Mutex
	paths []string
	count int // so far; numbers them
}

// put takes away the file of a lock; nil removes it.
func (s *spares) put(path string) error {
	const most = 64
	if s == nil {
		return os.Remove(path) //nolint:gosec // beside the log, wherever its user wants that
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	// No lock has a name like this: see lockFile.
	spare := filepath.Join(filepath.Dir(path), fmt.Sprintf("spare.%d.%d", os.Getpid(), s.count))
	if len(s.paths) == most || renameNew(path, spare) != nil {
		return os.Remove(path) //nolint:gosec // beside the log, wherever its user wants that
	}
	s.paths = append(s.paths, spare)
	return nil
}

// take gives a lock that has no file a spare one, if there is any.
func (s *spares) take(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.paths) > 0 && renameNew(s.paths[0], path) != nil {
		_ = os.Remove(s.paths[0]) //nolint:gosec // as above; it may have been pruned, or the lock have a file by now
		s.paths = s.paths[1:]
	}
	s.paths = s.paths[min(1, len(s.paths)):]
}

// close removes those that are left. At worst they stay, and are pruned some day.
func (s *spares) close() { s.take("") }
