package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errDisk is why a job was stopped that filled the disk.
var errDisk = errors.New("it was stopped before the disk was full")

// diskPeriod is how often the disk is looked at.
const diskPeriod = time.Second

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

// enoughSpace fails where the disk is full already.
func (a *attempt) enoughSpace() error {
	free, err := a.free(a.dir)
	if err == nil && free < a.MinFree {
		err = errors.New(noSpace(a.dir, free))
	}
	return err
}

// errCrowded is why a job was stopped that was not the one which filled the disk.
var errCrowded = errors.New("it was stopped because others had filled the disk")

// diskGrace is how long the disk may stay full once a job that filled it is removed: engines
// remove what they hold of it a moment later.
const diskGrace = 5 * time.Second

// victimGrace is how long a job that is stopped may take to give its space back, before
// another one is stopped: the engine of the first may not answer.
const victimGrace = 30 * time.Second

// shared are the jobs that write to the disk at once.
type shared struct {
	mu      sync.Mutex
	writing map[*attempt]writer
	victim  *attempt  // the job that was stopped last, until nothing is left of it
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
	if a.disk.victim == a {
		a.disk.victim, a.disk.until = nil, time.Now().Add(diskGrace)
	}
}

// watchDisk sees to it that the jobs leave something of the disk, until the container of this
// one has ended.
func (a *attempt) watchDisk(running context.Context) {
	ticks := time.NewTicker(diskPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-running.Done():
			return
		case <-ticks.C:
			a.relieve()
		}
	}
}

// relieve stops the job that has written the most where the disk is full: one at a time, for
// there is room again when it is removed. Only the first is to blame; who is stopped while
// the disk stays full is not.
func (a *attempt) relieve() {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	free, err := a.free(a.dir)
	if err != nil || free >= a.MinFree {
		a.disk.full = a.disk.full && err != nil
		return
	}
	if time.Now().Before(a.disk.until) {
		return
	}
	culprit, most := a.disk.largest()
	if most == nil {
		return
	}
	cause := errDisk
	if a.disk.full || most != culprit {
		cause = errCrowded
	}
	a.disk.blame(culprit)
	a.disk.victim, a.disk.until = most, time.Now().Add(victimGrace)
	a.disk.writing[most].stop(fmt.Errorf("%w: %s", cause, noSpace(a.dir, free)))
}

// largest is the job that has written the most, and the one among those whose container runs.
func (s *shared) largest() (most, running *attempt) {
	var bytes, taken int64 = -1, -1
	for a, w := range s.writing {
		n, runs := a.written(), w.running.Err() == nil
		if n > bytes || n == bytes && runs {
			most, bytes = a, n
		}
		if runs && n >= taken {
			running, taken = a, n
		}
	}
	return most, running
}

// blame notes that a job has filled the disk, and that what becomes of the others by that is
// not their fault.
func (s *shared) blame(most *attempt) {
	s.full = true
	for a := range s.writing {
		a.crowded = a.crowded || a != most
	}
}

// innocent reports whether a job that has failed may have done so as another one filled the
// disk.
func (a *attempt) innocent() bool {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	if free, err := a.free(a.Workspace); err == nil && free < a.MinFree && !a.disk.full && len(a.disk.writing) > 1 {
		most, _ := a.disk.largest()
		a.disk.blame(most)
	}
	return a.crowded
}

// isCrowded reports whether another job was found to have filled the disk while this one ran.
func (a *attempt) isCrowded() bool {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	return a.crowded
}

// written is how many bytes of the disk a job has taken where it may write.
func (a *attempt) written() (bytes int64) {
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

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
