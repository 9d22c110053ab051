// Package slots bounds how many are at work at once for each of many keys, such as the servers
// that they work with: who waits for a slow one keeps nobody from the others. Those of one key
// get their turn in the order in which they came.
package slots

import (
	"context"
	"sync"
)

// Slots are so many for each key. They are safe for concurrent use.
type Slots struct {
	most int

	mu    sync.Mutex
	byKey map[string]*line
}

// line is who is at work for a key, and who waits for that.
type line struct {
	taken chan struct{}
	users int // that are in it
}

// New returns so many slots for each key.
func New(most int) *Slots { return &Slots{most: most, byKey: map[string]*line{}} }

// Take waits for a slot of a key until ctx is done. Whoever has it gives it back once.
func (s *Slots) Take(ctx context.Context, key string) (giveBack func(), err error) {
	l := s.enter(key)
	select {
	case l.taken <- struct{}{}:
	case <-ctx.Done():
		s.leave(key, l)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() {
		<-l.taken
		s.leave(key, l)
	}), nil
}

func (s *Slots) enter(key string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		l = &line{taken: make(chan struct{}, s.most)}
		s.byKey[key] = l
	}
	l.users++
	return l
}

func (s *Slots) leave(key string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.byKey, key)
	}
}

// Keys is how many keys there are with somebody at work or in line.
func (s *Slots) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}
