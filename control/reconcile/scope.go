package reconcile

import (
	"maps"
	"slices"
	"sync"
)

// Scope is what a loop is to control. It is safe for concurrent use.
type Scope struct {
	all     bool
	given   []string
	mu      sync.Mutex
	names   map[string]int // how often each was asked for
	changed chan struct{}
}

// All is every entity that there is, and that there will be.
func All() *Scope { return &Scope{all: true} }

// Only is the entities that are named, and those that are added.
func Only(names ...string) *Scope {
	s := &Scope{given: names, names: map[string]int{}, changed: make(chan struct{}, 1)}
	for _, name := range names {
		s.names[name]++
	}
	return s
}

// Of is the entities that are named, or all when none is.
func Of(names ...string) *Scope {
	if len(names) == 0 {
		return All()
	}
	return Only(names...)
}

// Add has an entity controlled until remove is called.
func (s *Scope) Add(name string) (remove func()) {
	s.count(name, 1)
	return sync.OnceFunc(func() { s.count(name, -1) })
}

func (s *Scope) count(name string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.names[name]
	if s.names[name] += by; s.names[name] == 0 {
		delete(s.names, name)
	}
	if before == 0 || before+by == 0 {
		select {
		case s.changed <- struct{}{}:
		default: // the loop has not seen the last change yet
		}
	}
}

// has reports whether an entity is to be controlled.
func (s *Scope) has(name string) bool {
	if s.all {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name] > 0
}

// named returns the entities of a scope that is not all.
func (s *Scope) named() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names))
}
