package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
)

// A loop gives way to commands as long as they come one after the other, but not for ever.
func TestALoopGivesWayToCommands(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		s.work = func(string) error { return nil }
		var commands reconcile.Precedence
		back := commands.Take()
		ended := make(chan error, 1)
		go func() {
			ended <- s.untilIdle(reconcile.Options{Log: s.log, Commands: &commands})
		}()
		begun := func() int {
			f := folded(s.log)
			require.NoError(s, f.Follow(s.Context(), 0))
			return f.States["a"].begun
		}
		<-time.After(500 * time.Millisecond)
		assert.LessOrEqual(s, begun(), 1, "it has not waited")
		<-time.After(2 * time.Second)
		assert.GreaterOrEqual(s, begun(), 1, "it has waited for longer than it is to")
		back()
		<-time.After(100 * time.Millisecond)
		assert.Equal(s, 3, begun(), "nothing is sent any more")
		require.NoError(s, <-ended)
	})
}
