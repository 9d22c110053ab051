package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// sharing are loops that share all counters.
type sharing struct {
	*site
	sync.Mutex
	tenants map[string]*possessive
	lost    map[string]int // how often each counter was given up
}

// possessive is a tenant that knows what its loop controls.
type possessive struct {
	tenant
	all     *sharing
	name    string
	has     map[string]bool
	foreign func(counter string) bool // what it declines; may be nil
	again   atomic.Bool               // what it declines is another
	loop    *reconcile.Loop[*counter, string]
	ticked  time.Time
	stalled time.Duration // between two ticks, at most
	kill    func()
	drain   chan struct{}
	ended   chan error
}

func (p *possessive) Declines(c *counter) string {
	if p.foreign != nil && p.foreign(c.name) {
		return "it is of another inventory"
	}
	return ""
}

func (p *possessive) Tick() {
	p.all.Lock()
	defer p.all.Unlock()
	if now := time.Now(); !p.ticked.IsZero() {
		p.stalled = max(p.stalled, now.Sub(p.ticked))
	}
	p.ticked = time.Now()
	if p.again.Swap(false) {
		p.loop.Reconsider()
	}
}

func (p *possessive) Acquired(name string) {
	p.all.Lock()
	defer p.all.Unlock()
	for other, t := range p.all.tenants {
		assert.False(p.all, t.has[name], "%v, %v", name, other)
	}
	p.has[name] = true
}

func (p *possessive) Released(name string) {
	p.all.Lock()
	defer p.all.Unlock()
	delete(p.has, name)
	p.all.lost[name]++
}

func (s *sharing) start(name string, foreign func(string) bool) *possessive {
	return s.startOn(s.open(), name, foreign)
}

func (s *sharing) startOn(log deploylog.Log, name string, foreign func(string) bool) *possessive {
	ctx, cancel := context.WithCancel(s.Context())
	p := &possessive{tenant: tenant{work: s.do}, all: s, name: name, has: map[string]bool{}, foreign: foreign, drain: make(chan struct{}), ended: make(chan error, 1)}
	s.Lock()
	s.tenants[name] = p
	s.Unlock()
	p.loop = s.loopOf(p, reconcile.Options{Log: log, Name: name, Drain: p.drain}, s.site)
	go func() {
		err := p.loop.Run(ctx)
		s.Lock()
		clear(p.has)
		s.Unlock()
		p.ended <- err
	}()
	p.kill = sync.OnceFunc(func() { cancel(); <-p.ended })
	synctest.Wait()
	return p
}

func (s *sharing) shares(counters int) (of map[string]int) {
	s.Lock()
	defer s.Unlock()
	of = map[string]int{}
	controlled := 0
	for name, p := range s.tenants {
		if len(p.has) > 0 {
			of[name] = len(p.has)
			controlled += len(p.has)
		}
	}
	assert.Equal(s, counters, controlled, "%d counters of %d are controlled: %v", controlled, counters, of)
	return of
}

// has are the counters that one controls.
func (s *sharing) has(name string) map[string]bool {
	s.Lock()
	defer s.Unlock()
	return maps.Clone(s.tenants[name].has)
}

func inSharing(t *testing.T, counters, goal int, test func(*sharing)) {
	inSite(t, func(s *site) {
		for i := range counters {
			s.create(fmt.Sprintf("%03d", i), goal)
		}
		all := &sharing{site: s, tenants: map[string]*possessive{}, lost: map[string]int{}}
		test(all)
		for _, p := range all.tenants {
			p.kill()
		}
	})
}

func TestLoopsShareEntitiesAndTakeOverFromThoseThatEnd(t *testing.T) {
	const counters = 300
	inSharing(t, counters, 0, func(s *sharing) {
		even := func(among int) {
			of := s.shares(counters)
			for name, n := range of {
				fair := counters / among
				assert.True(t, n >= fair*2/3 && n <= fair*3/2, "%s controls %d of %d, of which %d loops share", name, n, counters, among)
			}
			assert.Len(t, of, among, "%v share", of)
		}
		s.start("a", nil)
		even(1)
		s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		even(2)
		c := s.start("c", nil)
		reconciletest.Wait(2 * time.Second)
		even(3)
		before := s.has("a")
		c.kill()
		reconciletest.Wait(time.Second)
		even(2)
		for _, told := range []string{"as it is to be: 2 counter's controllers share the counters now", "as it is to be: 3 counter's controllers share the counters now", "2 counter's controllers share the counters now"} {
			assert.Contains(t, s.notices, told)
		}
		after := s.has("a")
		for name := range before {
			assert.True(t, after[name], name)
		}
		close(s.tenants["b"].drain)
		reconciletest.Wait(time.Second)
		even(1)
		s.create("new", 1)
		reconciletest.Wait(2 * time.Second)
		s.wantDone("new", 1)
	})
}

