// Package places bounds how many requests are received at once that send much.
package places

import (
	"context"
	"sync"
)

// Places are what requests take that send much, for as long as that comes: so many as fit at once.
// One identity has at most half of them, so that whoever sends slowly keeps nobody else away.
type Places struct {
	mu   sync.Mutex
	free int
	each int
	by   map[string]int // identities that have some
	left chan struct{}  // closed when somebody leaves one
}

// New returns so many places.
func New(all int) *Places {
	return &Places{free: all, each: max(all/2, 1), by: map[string]int{}, left: make(chan struct{})}
}

// Take waits for a place, until ctx ends. It is to be left.
func (p *Places) Take(ctx context.Context, who string) (leave func(), ok bool) {
	for {
		left, ok := p.try(who)
		if ok {
			return func() { p.leave(who) }, true
		}
		select {
		case <-left:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// try takes a place, or returns what is closed when it may be tried again.
func (p *Places) try(who string) (left <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || p.by[who] >= p.each {
		return p.left, false
	}
	p.free--
	p.by[who]++
	return nil, true
}

func (p *Places) leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.by[who]--; p.by[who] == 0 {
		delete(p.by, who)
	}
	close(p.left)
	p.left = make(chan struct{})
}
