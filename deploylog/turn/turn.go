// Package turn has those of a process who want one lock take it by turns.
package turn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Turns has those of a process who wait for one lock take it one after the other, in the order
// in which they came. To look for it again and again is for who waits for another process:
// many who did so for each other would mostly sleep while it is free.
type Turns struct {
	mu sync.Mutex
	of map[string]*waiters
}

// waiters are those of the process who want one lock.
type waiters struct {
	taken chan struct{} // holds one while the lock is taken
	users int           // who does, and who waits; guarded by Turns.mu
	left  time.Time     // when the lock was left to other processes; of who has the turn
}

const (
	// turnsTime is how long the process has a lock in a row, by turns, and turnsRest for how
	// long it leaves it to others then, who look for it.
	turnsTime = 30 * time.Millisecond
	turnsRest = 4 * time.Millisecond
)

// Wait waits for the turn of the caller; done ends it. It fails with ErrLocked where ctx
// ends, and with the error given where closed is closed.
func (t *Turns) Wait(ctx context.Context, name string, closed <-chan struct{}, ended error) (done func(), err error) {
	mine := t.join(name)
	select {
	case mine.taken <- struct{}{}:
	case <-ctx.Done():
		t.leave(name, mine)
		return nil, late(ctx, name)
	case <-closed:
		t.leave(name, mine)
		return nil, fmt.Errorf("wait for lock %q: %w", name, ended)
	}
	done = func() {
		<-mine.taken
		t.leave(name, mine)
	}
	if time.Since(mine.left) <= turnsTime {
		return done, nil
	}
	select {
	case <-time.After(turnsRest):
		mine.left = time.Now()
		return done, nil
	case <-ctx.Done():
		done()
		return nil, late(ctx, name)
	case <-closed:
		done()
		return nil, fmt.Errorf("wait for lock %q: %w", name, ended)
	}
}

// The pauses between attempts of a caller who waits for a lock.
const (
	pauseMin = 2 * time.Millisecond
	pauseMax = 20 * time.Millisecond
)

// Lock waits for a lock that try takes, which fails with ErrLocked where it is held. Of those of
// the process who wait for it one looks for it. It fails where ctx ends, and with the error
// given where closed is closed.
func (t *Turns) Lock(ctx context.Context, name string, try func(name string) (unlock func(), err error), closed <-chan struct{}, ended error) (unlock func(), err error) {
	done, err := t.Wait(ctx, name, closed, ended)
	if err != nil {
		return nil, err
	}
	release, err := look(ctx, name, try, closed, ended)
	if err != nil {
		done()
		return nil, err
	}
	return sync.OnceFunc(func() {
		release()
		done()
	}), nil
}

// look looks for a lock until it is free.
func look(ctx context.Context, name string, try func(name string) (unlock func(), err error), closed <-chan struct{}, ended error) (unlock func(), err error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		unlock, err := try(name)
		if !errors.Is(err, deploylog.ErrLocked) {
			return unlock, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a lock: %w: %w", ctx.Err(), err)
		case <-closed:
			return nil, fmt.Errorf("wait for lock %q: %w", name, ended)
		}
	}
}

func late(ctx context.Context, name string) error {
	return fmt.Errorf("wait for a lock: %w: lock %q: %w", ctx.Err(), name, deploylog.ErrLocked)
}

// Waiting is how many want some lock, or have it.
func (t *Turns) Waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.of {
		n += w.users
	}
	return n
}

func (t *Turns) join(name string) *waiters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*waiters{}
	}
	mine := t.of[name]
	if mine == nil {
		mine = &waiters{taken: make(chan struct{}, 1), left: time.Now()}
		t.of[name] = mine
	}
	mine.users++
	return mine
}

func (t *Turns) leave(name string, mine *waiters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.of, name)
	}
}
