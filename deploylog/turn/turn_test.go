package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/turn"
	"github.com/deployster-go/deployster/internal/must"
)

var errClosed = errors.New("closed")

func TestWhoEndsWhileTheLockIsLeftToOthersEndsAtOnce(t *testing.T) {
	for name, want := range map[string]error{"by its context": deploylog.ErrLocked, "for the log is closed": errClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var turns turn.Turns
				closed := make(chan struct{})
				first := must.Get(turns.Wait(t.Context(), "lock", closed, errClosed))(t)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				ended := make(chan error, 1)
				go func() { _, err := turns.Wait(ctx, "lock", closed, errClosed); ended <- err }()
				<-time.After(time.Second) // so that it is left to others next
				first()
				synctest.Wait()
				start := time.Now()
				if errors.Is(want, errClosed) {
					close(closed)
				} else {
					end()
				}
				err := <-ended
				assert.True(t, errors.Is(err, want) && time.Since(start) <= 0, "it ends with %v after %s", err, time.Since(start))
				assert.Equal(t, 0, turns.Waiting(), "wait still")
				again := must.Get(turns.Wait(t.Context(), "lock", nil, nil))(t)
				again()
			})
		})
	}
}
