package managed

import (
	"context"
	"sync"
)

// Parts keeps the rows of a list that is read in parts: to find out what is declared takes a while. It is safe for
// concurrent use.
type Parts struct {
	mu    sync.Mutex
	event int64
	asked Question
	rows  []Row
}

// Rows are the rows of a list as of the newest event. For a part that is not the first they may be those of the
// first one.
func (p *Parts) Rows(ctx context.Context, list func(context.Context, Question) ([]*Thing, error), q Question, later bool, newest int64) ([]Row, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if later && p.event == newest && p.asked.Manifest == q.Manifest && p.asked.Orphans == q.Orphans {
		return p.rows, nil
	}
	found, err := list(ctx, q)
	if err != nil {
		return nil, err
	}
	p.event, p.asked, p.rows = newest, q, Rows(found)
	return p.rows, nil
}
