package unwatched_test

import (
	"context"
	"errors"
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

func TestAContextEndsAsAnotherOneWithATimeoutDoes(t *testing.T) {
	const d = 25 * time.Second
	why := errors.New("why")
	for name, test := range map[string]func(parent context.CancelCauseFunc, cancel context.CancelFunc){
		"by its time":   func(context.CancelCauseFunc, context.CancelFunc) {},
		"by its caller": func(_ context.CancelCauseFunc, cancel context.CancelFunc) { cancel() },
		"by its parent": func(parent context.CancelCauseFunc, _ context.CancelFunc) { parent(why) },
		"by its parent and all": func(parent context.CancelCauseFunc, cancel context.CancelFunc) {
			parent(why)
			<-time.After(time.Second)
			cancel()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ends := func(with func(context.Context, time.Duration) (context.Context, context.CancelFunc)) []any {
				began := time.Now()
				parent, end := context.WithCancelCause(t.Context())
				defer end(nil)
				ctx, cancel := with(parent, d)
				defer cancel()
				child, done := context.WithCancel(ctx)
				defer done()
				time.AfterFunc(time.Second, func() { test(end, cancel) })
				require.NoError(t, errors.Join(ctx.Err(), child.Err()))
				<-child.Done()
				took := time.Since(began)
				<-time.After(time.Minute)
				again, stop := with(ctx, time.Hour)
				defer stop()
				return []any{took, ctx.Err(), child.Err(), context.Cause(ctx), context.Cause(child), again.Err(), context.Cause(again)}
			}
			assert.Equal(t, ends(context.WithTimeout), ends(unwatched.WithTimeout), name)
		})
	}
}