func TestWhoIsStartedAgainControlsTheSame(t *testing.T) {
	inSharing(t, 100, 0, func(s *sharing) {
		a := s.start("a", nil)
		s.start("b", nil)
		reconciletest.Wait(3 * time.Second)
		before := s.has("a")
		a.kill()
		reconciletest.Wait(3 * time.Second)
		s.start("a", nil)
		reconciletest.Wait(3 * time.Second)
		s.shares(100)
		after := s.has("a")
		assert.True(t, maps.Equal(before, after) && len(after) != 0, "it controls %d, and controlled %d before", len(after), len(before))
	})
}

// Two that are known by one name share all the same, as when one is started again before the log knows that it has died.
func TestTwoOfOneNameShare(t *testing.T) {
	inSharing(t, 100, 0, func(s *sharing) {
		first := s.start("a", nil)
		delete(s.tenants, "a")
		s.tenants["the first"] = first
		s.start("a", nil)
		reconciletest.Wait(3 * time.Second)
		of := s.shares(100)
		assert.True(t, of["a"] >= 20 && of["the first"] >= 20, "shares are %v", of)
		if told := `another counter's controller shares the counters as "a", and this one does so as "a (2)"; each needs a name of its own to have the same again after a restart`; !slices.Contains(s.notices, told) {
			t.Errorf("told %q", s.notices)
		}
	})
}

func TestWhatIsCreatedIsControlledAtOnceWhoeverIsToControlIt(t *testing.T) {
	inSharing(t, 0, 0, func(s *sharing) {
		s.start("a", nil)
		s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		for i := range 50 {
			s.create(fmt.Sprint("new ", i), 1)
		}
		reconciletest.Wait(10 * time.Second)
		for i := range 50 {
			s.wantDone(fmt.Sprint("new ", i), 1)
		}
		of := s.shares(50)
		assert.True(t, of["a"] >= 10 && of["b"] >= 10, "shares are %v", of)
	})
}

// A counter on which something is under way is not given up before that has ended; in between nobody waits for it.
func TestWhatIsUnderWayIsHandedOverWhenItHasEnded(t *testing.T) {
	inSharing(t, 20, 1, func(s *sharing) {
		s.work = func(string) error { <-time.After(time.Minute); return nil }
		s.start("a", nil) // ten at once
		s.start("b", nil)
		reconciletest.Wait(30 * time.Second)
		worked := 0
		for i := range 20 {
			if len(s.story(fmt.Sprintf("%03d", i))) == 2 {
				worked++
			}
		}
		of := s.shares(20)
		assert.True(t, worked > 10 && of["a"] >= 10, "%d counters are begun, shares are %v", worked, of)
		reconciletest.Wait(3 * time.Minute)
		for i := range 20 {
			s.wantDone(fmt.Sprintf("%03d", i), 1)
		}
		assert.GreaterOrEqual(t, s.shares(20)["b"], 5)
	})
}

func TestWhatOneDeclinesWhoIsToControlItOthersTake(t *testing.T) {
	inSharing(t, 40, 1, func(s *sharing) {
		odd := func(name string) bool { return (name[len(name)-1]-'0')%2 == 1 }
		s.start("a", odd)
		s.start("b", nil)
		reconciletest.Wait(time.Minute)
		for i := range 40 {
			s.wantDone(fmt.Sprintf("%03d", i), 1)
		}
		of := s.shares(40)
		assert.Greater(t, of["b"], 20, of)
		assert.NotEqual(t, 0, of["a"], of)
		before := s.has("b")
		reconciletest.Wait(time.Minute)
		assert.Equal(t, s.has("b"), before, "they change hands")
		clear(s.lost)
		s.start("c", nil)
		reconciletest.Wait(3 * time.Second)
		s.shares(40)
		reconciletest.Wait(time.Minute)
		theirs := s.has("c")
		for name, times := range s.lost {
			assert.Equal(t, 1, times, name)
			assert.True(t, theirs[name], name)
		}
		assert.Len(t, s.lost, len(theirs))
		assert.NotEmpty(t, theirs)
	})
}

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
		assert.Equal(t, 40, controlled+len(theirs))
		assert.GreaterOrEqual(t, controlled, 30)
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
		assert.Equal(t, before["a"], s.shares(40)["a"])
		said := 0
		for _, text := range s.notices {
			if strings.Contains(text, "it cannot be seen who else shares the counters") && strings.Contains(text, "the database is busy") {
				said++
			}
		}
		assert.Equal(t, 1, said, "it is told %d times: %q", said, s.notices)
		log.blind.Store(false)
		s.tenants["b"].kill()
		reconciletest.Wait(2 * time.Second)
		assert.Equal(t, 40, s.shares(40)["a"])
	})
}

