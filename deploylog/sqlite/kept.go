package sqlite

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// holderOf says who has the turn to write into a log, as far as the kernel tells: by the anchor, or, of
// programs that know of none, by the lock of SQLite that is for writing.
func holderOf(path string) string {
	const walWriteLock = 120 // byte of the file of shared memory, in the format of SQLite
	if h, ok := kernelHolder(path+anchorSuffix, -1); ok {
		return h.String()
	}
	if h, ok := kernelHolder(path+"-shm", walWriteLock); ok {
		return h.String()
	}
	return "a process that cannot be seen from here, in another container or on another machine"
}

// KeptBy implements deploylog.TurnLog.
func (l *Log) KeptBy() (by string) {
	l.heldBy.Range(func(_, held any) bool {
		by = fmt.Sprint(held)
		return false
	})
	if by == "" {
		by = l.writer.kept.By()
	}
	return by
}

// pauses have the process hold no lock by which others wait while it is stopped.
type pauses struct {
	mu     sync.Mutex
	paused chan struct{} // closed when it goes on; nil is that it does
	held   int           // locks that are waited for
	free   chan struct{} // closed when none is; nil is that nobody waits for that
}

// wait waits until the process goes on.
func (p *pauses) wait(ctx context.Context, closed <-chan struct{}) error {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused == nil {
		return nil
	}
	select {
	case <-paused:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a lock: %w", ctx.Err())
	case <-closed:
		return errClosed
	}
}

// hold counts a lock until it is unlocked.
func (p *pauses) hold(unlock func()) func() {
	p.mu.Lock()
	p.held++
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held--; p.held == 0 && p.free != nil {
			close(p.free)
			p.free = nil
		}
	})
}

// unlockWait is how long a process that is to stop is given to let go of what others wait for.
const unlockWait = time.Second

// Pause has the process write nothing, and hold none of the locks that all wait for, until resume is
// called: for one that is about to be stopped. What is to be recorded waits. Where it holds such a
// lock for longer than a second it is paused all the same.
func (l *Log) Pause() (resume func()) {
	p := &l.pauses
	p.mu.Lock()
	if p.paused != nil { // it is paused already
		p.mu.Unlock()
		return func() {}
	}
	paused := make(chan struct{})
	p.paused = paused
	free := make(chan struct{})
	if p.held == 0 {
		close(free)
	} else {
		p.free = free
	}
	p.mu.Unlock()
	select {
	case <-free:
	case <-time.After(unlockWait):
	}
	gated := false
	for until := time.Now().Add(unlockWait); !gated && time.Now().Before(until); { // else it waits for another process
		if gated = l.writer.gate.TryLock(); !gated {
			<-time.After(time.Millisecond)
		}
	}
	return func() {
		if gated {
			l.writer.gate.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paused, p.free = nil, nil
		close(paused)
	}
}
