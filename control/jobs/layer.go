package jobs

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/engine"
)

// measuring is how long engines may take to say what containers have written, and for how long
// that counts: they may have to look at many files for it.
const measuring = 5 * time.Second

// measure finds out what the containers of jobs have written beside what is mounted, as far as
// that is on the disk of the workspace: of those that write to it, and of others. What an engine
// does not say stays as it was. It is called by whoever has the turn, and without the lock, for an
// engine may not answer.
func (s *shared) measure(others ...*attempt) {
	if time.Since(s.measured) < measuring {
		return
	}
	s.mu.Lock()
	all := slices.AppendSeq(others, maps.Keys(s.writing))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), measuring)
	defer cancel()
	var asked sync.WaitGroup
	for _, a := range all {
		measurer, measures := a.worker.Engine.(engine.Measurer)
		if !measures || !a.exists {
			continue
		}
		asked.Go(func() {
			bytes, dir, err := measurer.Written(ctx, a.labels())
			if err != nil || !sameDisk(dir, a.Workspace) {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			a.layer = bytes
		})
	}
	asked.Wait()
	s.measured = time.Now()
}

// sameDisk reports whether two directories are on one file system.
func sameDisk(one, other string) bool {
	device := func(dir string) (of uint64, known bool) {
		info, err := os.Stat(dir)
		if err != nil {
			return 0, false
		}
		stat, known := info.Sys().(*syscall.Stat_t)
		if !known {
			return 0, false
		}
		return uint64(stat.Dev), true //nolint:unconvert // types differ among systems
	}
	first, known := device(one)
	second, too := device(other)
	return known && too && first == second
}