// Who is started again waits for its name while the log does not give it yet, and takes no other.
func TestANameThatNobodyHasIsWaitedFor(t *testing.T) {
	inSharing(t, 0, 0, func(s *sharing) {
		log := &troubled{Log: s.open()}
		log.late.Store(20)
		s.startOn(log, "a", nil)
		reconciletest.Wait(10 * time.Second)
		assert.Equal(t, []string{"counters are shared by a"}, must.Get(log.LocksHeld(s.Context(), "counters are shared by "))(t))
	})
}

func TestHandingOverKeepsALoopFromNothingElse(t *testing.T) {
	inSharing(t, 300, 0, func(s *sharing) {
		a := s.startOn(&troubled{Log: s.open(), unlock: 20 * time.Millisecond}, "a", nil)
		s.start("b", nil)
		reconciletest.Wait(10 * time.Second)
		assert.GreaterOrEqual(t, s.shares(300)["b"], 100)
		assert.LessOrEqual(t, a.stalled, 1500*time.Millisecond, "it did nothing else for")
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
			name := gone.Load().(string)
			assert.True(t, s.has("a")[name], "nobody else takes")
		}
	})
}

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
		must.Get(s.log.Append(s.Context(), (&counter{name: busy, goal: 1}).event("counter-created", 2)))(t)
		reconciletest.Wait(time.Second)
		close(b.drain)
		reconciletest.Wait(2 * time.Second)
		of := s.shares(20)
		assert.True(t, of["a"] == 19 && s.has("b")[busy], "shares are %v", of)
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 20, s.shares(20)["a"])
		assert.Len(t, s.story(busy), 4, busy)
	})
}

// A loop without a name, as somebody runs it on a laptop, takes nothing from those that share what
// there is; it stands by, and has all when none of them lives.
func TestALoopWithoutANameTakesNothingWhileOthersShare(t *testing.T) {
	inSharing(t, 40, 1, func(s *sharing) {
		s.start("", nil)
		reconciletest.Wait(10 * time.Second)
		assert.Equal(t, 40, s.shares(40)[""])
		a := s.start("a", nil)
		reconciletest.Wait(2 * time.Second)
		assert.Equal(t, 40, s.shares(40)["a"])
		if want := "standing by for 40 counters, such as 000: another counter's controller is at work on 000 (the counters are shared by who controls all of them; name those to control here)"; !slices.Contains(s.notices, want) {
			t.Errorf("told %q, not %q", s.notices, want)
		}
		s.start("b", nil)
		reconciletest.Wait(2 * time.Second)
		s.tenants["b"].kill()
		reconciletest.Wait(time.Minute)
		assert.Equal(t, 40, s.shares(40)["a"])
		s.create("new", 3)
		assert.NoError(t, s.untilIdle(reconcile.Options{Log: s.open(), Name: "idle"}))
		s.wantDone("new", 3)
		assert.True(t, s.has("a")["new"], "it was not left to who shares")
		a.kill()
		reconciletest.Wait(time.Second)
		assert.Equal(t, 41, s.shares(41)[""])
	})
}

// Who stands by takes nothing of one that ends and has something under way: it would begin more on the same host.
func TestALoopThatSharesNothingGivesUpNothingBeforeItEnds(t *testing.T) {
	inSharing(t, 10, 0, func(s *sharing) {
		s.work = func(string) error { <-time.After(time.Minute); return nil }
		s.create("busy", 1)
		first := s.start("", nil)
		s.create("other", 0)
		reconciletest.Wait(2 * time.Second)
		kill := s.site.start(reconcile.All())
		defer kill()
		reconciletest.Wait(2 * time.Second)
		close(first.drain)
		reconciletest.Wait(30 * time.Second)
		assert.Equal(t, 12, s.shares(12)[""])
		s.wantNotices(`standing by for 12 counters, such as 000: another counter's controller is at work on 000 (lock "counter/000": lock is held by another process)`)
		reconciletest.Wait(time.Minute)
		s.wantDone("busy", 1)
	})
}
