package reconciletest

import (
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Mortal is the log of a process that dies after so many appends: nothing that
// it does to the log comes to anything any more.
type Mortal struct {
	deploylog.Log
	Lives int
	Last  bool // its last append is in the log, which it does not hear

	mu    sync.Mutex
	calls int
}

// ErrDead is what such a log answers then.
var ErrDead = errors.New("the process is dead")

// Append implements deploylog.Log.
func (m *Mortal) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.calls > m.Lives {
		if m.Last && m.calls == m.Lives+1 {
			_, _ = m.Log.Append(ctx, events...)
		}
		return nil, ErrDead
	}
	return m.Log.Append(ctx, events...)
}

// Refusing is a log that takes an event of a target for invalid.
type Refusing struct {
	deploylog.Log
	Target deploylog.Target
	Event  string
}

// Append implements deploylog.Log.
func (r *Refusing) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	for _, e := range events {
		if e.Target == r.Target && e.Name == r.Event {
			return nil, deploylog.ErrInvalid
		}
	}
	return r.Log.Append(ctx, events...)
}

// Calls is how often something was appended, or was to be.
func (m *Mortal) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Die ends the process now.
func (m *Mortal) Die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Lives = m.calls
}

// Wait lets so much time pass in a bubble of synctest, and everything happen that
// then does.
func Wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Rival is a log in which somebody, who does not care for locks, records a
// marker right before the scheduler does.
type Rival struct {
	deploylog.Log
	Marker string
	Foul   func(deploylog.Event) error
}

// Append implements deploylog.Log.
func (r *Rival) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if events[0].Name == r.Marker {
		if err := r.Foul(events[0]); err != nil {
			return nil, err
		}
	}
	return r.Log.Append(ctx, events...)
}
