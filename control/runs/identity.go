package runs

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Moving gives things of a manifest other names, and returns the past of resources by these while the log does
// not say yet that they have them.
func (h *History) Moving(ctx context.Context, of Owner, moves map[string]string, past runner.PastFunc) (runner.PastFunc, error) {
	if err := h.Move(ctx, of, moves); err != nil {
		return nil, err
	}
	log, seq := h.log, h.seq
	from := make(map[string]string, len(h.moves))
	for before, now := range h.moves { // also those of a question before
		from[now] = before
	}
	return func(ctx context.Context, resource string, keeps bool) (runner.Past, error) {
		before, moving := from[resource]
		if !moving {
			return past(ctx, resource, keeps)
		}
		for e, err := range log.Read(ctx, deploylog.Filter{Target: resourceTarget(resource), Name: EventResourceMoved, After: seq, Last: 1}) {
			if err != nil {
				return runner.Past{}, fmt.Errorf("reading whether %s has its name by now: %w", resource, err)
			}
			if e.Seq > 0 {
				before = resource
			}
		}
		return past(ctx, before, keeps)
	}, nil
}

// ID identifies a resource in all the world, by its name with its place.
func (m Memory) ID(ctx context.Context, placed string) (string, error) {
	k, err := m.known(ctx, placed, "")
	return invoke.ResourceID(m.Log.ID(), k.identity), err
}
