package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Only one process writes at a time. One that was stopped in the midst of that, by Ctrl-Z, a
// debugger or a machine that froze, keeps the turn: the others say who has it, and wait for as long
// as their callers do.

const (
	silentWait = 1500 * time.Millisecond // how long is waited for others before anybody is told
	repeatWait = 30 * time.Second        // and until it is told again
)

// kept is that another process has the turn to write.
type kept struct {
	path   string
	logger *slog.Logger
	by     atomic.Pointer[string] // nil while nobody is waited for, or not for long
}

// during does something that waits for the turn, and tells who has it when that takes long.
func (k *kept) during(wait func() error) error {
	began := time.Now()
	var mu sync.Mutex
	over := false
	var timer *time.Timer
	tell := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		by := k.holder()
		k.by.Store(&by)
		k.logger.Warn("the turn to write is kept by "+by+": what is to be recorded waits for it", "path", k.path, "for", time.Since(began).Truncate(time.Second).String())
		timer.Reset(repeatWait)
	}
	mu.Lock()
	timer = time.AfterFunc(silentWait, tell)
	mu.Unlock()
	err := wait()
	mu.Lock()
	defer mu.Unlock()
	over = true
	timer.Stop()
	if k.by.Swap(nil) != nil && err == nil {
		k.logger.Warn("the turn to write came", "path", k.path, "after", time.Since(began).Truncate(time.Second).String())
	}
	return err
}

// holder says who has the turn, as far as the kernel tells: by the anchor, or, of programs that know
// of none, by the lock of SQLite that is for writing.
func (k *kept) holder() string {
	const walWriteLock = 120 // byte of the file of shared memory, in the format of SQLite
	if h, ok := kernelHolder(k.path+anchorSuffix, -1); ok {
		return h.String()
	}
	if h, ok := kernelHolder(k.path+"-shm", walWriteLock); ok {
		return h.String()
	}
	return "a process that cannot be seen from here, in another container or on another machine"
}

// explain adds who has the turn to the error of who did not wait for longer.
func (k *kept) explain(err error) error {
	by := k.by.Load()
	if by == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return &deploylog.KeptError{By: *by, Err: err}
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
