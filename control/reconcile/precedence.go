package reconcile

import (
	"sync"
	"time"
)

// Precedence has loops of a process leave it to commands while these come: people wait for what they
// send, and what a pass begins takes the processor from it, too. The zero Precedence is ready for
// use, and all its methods may be called at once.
type Precedence struct {
	mu     sync.Mutex
	taken  int       // commands that are carried out now
	since  time.Time // when they began to come
	behind time.Time // when the last one had been carried out
}

const (
	// commandGap is how long after a command another one is expected: of who sends one after the other.
	commandGap = 5 * time.Millisecond

	// commandsFirst is how long loops give way to commands that do not end. After that they take turns.
	commandsFirst = 20 * time.Second

	// passAnyway is how long a loop gives way to commands at most before it holds a pass between them.
	passAnyway = time.Second
)

// Take says that a command is carried out until it is given back.
func (p *Precedence) Take() (back func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.taken == 0 && now.Sub(p.behind) > commandGap {
		p.since = now
	}
	p.taken++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		p.behind = time.Now()
	})
}

// until is how long a loop gives way now, as far as that is known; zero is not at all. passed is when it
// held its last pass.
func (p *Precedence) until(now, passed time.Time) time.Time {
	if p == nil {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := now.Add(commandGap)
	if p.taken == 0 {
		next = p.behind.Add(commandGap)
	}
	if anyway := passed.Add(passAnyway); next.After(anyway) {
		next = anyway
	}
	if !next.After(now) || now.Sub(p.since) > commandsFirst {
		return time.Time{}
	}
	return next
}
