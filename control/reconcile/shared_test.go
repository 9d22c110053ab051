package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
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
		if t.has[name] {
			p.all.Errorf("%s acquires %s, which %s controls", p.name, name, other)
		}
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

// shares are how many counters each controls. All are controlled by one.
func (s *sharing) shares(counters int) (of map[string]int) {
	s.Helper()
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
	if controlled != counters {
		s.Errorf("%d counters of %d are controlled: %v", controlled, counters, of)
	}
	return of
}

// has are the counters that one controls.
func (s *sharing) has(name string) map[string]bool {
	s.Lock()
	defer s.Unlock()
	return maps.Clone(s.tenants[name].has)
}

func inSharing(t *testing.T, counters, goal int, test func(*sharing)) {
	t.Helper()
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
			t.Helper()
			of := s.shares(counters)
			for name, n := range of {
				if fair := counters / among; n < fair*2/3 || n > fair*3/2 {
					t.Errorf("%s controls %d of %d, of which %d loops share", name, n, counters, among)
				}
			}
			if len(of) != among {
				t.Errorf("%v share", of)
			}
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
			if !slices.Contains(s.notices, told) {
				t.Errorf("told %q, and not %q", s.notices, told)
			}
		}
		after := s.has("a")
		for name := range before {
			if !after[name] {
				t.Errorf("%s changed hands though its loop lives", name)
			}
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
		if after := s.has("a"); !maps.Equal(before, after) || len(after) == 0 {
			t.Errorf("it controls %d, and controlled %d before", len(after), len(before))
		}
	})
}

// Two that are known by one name share all the same, as when one is started again before the log
// knows that it has died.
func TestTwoOfOneNameShare(t *testing.T) {
	inSharing(t, 100, 0, func(s *sharing) {
		first := s.start("a", nil)
		delete(s.tenants, "a")
		s.tenants["the first"] = first
		s.start("a", nil)
		reconciletest.Wait(3 * time.Second)
		if of := s.shares(100); of["a"] < 20 || of["the first"] < 20 {
			t.Errorf("shares are %v", of)
		}
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
		if of := s.shares(50); of["a"] < 10 || of["b"] < 10 {
			t.Errorf("shares are %v", of)
		}
	})
}

// A counter on which something is under way is not given up before that has ended; in between
// nobody waits for it.
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
		if of := s.shares(20); worked <= 10 || of["a"] < 10 {
			t.Errorf("%d counters are begun, shares are %v", worked, of)
		}
		reconciletest.Wait(3 * time.Minute)
		for i := range 20 {
			s.wantDone(fmt.Sprintf("%03d", i), 1)
		}
		if of := s.shares(20); of["b"] < 5 {
			t.Errorf("shares are %v", of)
		}
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
		if of["b"] <= 20 || of["a"] == 0 {
			t.Errorf("shares are %v", of)
		}
		before := s.has("b")
		reconciletest.Wait(time.Minute)
		if after := s.has("b"); !maps.Equal(before, after) {
			t.Errorf("they change hands: %v, then %v", before, after)
		}
		clear(s.lost)
		s.start("c", nil)
		reconciletest.Wait(3 * time.Second)
		s.shares(40)
		reconciletest.Wait(time.Minute)
		theirs := s.has("c")
		for name, times := range s.lost {
			if times != 1 || !theirs[name] {
				t.Errorf("%s is given up %d times, though the third loop is to have it: %v", name, times, theirs[name])
			}
		}
		if len(s.lost) != len(theirs) || len(theirs) == 0 {
			t.Errorf("%d are given up for the %d of a third loop", len(s.lost), len(theirs))
		}
	})
}
