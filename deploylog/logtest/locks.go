package logtest

import (
	"context"
	"errors"
	"fmt"
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

	t.Run("many are taken at once", func(t *testing.T) { testMany(t, l, other) })

	t.Run("many are given up at once", func(t *testing.T) { testUnlockMany(t, l, other) })
	t.Run("many and single ones exclude", func(t *testing.T) { testManyAtOnce(t, l, other) })

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

// testMany tries many locks, where the store can do that: those that are free are taken, and how it
// is told of the others says which they are.
func testMany(t *testing.T, l, other deploylog.Log) {
	taking, can := l.(deploylog.ManyLocker)
	if !can {
		return
	}
	if all := taking.TryLocks(); len(all) != 0 {
		t.Errorf("of no locks %d were tried", len(all))
	}
	defer mustLock(t, other, "many/theirs")()
	defer mustLock(t, l, "many/ours")()
	names := []string{"many/ours", "many/a", "", "many/theirs", "many/b\n\"ü", "many/a"}
	for round := range 2 { // what was unlocked can be taken again
		all := taking.TryLocks(names...)
		for i, want := range []bool{false, true, false, false, true, false} {
			switch tried := all[i]; {
			case want && (tried.Err != nil || tried.Unlock == nil):
				t.Errorf("round %d: %q is not taken: %v", round, names[i], tried.Err)
			case !want && (tried.Err == nil || tried.Unlock != nil || errors.Is(tried.Err, deploylog.ErrLocked) == (names[i] == "")):
				t.Errorf("round %d: %q: error %v", round, names[i], tried.Err)
			}
		}
		for _, name := range []string{"many/a", "many/b\n\"ü"} {
			if _, err := other.TryLock(name); !errors.Is(err, deploylog.ErrLocked) {
				t.Errorf("%q is taken, and the error is %v", name, err)
			}
		}
		for _, tried := range all {
			if tried.Unlock != nil {
				tried.Unlock()
				tried.Unlock() // twice is harmless
			}
		}
	}
	mustLock(t, other, "many/a")()
}

// testUnlockMany gives many locks up at once, where the store can do that: those that are named and
// that it has, and nothing that others have, or that was taken again since.
func testUnlockMany(t *testing.T, l, other deploylog.Log) {
	taking, can := l.(deploylog.ManyLocker)
	if !can {
		return
	}
	defer mustLock(t, other, "up/theirs")()
	tried := taking.TryLocks("up/a", "up/b\n\"ü", "up/kept")
	taking.UnlockAll("up/a", "up/b\n\"ü", "up/a", "up/theirs", "up/none", "")
	taking.UnlockAll()
	for name, want := range map[string]bool{"up/a": false, "up/b\n\"ü": false, "up/kept": true, "up/theirs": true} {
		if held, err := other.Locked(name); held != want || err != nil {
			t.Errorf("%q is held: %v, want %v; %v", name, held, want, err)
		}
	}
	again := taking.TryLocks("up/a")
	tried[0].Unlock() // of what was given up already
	if held, err := other.Locked("up/a"); !held || err != nil || again[0].Err != nil {
		t.Errorf("what was taken again is held: %v, %v, %v", held, err, again[0].Err)
	}
	again[0].Unlock()
	theirs := mustLock(t, other, "up/a")
	taking.UnlockAll("up/a", "up/kept")
	tried[2].Unlock()
	for name, want := range map[string]bool{"up/a": true, "up/kept": false} {
		if held, err := other.Locked(name); held != want || err != nil {
			t.Errorf("in the end %q is held: %v, want %v; %v", name, held, want, err)
		}
	}
	theirs()
}

// testManyAtOnce has several try the same many locks, in different orders: each has one holder.
func testManyAtOnce(t *testing.T, logs ...deploylog.Log) {
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("at once/%d", i)
	}
	var holders [60]atomic.Int64
	var wg sync.WaitGroup
	for n := range 4 {
		taking, can := logs[n%len(logs)].(deploylog.ManyLocker)
		if !can {
			return
		}
		order := slices.Clone(names)
		if n < 2 {
			slices.Reverse(order)
		}
		wg.Go(func() {
			for range 8 {
				all := taking.TryLocks(order...)
				for i, tried := range all {
					if tried.Err == nil {
						holders[slices.Index(names, order[i])].Add(1)
					} else if !errors.Is(tried.Err, deploylog.ErrLocked) {
						t.Error(tried.Err)
						return
					}
				}
				for i := range holders {
					if n := holders[i].Load(); n > 1 {
						t.Errorf("%d have %q", n, names[i])
					}
				}
				var mine []string
				for i, tried := range all {
					if tried.Err == nil {
						holders[slices.Index(names, order[i])].Add(-1)
						mine = append(mine, order[i])
					}
				}
				taking.UnlockAll(mine...)
			}
		})
	}
	wg.Wait()
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
