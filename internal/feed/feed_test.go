package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/feed"
	"github.com/deployster-go/deployster/internal/must"
)

// counted is a log that counts who watches it, and what is read.
type counted struct {
	deploylog.Log
	watches, watching, reads atomic.Int64
	fails                    atomic.Bool
}

var errFails = errors.New("input/output error")

func (c *counted) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		c.watches.Add(1)
		c.watching.Add(1)
		defer c.watching.Add(-1)
		for e, err := range c.Log.Watch(ctx, f) {
			if c.fails.Load() {
				err = errFails
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	c.reads.Add(1)
	return c.Log.Read(ctx, f)
}

func encode(e deploylog.Event) ([]byte, error) {
	return []byte(fmt.Sprint(e.Seq, " ", string(e.Data))), nil
}

func newFeed(events, bytes int) (*counted, *feed.Feed) {
	log := &counted{Log: logtest.NewMemory().Open()}
	return log, feed.New(feed.Options{Log: log, Encode: encode, Events: events, Bytes: bytes})
}

func appendTo(t testing.TB, log deploylog.Log, n int, data string) {
	head := int64(0)
	for e := range log.Read(context.Background(), deploylog.Filter{Last: 1}) {
		head = e.Seq
	}
	for i := range n {
		e := deploylog.Event{Deployment: fmt.Sprint("d", head+int64(i)), Target: "run/web.yaml", Name: "run-started", Attempt: 1}
		if data != "" {
			e.Data = json.RawMessage(data)
		}
		assert.NoError(t, must.Fail(log.Append(context.Background(), e)))
	}
}

// follow takes events until there are so many, waits between two takes, and fails the test
// unless each comes once.
func follow(t testing.TB, f *feed.Feed, until int64, pause time.Duration) {
	who, after, err := f.Follow(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer who.Leave()
	for after < until {
		items, through, more, err := who.Take(t.Context(), after, deploylog.Filter{})
		if err != nil {
			t.Error(err)
			return
		}
		for _, i := range items {
			if after++; i.Event.Seq != after || i.Event.Data != nil {
				t.Errorf("event %d came after %d", i.Event.Seq, after-1)
				return
			}
		}
		assert.Equal(t, after, through, "looked at")
		if len(items) == 0 {
			<-more
		}
		if pause > 0 { // the race detector fails where many goroutines of a bubble have timers that are over at once
			<-time.After(pause)
		}
	}
}

func TestAllWhoFollowGetEachEventOnceByOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, f := newFeed(10, 0)
		appendTo(t, log, 5, "")
		var following sync.WaitGroup
		const many = 50
		for i := range many {
			pause := time.Duration(0)
			if i%10 == 0 {
				pause = time.Second // who is slow reads on in the log
			}
			following.Go(func() { follow(t, f, 505, pause) })
		}
		synctest.Wait()
		n := log.watches.Load()
		assert.True(t, n == 1, "%d follow by %d readers", many, n)
		for range 100 {
			appendTo(t, log, 5, "")
			<-time.After(10 * time.Millisecond)
		}
		following.Wait()
		synctest.Wait()
		n = log.watching.Load()
		assert.True(t, n == 0, "nobody follows, and %d readers read", n)
	})
}

func TestNoMoreIsKeptThanMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, f := newFeed(1000, 10_000)
		who, after, err := f.Follow(t.Context())
		require.NoError(t, err)
		defer who.Leave()
		large := fmt.Sprintf(`{"text":"%01000d"}`, 1)
		appendTo(t, log, 100, large)
		synctest.Wait()
		before := log.reads.Load()
		for n := int64(1); n <= 100; {
			items, through, _, err := who.Take(t.Context(), after, deploylog.Filter{})
			require.True(t, err == nil && len(items) != 0, "%d items after %d, %v", len(items), after, err)
			for _, i := range items {
				require.Equal(t, n, i.Event.Seq)
				n++
			}
			after = through
		}
		assert.True(t, log.reads.Load() != before, "100 large events were kept, where 9 may be")
		_, _, _, err = who.Take(t.Context(), 95, deploylog.Filter{})
		assert.True(t, err == nil, "%v", err)
	})
}

func TestALogThatFailsEndsWhoFollowsAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, f := newFeed(0, 0)
		who, after, err := f.Follow(t.Context())
		require.NoError(t, err)
		_, _, more, err := who.Take(t.Context(), after, deploylog.Filter{})
		require.NoError(t, err)
		log.fails.Store(true)
		appendTo(t, log, 1, "")
		<-more
		_, _, _, err = who.Take(t.Context(), after, deploylog.Filter{})
		assert.True(t, errors.Is(err, errFails), "%v", err)
		log.fails.Store(false)
		again, head, err := f.Follow(t.Context())
		require.True(t, err == nil && head == 1, "%d, %v", head, err)
		who.Leave()
		who.Leave()
		appendTo(t, log, 1, "")
		synctest.Wait()
		items, _, _, err := again.Take(t.Context(), head, deploylog.Filter{})
		assert.True(t, len(items) == 1 && err == nil, "%v, %v", items, err)
		again.Leave()
	})
}

func TestWhoComesAndGoesDisturbsNobody(t *testing.T) {
	log, f := newFeed(16, 0)
	const events = 400
	var following sync.WaitGroup
	following.Go(func() { follow(t, f, events, 0) })
	for range 8 {
		following.Go(func() {
			for range 50 {
				who, _, err := f.Follow(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				who.Leave()
			}
		})
	}
	for range events {
		appendTo(t, log, 1, "")
	}
	following.Wait()
}
