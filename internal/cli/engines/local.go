package engines

import (
	"context"

	"github.com/deployster-go/deployster/control/work"
)

// local is the engine of this machine for all hosts that are on it. The first of
// them opens it; while that fails, each tries again. It may be closed by each.
type local struct {
	open  func(context.Context) (*work.Connection, error)
	turn  chan struct{} // taken while it is opened
	ready *work.Connection
}

func newLocal(open func(context.Context) (*work.Connection, error)) *local {
	return &local{open: open, turn: make(chan struct{}, 1)}
}

// connect waits for its turn no longer than for the engine itself.
func (l *local) connect(ctx context.Context) (*work.Connection, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.ready != nil {
		return l.ready, nil
	}
	var err error
	l.ready, err = l.open(ctx)
	return l.ready, err
}
