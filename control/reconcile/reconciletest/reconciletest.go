// Package reconciletest has the logs that the controllers are tested on.
package reconciletest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

// InMemory is a log for whoever lets hours pass: nothing has to look at a file
// twenty times a second, and nothing is synced. Both stores pass package logtest.
//
// A controller always waits for its next look, so in a bubble of synctest a test that waits
// for what does not come would have one day after the other pass. Sixty of them end it.
func InMemory(t testing.TB) logtest.Store {
	end := time.AfterFunc(60*24*time.Hour, func() { panic("the test waits for what does not come") })
	t.Cleanup(func() { end.Stop() })
	store := logtest.NewMemory()
	return func() deploylog.Log {
		log := store.Open()
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
}

// InFile is a log as people have it.
func InFile(t testing.TB) logtest.Store {
	path := filepath.Join(t.TempDir(), "log.db")
	return func() deploylog.Log {
		log, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
}

// Wait lets so much time pass in a bubble of synctest, and everything happen that
// then does.
func Wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Hooked is a log that calls Hook with each event of a name before it appends it, and
// fails with the error of that.
type Hooked struct {
	deploylog.Log
	Event string
	Hook  func(deploylog.Event) error
}

// Append implements deploylog.Log.
func (h *Hooked) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if err := h.ask(events); err != nil {
		return nil, err
	}
	return h.Log.Append(ctx, events...)
}

// AppendThen implements deploylog.ThenAppender.
func (h *Hooked) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	if err := h.ask(events); err != nil {
		return nil, err
	}
	var refused error
	written, err := appendThen(ctx, h.Log, events, func(unread []deploylog.Event) []deploylog.Event {
		more := then(unread)
		if refused = h.ask(more); refused != nil {
			return nil
		}
		return more
	})
	return written, errors.Join(err, refused)
}

// ask calls Hook with those events that it is to see.
func (h *Hooked) ask(events []deploylog.Event) error {
	for _, e := range events {
		if e.Name == h.Event {
			if err := h.Hook(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendThen appends to a log that can do so, as those of this package can.
func appendThen(ctx context.Context, log deploylog.Log, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	to, can := log.(deploylog.ThenAppender)
	if !can {
		return nil, errors.New("the log cannot append what follows from events")
	}
	return to.AppendThen(ctx, events, then)
}

// Refuse is a Hook that takes events of a target for invalid.
func Refuse(target deploylog.Target) func(deploylog.Event) error {
	return func(e deploylog.Event) error {
		if e.Target == target {
			return deploylog.ErrInvalid
		}
		return nil
	}
}

// Mortal is the log of a process that dies after so many appends: nothing that
// it does to the log comes to anything any more.
type Mortal struct {
	deploylog.Log
	Lives int
	Last  bool // its last append is in the log, and it never learns that

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

// AppendThen implements deploylog.ThenAppender. The process dies once it has decided what follows.
func (m *Mortal) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	switch dead := m.calls - m.Lives; {
	case dead <= 0:
		return appendThen(ctx, m.Log, events, then)
	case dead > 1:
		return nil, ErrDead
	case m.Last:
		_, _ = appendThen(ctx, m.Log, events, then)
		return nil, ErrDead
	}
	head := int64(0)
	for e, err := range m.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return nil, err
		}
		head = e.Seq
	}
	placed := slices.Clone(events)
	for i := range placed {
		placed[i].Seq = head + int64(i) + 1
	}
	then(placed)
	return nil, ErrDead
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

// Snapshots is a log that keeps snapshots in memory.
type Snapshots struct {
	deploylog.Log

	mu   sync.Mutex
	kept map[string]deploylog.Snapshot
	used int
}

// Snapshot implements deploylog.SnapshotLog.
func (s *Snapshots) Snapshot(_ context.Context, name string) (deploylog.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, ok := s.kept[name]
	if ok {
		s.used++
	}
	return kept, ok
}

// KeepSnapshot implements deploylog.SnapshotLog.
func (s *Snapshots) KeepSnapshot(_ context.Context, name string, kept deploylog.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]deploylog.Snapshot{}
	}
	s.kept[name] = kept
	return nil
}

// PruneSnapshots implements deploylog.SnapshotLog.
func (s *Snapshots) PruneSnapshots(time.Time, bool) (deploylog.Pruned, error) {
	return deploylog.Pruned{}, nil
}

// Used is how often somebody began with a snapshot.
func (s *Snapshots) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
