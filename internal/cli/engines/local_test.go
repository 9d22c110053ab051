package engines

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
)

// The hosts of one machine share its engine. One that cannot be opened is tried again
// for the next host, and nobody waits for that beyond its own time.
func TestHostsOfThisMachineShareItsEngine(t *testing.T) {
	opened, away := 0, errors.New("away")
	l := newLocal(func(context.Context) (*work.Connection, error) {
		if opened++; opened == 1 {
			return nil, away
		}
		return &work.Connection{}, nil
	})
	if _, err := l.connect(t.Context()); !errors.Is(err, away) {
		t.Errorf("error %v, want %v", err, away)
	}
	first, err := l.connect(t.Context())
	require.NoError(t, err)
	if second, err := l.connect(t.Context()); err != nil || second != first || opened != 2 {
		t.Errorf("another host has %p (%v), the first %p; opened %d times", second, err, first, opened)
	}
	busy := newLocal(nil)
	busy.turn <- struct{}{}
	late, cancel := context.WithCancelCause(t.Context())
	cancel(away)
	if _, err := busy.connect(late); !errors.Is(err, away) {
		t.Errorf("error %v, want %v", err, away)
	}
}
