package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/turn"
)

var errClosed = errors.New("closed")

// While the lock is left to other processes nobody waits longer than they want.
func TestWhoEndsWhileTheLockIsLeftToOthersEndsAtOnce(t *testing.T) {
	for name, want := range map[string]error{"by its context": deploylog.ErrLocked, "for the log is closed": errClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var turns turn.Turns
				closed := make(chan struct{})
				first, err := turns.Wait(t.Context(), "lock", closed, errClosed)
				require.NoError(t, err)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				ended := make(chan error, 1)
				go func() {
					_, err := turns.Wait(ctx, "lock", closed, errClosed)
					ended <- err
				}()
				<-time.After(time.Second) // so that it is left to others next
				first()
				synctest.Wait()
				start := time.Now()
				if errors.Is(want, errClosed) {
					close(closed)
				} else {
					end()
				}
				if err := <-ended; !errors.Is(err, want) || time.Since(start) > 0 {
					t.Errorf("it ends with %v after %s", err, time.Since(start))
				}
				assert.Equal(t, 0, turns.Waiting(), "wait still")
				again, err := turns.Wait(t.Context(), "lock", nil, nil)
				require.NoError(t, err)
				again()
			})
		})
	}
}
