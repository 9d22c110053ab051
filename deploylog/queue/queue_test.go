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

// Events are in the order in which they are appended, with the time of the clock, also if that is set by hours.
func TestAClockThatIsSetChangesNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		q := queue.New(func() time.Time { return now }, nil)
		ids := map[string]bool{}
		for i, step := range []time.Duration{0, 5 * time.Hour, -10 * time.Hour, time.Minute, -20 * 24 * time.Hour, 0, 40 * 24 * time.Hour} {
			now = now.Add(step)
			done := make(chan error, 1)
			go func() {
				_, err := q.Append(t.Context(), []deploylog.Event{{Deployment: "a", Target: "run/a", Name: "run-started", Attempt: i + 1}, {Deployment: "a", Target: "run/b", Name: "run-started", Attempt: i + 1}}, nil)
				done <- err
			}()
			synctest.Wait()
			taken := q.Take()
			require.Len(t, taken, 1)
			for _, e := range taken[0].Events {
				assert.True(t, e.CreatedAt.Equal(now) && e.Attempt == i+1, "%+v", e)
				assert.False(t, ids[e.ID], "event %s is there twice", e.ID)
				ids[e.ID] = true
			}
			taken[0].End(nil)
			require.NoError(t, <-done)
		}
	})
}
