package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// Many of one process who want a lock at once each get it, none beside another, and those of
// another process, which here is another handle, are not kept from it.
func TestManyTakeALockByTurns(t *testing.T) {
	path := newPath(t)
	open := func() *Log {
		l, err := Open(t.Context(), path, Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	log, other := open(), open()
	var holders, got, gotOther int
	var mu sync.Mutex
	hold := func(l *Log, counts *int) {
		unlock, err := l.Lock(t.Context(), "pipelines")
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		holders++
		*counts++
		assert.True(t, holders <= 1, "two hold the lock")
		mu.Unlock()
		<-time.After(100 * time.Microsecond)
		mu.Lock()
		holders--
		mu.Unlock()
		unlock()
		unlock()
	}
	over, end := context.WithCancel(t.Context())
	var many sync.WaitGroup
	for range 16 {
		many.Go(func() {
			for over.Err() == nil {
				hold(log, &got)
			}
		})
	}
	for range 3 { // which never ends where the others leave it nothing
		hold(other, &gotOther)
	}
	end()
	many.Wait()
	assert.True(t, gotOther == 3 && got >= 3, "one process got it %d times, the other %d times", got, gotOther)
	left := log.turns.Waiting()
	assert.True(t, left <= 0, "%d turns are left", left)
}

func TestWhoWaitsForATurnGivesUpInTime(t *testing.T) {
	log, err := Open(t.Context(), newPath(t), Options{})
	require.NoError(t, err)
	unlock, err := log.Lock(t.Context(), "pipelines")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := log.Lock(ctx, "pipelines"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, deploylog.ErrLocked) {
		t.Error(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := log.Lock(context.Background(), "pipelines")
		waiting <- err
	}()
	assert.NoError(t, log.Close())
	assert.ErrorIs(t, <-waiting, errClosed)
	unlock()
}
