package unwatched_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/unwatched"
)

// absence is that a process was stopped at a time for as long. While it is, its timers do not fire.
type absence struct{ at, lasts time.Duration }

// clock is one that goes on while the process is stopped.
type clock struct {
	mu     sync.Mutex
	begin  time.Time
	absent []absence
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	ran := now.Sub(c.begin)
	for _, a := range c.absent {
		if ran > a.at {
			now = now.Add(a.lasts)
		}
	}
	return now
}

func TestATimerDoesNotCountTimeInWhichTheProcessWasStopped(t *testing.T) {
	const s, h = time.Second, time.Hour
	for name, test := range map[string]struct {
		d      time.Duration
		absent []absence
		want   time.Duration // in which the process ran
	}{
		"short":                         {20 * time.Millisecond, nil, 20 * time.Millisecond},
		"long":                          {h, nil, h},
		"no whole parts":                {25 * s, nil, 25 * s},
		"stopped in the middle":         {h, []absence{{95 * s, 60 * h}}, h + 10*s},
		"stopped in the last part":      {25 * s, []absence{{23 * s, 60 * h}}, 30 * s},
		"stopped all the time":          {20 * time.Millisecond, []absence{{time.Millisecond, 60 * h}}, 40 * time.Millisecond},
		"stopped twice":                 {h, []absence{{95 * s, 60 * h}, {300 * s, h}}, h + 20*s},
		"stopped for less than is seen": {h, []absence{{95 * s, 4 * s}}, h - 4*s},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &clock{begin: time.Now(), absent: test.absent}
			fired := make(chan time.Duration, 1)
			unwatched.AfterFuncBy(test.d, func() { fired <- time.Since(c.begin) }, c.now)
			got := <-fired
			assert.InDelta(t, test.want.Seconds(), got.Seconds(), 0.001, name)
		})
	}
}

func TestATimerThatIsStoppedNeverFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := unwatched.AfterFunc(25*time.Second, func() { t.Error("it fires") })
		<-time.After(21 * time.Second)
		stop()
		<-time.After(time.Hour)
	})
}

func TestAContextEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := unwatched.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		<-ctx.Done()
		assert.Equal(t, 25*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
	})
}
