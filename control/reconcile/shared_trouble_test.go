package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
)

// A loop that dies again and again, as one does whose machine has no disk left, keeps others only
// from what it is to have itself.
func TestALoopThatComesAndGoesKeepsNothingElseFromBeingTaken(t *testing.T) {
	inSharing(t, 40, 1, func(s *sharing) {
		odd := func(name string) bool { return (name[len(name)-1]-'0')%2 == 1 }
		s.start("a", odd)
		s.start("b", nil)
		theirs := map[string]bool{}
		for range 8 {
			c := s.start("c", nil)
			reconciletest.Wait(2 * time.Second)
			for name := range s.has("c") {
				theirs[name] = true
			}
			c.kill()
			reconciletest.Wait(time.Second)
		}
		controlled := len(s.has("a")) + len(s.has("b"))
		for name := range s.has("a") {
			delete(theirs, name)
		}
		for name := range s.has("b") {
			delete(theirs, name)
		}
		if controlled+len(theirs) != 40 || controlled < 30 {
			t.Errorf("%d counters of 40 are controlled, and %d wait that the third loop had", controlled, len(theirs))
		}
	})
}

// troubled is a log of which it cannot always be seen who has locks, and whose locks take their time
// to be given up, and to be had after who has ended.
type troubled struct {
	deploylog.Log
	blind  atomic.Bool
	unlock time.Duration
	late   atomic.Int64 // how often locks are tried that nobody has, before they are had
}

func (l *troubled) LocksHeld(ctx context.Context, prefix string) ([]string, error) {
	if l.blind.Load() {
		return nil, errors.New("the database is busy")
	}
	return l.Log.(deploylog.LockLister).LocksHeld(ctx, prefix)
}

func (l *troubled) TryLock(name string) (func(), error) {
	if l.late.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: that has ended", deploylog.ErrLocked)
	}
	unlock, err := l.Log.TryLock(name)
	if err != nil || l.unlock == 0 {
		return unlock, err
	}
	return func() { <-time.After(l.unlock); unlock() }, nil
}

func TestALoopThatCannotSeeWhoLivesGoesOn(t *testing.T) {
	inSharing(t, 40, 0, func(s *sharing) {
		log := &troubled{Log: s.open()}
		s.startOn(log, "a", nil)
		s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		before := s.shares(40)
		log.blind.Store(true)
		reconciletest.Wait(time.Minute)
		if after := s.shares(40); after["a"] != before["a"] {
			t.Errorf("shares are %v, and were %v", after, before)
		}
		said := 0
		for _, text := range s.notices {
			if strings.Contains(text, "it cannot be seen who else shares the counters") && strings.Contains(text, "the database is busy") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("it is told %d times: %q", said, s.notices)
		}
		log.blind.Store(false)
		s.tenants["b"].kill()
		reconciletest.Wait(2 * time.Second)
		if of := s.shares(40); of["a"] != 40 {
			t.Errorf("shares are %v", of)
		}
	})
}

// Who is started again waits for its name while the log does not give it yet, and takes no other.
func TestANameThatNobodyHasIsWaitedFor(t *testing.T) {
	inSharing(t, 0, 0, func(s *sharing) {
		log := &troubled{Log: s.open()}
		log.late.Store(20)
		s.startOn(log, "a", nil)
		reconciletest.Wait(10 * time.Second)
		members, err := log.LocksHeld(s.Context(), "counters are shared by ")
		if err != nil || !slices.Equal(members, []string{"counters are shared by a"}) {
			t.Errorf("%q, %v", members, err)
		}
	})
}

func TestHandingOverKeepsALoopFromNothingElse(t *testing.T) {
	inSharing(t, 300, 0, func(s *sharing) {
		a := s.startOn(&troubled{Log: s.open(), unlock: 20 * time.Millisecond}, "a", nil)
		s.start("b", nil)
		reconciletest.Wait(10 * time.Second)
		if of := s.shares(300); of["b"] < 100 {
			t.Errorf("shares are %v", of)
		}
		if a.stalled > 1500*time.Millisecond {
			t.Errorf("it did nothing else for %s", a.stalled)
		}
	})
}

// slowly is a log that takes its time each time that locks are given up, however many.
type slowly struct {
	deploylog.Log
	deploylog.LockLister
	deploylog.ManyLocker
	times atomic.Int64
}

func (l *slowly) UnlockAll(names ...string) {
	l.times.Add(1)
	<-time.After(100 * time.Millisecond)
	l.ManyLocker.UnlockAll(names...)
}

func TestManyAreHandedOverAtOnce(t *testing.T) {
	inSharing(t, 600, 0, func(s *sharing) {
		log := s.open()
		l := &slowly{Log: log, LockLister: log.(deploylog.LockLister), ManyLocker: log.(deploylog.ManyLocker)}
		s.startOn(l, "a", nil)
		s.start("b", nil)
		reconciletest.Wait(10 * time.Second)
		if of := s.shares(600); of["b"] < 200 || l.times.Load() > 10 {
			t.Errorf("shares are %v, and locks were given up %d times", of, l.times.Load())
		}
	})
}

func TestWhatIsLetGoLaterIsFoundThoughNothingHappensToIt(t *testing.T) {
	inSharing(t, 600, 0, func(s *sharing) {
		var gone atomic.Value
		gone.Store("")
		s.start("a", nil)
		b := s.start("b", func(name string) bool { return name == gone.Load() })
		reconciletest.Wait(15 * time.Second)
		for range 3 {
			for name := range s.has("b") {
				gone.Store(name)
			}
			b.again.Store(true)
			reconciletest.Wait(20 * time.Second)
			s.shares(600)
			if name := gone.Load().(string); !s.has("a")[name] {
				t.Errorf("nobody else takes %s", name)
			}
		}
	})
}

// What a loop gives up that ends it does not go on to control, while something else is under way.
func TestALoopThatEndsControlsOnlyWhatIsUnderWay(t *testing.T) {
	inSharing(t, 20, 0, func(s *sharing) {
		s.work = func(string) error { <-time.After(time.Minute); return nil }
		s.start("a", nil)
		b := s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		var busy string
		for name := range s.has("b") {
			busy = name
		}
		if _, err := s.log.Append(s.Context(), (&counter{name: busy, goal: 1}).event("counter-created", 2)); err != nil {
			t.Fatal(err)
		}
		reconciletest.Wait(time.Second)
		close(b.drain)
		reconciletest.Wait(2 * time.Second)
		if of := s.shares(20); of["a"] != 19 || !s.has("b")[busy] {
			t.Errorf("shares are %v", of)
		}
		reconciletest.Wait(2 * time.Minute)
		if of := s.shares(20); of["a"] != 20 {
			t.Errorf("shares are %v", of)
		}
		if story := s.story(busy); len(story) != 4 {
			t.Errorf("the log tells %q of %s", story, busy)
		}
	})
}
