package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// attendPause is how often a process looks after the locks that it has.
const attendPause = 2 * time.Second

// errLocksGone is that others can take locks that this process has.
var errLocksGone = errors.New("lock files were removed or replaced while this process had the locks, so that others may have them now: leave that directory alone, and start this process again")

// holding are the locks that this process has. The kernel knows them by their files: if a file
// was removed, or its directory, others make a new one and take the lock of that.
type holding struct {
	mu    sync.Mutex
	names map[*os.File]string
	dir   fs.FileInfo // that the files are in
	begun sync.Once

	changed time.Time // the directory, when it was looked at last
	looks   int       // since it had changed
}

// eachLook is how often every file is looked at though their directory has not changed: a file
// system may not say so.
const eachLook = 15

// still reports whether no file can have been removed since all were looked at, by the time at which
// their directory has changed. That is not exact: two looks see the same time before it counts.
func (h *holding) still(changed time.Time) bool {
	if !changed.Equal(h.changed) {
		h.changed, h.looks = changed, 0
		return false
	}
	h.looks++
	return h.looks > 1 && h.looks%eachLook != 0
}

// add adds a lock that was taken in a directory, and closes its file if that fails.
func (h *holding) add(f *os.File, dir, name string) error {
	in, err := os.Stat(dir) //nolint:gosec // beside the log, wherever its user wants that
	if err != nil {
		return errors.Join(err, f.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[*os.File]string{}
	}
	if len(h.names) == 0 { // else a new directory shows that the one of the others is gone
		h.dir = in
	}
	h.names[f] = name
	return nil
}

func (h *holding) remove(f *os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.names, f)
}

// gone returns why the locks may be others' now, nil if they are not. It looks at each file if
// that is wanted, and else at their directory alone.
func (h *holding) gone(dir string, each bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.names) == 0 {
		return nil
	}
	now, err := os.Stat(dir) //nolint:gosec // as above
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it is not known now, as when a file system does not answer
	}
	if err != nil || !os.SameFile(now, h.dir) {
		return fmt.Errorf("%s: %w", dir, errLocksGone)
	}
	if !each || h.still(now.ModTime()) {
		return nil
	}
	for f, name := range h.names {
		if there, err := isThere(f, dir, name); err != nil || !there {
			return fmt.Errorf("%s: lock %q: %w", dir, name, errLocksGone)
		}
	}
	return nil
}

// attend looks after the locks that this process has, also while it appends nothing, until the log
// is closed.
func (l *Log) attend() {
	defer crash.End("", "looking after the locks of the deployment log")
	every := time.NewTicker(attendPause)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-l.closed:
			return
		}
		if !l.attendOnce() {
			return
		}
	}
}

// attendOnce poisons the log if others may have the locks of this process, and reports whether they
// have not.
func (l *Log) attendOnce() bool {
	why := l.holding.gone(l.lockDir(), true)
	if why == nil {
		return true
	}
	l.queue.Break(fmt.Errorf("%w: open it again once the cause is gone: %w", deploylog.ErrPoisoned, why))
	l.logger.Error("deployment log poisoned: locks were lost", "path", l.path, "error", why)
	return false
}
