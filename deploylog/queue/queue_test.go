package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/queue"
)

// What the writer gives back waits before all else, unless its caller waits no longer.
func TestWhatIsReturnedWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(time.Now, nil)
		outcomes := map[string]chan error{}
		appends := func(name string, within time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			outcomes[name] = make(chan error, 1)
			go func() {
				defer cancel()
				_, err := q.Append(ctx, []deploylog.Event{{Deployment: name, Target: "run/a", Name: "run-started", Attempt: 1}}, nil)
				outcomes[name] <- err
			}()
			synctest.Wait()
		}
		appends("impatient", time.Second)
		appends("patient", time.Hour)
		taken := q.Take()
		require.Len(t, taken, 2)
		<-time.After(time.Minute)
		assert.Empty(t, outcomes["impatient"], "it ended while the writer has it")
		appends("late", time.Hour)
		q.Return(taken)
		assert.ErrorIs(t, <-outcomes["impatient"], context.DeadlineExceeded)
		var order []string
		for _, r := range q.Take() {
			order = append(order, r.Events[0].Deployment)
			r.End(nil)
		}
		assert.Equal(t, []string{"patient", "late"}, order)
		assert.NoError(t, <-outcomes["patient"])
		assert.NoError(t, <-outcomes["late"])
	})
}
