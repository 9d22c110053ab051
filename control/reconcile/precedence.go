package reconcile

import (
	"sync"
	"time"
)

// Precedence lets commands go before the loops of a process: while commands are carried out, a loop
// holds few passes, since the work that these begin takes the processor from the commands. The zero
// Precedence is ready for use and safe for concurrent use.
type Precedence struct {
	mu     sync.Mutex
	taken  int       // commands that are carried out now
	since  time.Time // when they began to come
	behind time.Time // when the last one had been carried out
}

const (
	// commandGap is how long after a command the next one of the same sender is expected.
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

// until returns the time until which a loop gives way at least; zero if it need not. passed is when its
// last pass began.
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
