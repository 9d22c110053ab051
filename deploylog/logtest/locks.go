package logtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

func testLocks(t *testing.T, fresh func(testing.TB) Store) {
	store := fresh(t)
	l, other := store(), store()

	t.Run("one holder at a time", func(t *testing.T) {
		unlock := mustLock(t, l, "resource/db")
		for name, second := range map[string]deploylog.Log{"the same handle": l, "another handle": other} {
			if _, err := second.TryLock("resource/db"); !errors.Is(err, deploylog.ErrLocked) {
				t.Errorf("%s: error %v, want ErrLocked", name, err)
			}
		}
		unlock()
		unlock() // twice is harmless
		mustLock(t, other, "resource/db")()
	})

	t.Run("names are apart", func(t *testing.T) {
		long := strings.Repeat("x", 3000)
		for _, name := range []string{"a", "A", "a/b", "a%2Fb", "a b", "..", ".", "../a", "ü", long, long + "y", "a\x00b"} {
			defer mustLock(t, l, name)()
		}
		if _, err := l.TryLock(""); err == nil || errors.Is(err, deploylog.ErrLocked) {
			t.Errorf("a lock without a name: %v", err)
		}
	})

	t.Run("a waiter gets it", func(t *testing.T) {
		unlock := mustLock(t, l, "wait")
		got := make(chan error, 1)
		go func() {
			unlock, err := other.Lock(t.Context(), "wait")
			if err == nil {
				unlock()
			}
			got <- err
		}()
		unlock()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})

	t.Run("a waiter gives up", func(t *testing.T) {
		defer mustLock(t, l, "busy")()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := other.Lock(ctx, "busy"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})

	t.Run("asking takes nothing", func(t *testing.T) { testAsking(t, l, other) })

	t.Run("those that are held are listed", func(t *testing.T) { testListing(t, l, other) })

	t.Run("they exclude", func(t *testing.T) {
		var inside, total atomic.Int64
		var wg sync.WaitGroup
		for i := range 6 {
			handle := []deploylog.Log{l, other}[i%2]
			wg.Go(func() {
				for range 5 {
					unlock, err := handle.Lock(t.Context(), "counter")
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d are inside", n)
					}
					total.Add(1)
					inside.Add(-1)
					unlock()
				}
			})
		}
		wg.Wait()
		if n := total.Load(); n != 30 {
			t.Errorf("%d turns, want 30", n)
		}
	})
}

// testListing lists locks, where the store can do that.
func testListing(t *testing.T, l, other deploylog.Log) {
	listing, can := other.(deploylog.LockLister)
	if !can {
		return
	}
	holds := func(want ...string) {
		t.Helper()
		if held, err := listing.LocksHeld(t.Context(), "listed/"); !slices.Equal(held, want) || err != nil {
			t.Errorf("held are %q, error %v, want %q", held, err, want)
		}
	}
	for _, name := range []string{"listed", "Listed/c", "not listed/d"} {
		defer mustLock(t, l, name)()
	}
	holds()
	const odd = "listed/a\n\"ü%_\\"
	ours, theirs := mustLock(t, other, "listed/b"), mustLock(t, l, odd)
	holds(odd, "listed/b")
	theirs()
	holds("listed/b")
	ours()
	holds()
}

// testAsking asks whether a lock is held, which keeps nobody from it.
func testAsking(t *testing.T, l, other deploylog.Log) {
	asks := func(want bool) {
		t.Helper()
		for name, log := range map[string]deploylog.Log{"the same handle": l, "another handle": other} {
			if held, err := log.Locked("asked"); held != want || err != nil {
				t.Errorf("%s: it is held: %v, error %v", name, held, err)
			}
		}
	}
	asks(false)
	unlock := mustLock(t, l, "asked")
	asks(true)
	unlock()
	asks(false)

	var wg sync.WaitGroup
	var over atomic.Bool
	for _, log := range []deploylog.Log{l, other, other} {
		wg.Go(func() {
			for !over.Load() {
				if _, err := log.Locked("asked"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 300 {
		unlock, err := l.TryLock("asked")
		if err != nil {
			t.Errorf("asking kept somebody from it: %v", err)
			break
		}
		unlock()
	}
	over.Store(true)
	wg.Wait()
}

func mustLock(t *testing.T, l deploylog.Log, name string) func() {
	t.Helper()
	unlock, err := l.TryLock(name)
	if err != nil {
		t.Fatalf("lock %.20q: %v", name, err)
	}
	return unlock
}
