package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
)

// errDisk is why a job was stopped that filled the disk.
var errDisk = errors.New("it was stopped as it filled the disk")

// DiskPeriod is how often the disk is looked at, unless Options says otherwise.
const DiskPeriod = time.Second

// freeBytes is how much can be written where a directory is.
func freeBytes(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil //nolint:unconvert // types differ among systems
}

// noSpace says what to do where the disk is full.
func noSpace(dir string, free uint64) string {
	return fmt.Sprintf("only %d MiB are free on the disk of %s: make room, `deployster gc` removes what nobody needs any more", free>>20, dir)
}

// filled says what the job can do that has filled the disk.
func (j *Jobs) filled(wrote int64, free uint64) string {
	return fmt.Sprintf("it has written %s, more than any other job, and of %d MiB that are free on the disk of %s %d MiB are to stay so: let it write less, or make room, `deployster gc` removes what nobody needs any more",
		phrase.Size(wrote), free>>20, j.Workspace, j.MinFree>>20)
}

// enoughSpace fails where the disk is full already.
func (a *attempt) enoughSpace() error {
	free, err := a.free(a.dir)
	if err == nil && free < a.MinFree {
		err = &fullError{noSpace(a.Workspace, free)}
	}
	return err
}

// fullError is that the disk is full, before anything failed to be written to it.
type fullError struct{ text string }

func (e *fullError) Error() string { return e.text }

// Is says that it is what a write to a full disk fails with.
func (e *fullError) Is(target error) bool { return target == syscall.ENOSPC }

// errCrowded is why a job was stopped that was not the one which filled the disk.
var errCrowded = errors.New("it was stopped because others had filled the disk")

// diskGrace is how long the disk may stay full once a job that filled it is removed: engines
// remove what they hold of it a moment later.
const diskGrace = 5 * time.Second

// evictionGrace is how long a job that is stopped may take to give its space back, before
// another one is stopped: the engine of the first may not answer.
const evictionGrace = 30 * time.Second

// shared are the jobs that write to the disk at once.
type shared struct {
	turn     chan struct{} // of who finds out what all have written
	measured time.Time     // when that was found out last; of who has the turn

	mu      sync.Mutex
	writing map[*attempt]writer
	evicted *attempt  // the job that was stopped last, until nothing is left of it
	full    bool      // the disk has been full ever since a job was found to have filled it
	until   time.Time // before that no other job is stopped
}

// writer is the container of a job, which runs until the context has ended.
type writer struct {
	running context.Context
	stop    context.CancelCauseFunc
}

// writes notes that the container of a job runs.
func (a *attempt) writes(running context.Context, stop context.CancelCauseFunc) {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	if a.disk.writing == nil {
		a.disk.writing = map[*attempt]writer{}
	}
	a.disk.writing[a] = writer{running, stop}
}

// wrote notes that nothing is left of a job that takes space.
func (a *attempt) wrote() {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	delete(a.disk.writing, a)
	if a.disk.evicted == a {
		a.disk.evicted, a.disk.until = nil, time.Now().Add(diskGrace)
	}
}

// watchDisk sees to it that the jobs leave something of the disk, until the container of this
// one has ended.
func (a *attempt) watchDisk(running context.Context) {
	ticks := time.NewTicker(a.DiskPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-running.Done():
			return
		case <-ticks.C:
			a.enforceMinFree()
		}
	}
}

// enforceMinFree stops the job that has written the most where the disk is full.
func (a *attempt) enforceMinFree() {
	if !a.isFull() {
		return
	}
	select {
	case a.disk.turn <- struct{}{}:
		defer func() { <-a.disk.turn }()
	default:
		return // another one does
	}
	a.disk.measure()
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	if free, err := a.free(a.dir); err == nil && free < a.MinFree {
		a.evict(a.disk.written(), free)
	}
}

// isFull reports whether the disk is full, and a job may be stopped for that.
func (a *attempt) isFull() bool {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	free, err := a.free(a.dir)
	if err != nil || free >= a.MinFree {
		a.disk.full = a.disk.full && err != nil
		return false
	}
	return !time.Now().Before(a.disk.until)
}

// evict stops the job that has written the most, on a disk that is full: one at a time, for
// there is room again when it is removed. Only the first is responsible; who is stopped while
// the disk stays full is not. Where it would be full without the jobs, too, none is stopped.
func (a *attempt) evict(used usage, free uint64) {
	if used.running == nil || time.Now().Before(a.disk.until) || !a.mayHaveFilled(used, free) {
		return
	}
	first := !a.disk.full
	a.disk.markFull(used.most)
	if first && used.most != used.running { // it has ended, and is about to be removed
		a.disk.until = time.Now().Add(diskGrace)
		return
	}
	cause := fmt.Errorf("%w: %s", errCrowded, noSpace(a.Workspace, free))
	if first {
		cause = fmt.Errorf("%w: %s", errDisk, a.filled(used.bytes, free))
	}
	a.disk.evicted, a.disk.until = used.running, time.Now().Add(evictionGrace)
	a.disk.writing[used.running].stop(cause)
}

// mayHaveFilled reports whether the disk would not be full without what jobs have written.
func (a *attempt) mayHaveFilled(used usage, free uint64) bool {
	return free+uint64(used.all) >= a.MinFree
}

// usage is what jobs have written to the disk.
type usage struct {
	most    *attempt // that has written the most; nil is none
	bytes   int64    // that it has written
	running *attempt // that has written the most of those whose container runs; nil is none
	all     int64    // bytes
}

// written finds out what the jobs have written, and others that do not write any more.
func (s *shared) written(others ...*attempt) (u usage) {
	var taken int64 = -1
	u.bytes = -1
	count := func(a *attempt, runs bool) {
		n := a.written()
		u.all += n
		if n > u.bytes || n == u.bytes && runs {
			u.most, u.bytes = a, n
		}
		if runs && n >= taken {
			u.running, taken = a, n
		}
	}
	for a, w := range s.writing {
		count(a, w.running.Err() == nil)
	}
	for _, a := range others {
		if _, writes := s.writing[a]; !writes {
			count(a, false)
		}
	}
	return u
}

// markFull notes that a job has filled the disk, and that what becomes of the others by that is
// not their fault.
func (s *shared) markFull(most *attempt) {
	s.full = true
	for a := range s.writing {
		a.crowded = a.crowded || a != most
	}
}

// isCrowded reports whether another job was found to have filled the disk while this one ran.
func (a *attempt) isCrowded() bool {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	return a.crowded
}

// written is how many bytes of the disk a job has taken where it may write.
func (a *attempt) written() (bytes int64) {
	bytes = a.layer
	for _, name := range []string{outName, metadataName} {
		_ = filepath.WalkDir(filepath.Join(a.dir, name), func(_ string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // what it cannot be asked for is not counted
			}
			if info, err := entry.Info(); err == nil {
				if stat, known := info.Sys().(*syscall.Stat_t); known {
					bytes += stat.Blocks * 512
				}
			}
			return nil
		})
	}
	return bytes
}
