package clusters

import "sync"

// board has the stages that one goroutine looks at, and which of them something was said of. It is
// safe for concurrent use.
type board struct {
	news chan struct{} // something was said; has room for one

	mu     sync.Mutex
	stages map[*stage]bool // whether something was said of it that nobody has looked at
	said   []*stage        // these
	closed bool
}

func newBoard() *board {
	return &board{news: make(chan struct{}, 1), stages: map[*stage]bool{}}
}

// add has a stage looked at.
func (b *board) add(s *stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		s.leaves()
		return
	}
	b.stages[s] = false
	b.note(s) // its objects may have said something before
}

// changed notes that something was said of a stage.
func (b *board) changed(s *stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(s)
}

func (b *board) note(s *stage) {
	if noted, has := b.stages[s]; !has || noted {
		return
	}
	b.stages[s] = true
	b.said = append(b.said, s)
	signal(b.news)
}

// take returns the stages of which something was said.
func (b *board) take() (all []*stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.said = b.said, nil
	for _, s := range all {
		if _, has := b.stages[s]; has {
			b.stages[s] = false
		}
	}
	return all
}

// has reports whether a stage is to be looked at.
func (b *board) has(s *stage) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, has := b.stages[s]
	return has
}

// remove ends the watches of a stage.
func (b *board) remove(s *stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, has := b.stages[s]; has {
		delete(b.stages, s)
		s.leaves()
	}
}

// close ends the watches of all stages, for good.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for s := range b.stages {
		s.leaves()
	}
	clear(b.stages)
}

func (s *stage) leaves() {
	for _, leave := range s.leave {
		leave()
	}
}
