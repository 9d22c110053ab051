package interrupt

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Suspends has the process let go of what others wait for before Ctrl-Z stops it, and take it again
// when it goes on. What it has begun outside of it goes on meanwhile. The zero value is usable.
type Suspends struct {
	once   sync.Once
	mu     sync.Mutex
	pauses []func() (resume func())
}

// Add adds what lets go of something, and returns what takes it again. It lasts as long as the process.
func (s *Suspends) Add(pause func() (resume func())) {
	s.mu.Lock()
	s.pauses = append(s.pauses, pause)
	s.mu.Unlock()
	s.once.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTSTP)
		go func() {
			for range signals {
				s.stop()
			}
		}()
	})
}

func (s *Suspends) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pause := range s.pauses {
		defer pause()()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // which returns when the process goes on
}
