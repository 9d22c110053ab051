package docker

import (
	"context"
	"slices"
	"sync"
)

// The bounds of logins that are under way at one machine. Servers drop some of more than ten
// at once by default (MaxStartups), and may be set to fewer.
const (
	loginsAtOnce = 4
	loginsToMore = 8 // logins in a row that are not dropped, until one more is let in
)

// gate lets logins in, first come, first served. It lets in fewer at once if the
// server drops some.
type gate struct {
	limit   int // of most
	mu      sync.Mutex
	most    int // at once
	taken   int
	good    int // logins since the last that was dropped
	waiting []chan struct{}
}

func newGate(most int) *gate { return &gate{limit: most, most: most} }

// enter waits for a turn. A caller that gets one must leave.
func (g *gate) enter(ctx context.Context) error {
	g.mu.Lock()
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.admit()
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, turn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // it came meanwhile
		g.taken--
		g.admit()
	}
	return context.Cause(ctx)
}

// leave ends a login, which the server may have dropped.
func (g *gate) leave(dropped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken--
	if dropped {
		g.most, g.good = max(1, g.most-1), 0
	} else if g.good++; g.good >= loginsToMore {
		g.most, g.good = min(g.limit, g.most+1), 0
	}
	g.admit()
}

func (g *gate) admit() {
	for len(g.waiting) > 0 && g.taken < g.most {
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
		g.taken++
	}
}
