package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Many of one process who want a lock at once each get it, none beside another, and those of
// another process, which here is another handle, are not kept from it.
func TestManyTakeALockByTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() *Log {
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
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
		if holders > 1 {
			t.Error("two hold the lock")
		}
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
	if gotOther != 3 || got < 3 {
		t.Errorf("one process got it %d times, the other %d times", got, gotOther)
	}
	if left := log.turns.Waiting(); left > 0 {
		t.Errorf("%d turns are left", left)
	}
}

func TestWhoWaitsForATurnGivesUpInTime(t *testing.T) {
	log, err := Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := log.Lock(t.Context(), "pipelines")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, errClosed) {
		t.Error(err)
	}
	unlock()
}
