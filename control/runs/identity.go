package runs

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
)

// identities are what identifies resources within a log, whichever names they have: the name
// that each had first. Whoever gets a name that another has left gets an identity of its own, as
// what the other one made is marked with the name. It is safe for concurrent use.
type identities struct {
	log deploylog.Log

	mu    sync.Mutex
	seq   int64 // of the last event that is in them
	names map[string]string
}

func newIdentities(log deploylog.Log) *identities {
	return &identities{log: log, names: map[string]string{}}
}

// of is the identity of a resource, by its name with its place.
func (i *identities) of(ctx context.Context, placed string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for e, err := range i.log.Read(ctx, deploylog.Filter{Name: EventResourceMoved, After: i.seq}) {
		if err != nil {
			return "", fmt.Errorf("reading which names %s had: %w", placed, err)
		}
		_, to, _ := parts(e.Target)
		from := DataOf(e).From
		i.seq, i.names[to] = e.Seq, i.known(from)
		i.names[from] = from + "#" + strconv.FormatInt(e.Seq, 10)
	}
	return i.known(placed), nil
}

func (i *identities) known(placed string) string {
	if identity, moved := i.names[placed]; moved {
		return identity
	}
	return placed
}

// Moving gives things other names, and returns the past of resources by these while the log does
// not say yet that they have them.
func (h *History) Moving(log deploylog.Log, moves map[string]string, past runner.PastFunc) runner.PastFunc {
	h.Move(moves)
	from := make(map[string]string, len(moves))
	for before, now := range moves {
		from[now] = before
	}
	return func(ctx context.Context, resource string, keeps bool) (runner.Past, error) {
		before, moving := from[resource]
		if !moving {
			return past(ctx, resource, keeps)
		}
		for e, err := range log.Read(ctx, deploylog.Filter{Target: resourceTarget(resource), Name: EventResourceMoved, After: h.seq, Last: 1}) {
			if err != nil {
				return runner.Past{}, fmt.Errorf("reading whether %s has its name by now: %w", resource, err)
			}
			if e.Seq > 0 {
				before = resource
			}
		}
		return past(ctx, before, keeps)
	}
}

// ID identifies a resource in all the world, by its name with its place.
func (m Memory) ID(ctx context.Context, placed string) (string, error) {
	identity, err := m.identity(ctx, placed)
	return invoke.ResourceID(m.Log.ID(), identity), err
}

func (m Memory) identity(ctx context.Context, placed string) (string, error) {
	known := m.identities
	if known == nil {
		known = newIdentities(m.Log)
	}
	return known.of(ctx, placed)
}
