package runs

import (
	"sync"
	"time"
)

// sweepPause is how long what dead runs left on an engine, and nobody waits for, may stay
// there while run after run begins. To look for it takes the longer the more containers
// there are, and where there are many hosts, runs begin all the time.
const sweepPause = 10 * time.Second

// Sweeps has the runs of one process share their looks for what dead runs left on
// engines. What a run has to wait for, each looks for itself. It is safe for concurrent
// use.
type Sweeps struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[Containers]time.Time

	engines map[string]seenEngine // by address
}

// NewSweeps returns that of a process.
func NewSweeps(now func() time.Time) *Sweeps {
	return &Sweeps{now: now, last: map[Containers]time.Time{}, engines: map[string]seenEngine{}}
}

// due reports whether it is time for a look, which the caller is to take then. Without
// Sweeps it always is.
func (s *Sweeps) due(on Containers) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if since := now.Sub(s.last[on]); since >= 0 && since < sweepPause { // a clock may have been set back
		return false
	}
	s.last[on] = now
	return true
}

// failed makes the next look due at once.
func (s *Sweeps) failed(on Containers) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, on)
}
