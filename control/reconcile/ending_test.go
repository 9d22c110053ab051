package reconcile_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
)

// loopOf is a loop of another tenant, with another observer.
func (s *site) loopOf(t reconcile.Tenant[*counter, string], o reconcile.Options, seen reconcile.Observer) *reconcile.Loop[*counter, string] {
	if o.Log == nil {
		o.Log = s.log
	}
	o.Parallelism, o.Now = 10, time.Now
	return reconcile.New(reconcile.Setup[*counter, string]{
		Options: o, Fold: folded(o.Log), Tenant: t, Observer: seen, Role: "counter's controller",
		Slots: func(string) int { return 100 }, Interrupted: errInterrupted,
	})
}

func TestADrainThatStartsWhileTheDecideLockIsWaitedForBeginsNothing(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		unlock, err := s.log.Lock(s.Context(), "counters")
		if err != nil {
			t.Fatal(err)
		}
		drain, ended := make(chan struct{}), make(chan error, 1)
		l := s.loop(reconcile.Options{Log: s.open(), Drain: drain})
		go func() { ended <- l.Run(s.Context()) }()
		reconciletest.Wait(time.Second)
		close(drain)
		reconciletest.Wait(time.Second)
		unlock()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := s.story("a"); !slices.Equal(got, []string{"counter-created 1"}) {
			t.Errorf("the log tells %q", got)
		}
	})
}

// closing is a tenant that records besides that a counter is done.
type closing struct {
	tenant
	closed map[string]bool
}

func (t *closing) Decide(name string, c *counter, d *reconcile.Decision[string]) {
	if c.done == c.goal && !t.closed[name] {
		t.closed[name] = true
		d.Add([]deploylog.Event{c.event("counter-closed", 1)})
	}
	t.tenant.Decide(name, c, d)
}

// commanding is an observer that gives a command when it is told of an event.
type commanding struct {
	*site
	when string
	give func()
}

func (c *commanding) Recorded(e deploylog.Event) {
	if give := c.give; e.Name == c.when && give != nil {
		c.give = nil
		give()
	}
}

func TestWhatTheObserverCreatesAtTheEndIsDone(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		seen := &commanding{site: s, when: "counter-closed", give: func() { s.create("b", 1) }}
		l := s.loopOf(&closing{tenant{work: s.do}, map[string]bool{}}, reconcile.Options{UntilIdle: true}, seen)
		if err := l.Run(s.Context()); err != nil {
			t.Error(err)
		}
		if got := s.story("b"); !slices.Contains(got, "counter-done 1") {
			t.Errorf("the log tells %q", got)
		}
	})
}

// mistaken is a tenant that panics when it decides the second time.
type mistaken struct {
	tenant
	decided int
}

func (m *mistaken) Decide(name string, c *counter, d *reconcile.Decision[string]) {
	if m.decided++; m.decided == 2 {
		panic("a mistake")
	}
	m.tenant.Decide(name, c, d)
}

func TestALoopThatPanicsEndsThoughWorkWasAboutToBegin(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		s.create("b", 1)
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			_ = s.loopOf(&mistaken{tenant: tenant{work: s.do}}, reconcile.Options{}, s).Run(s.Context())
		}()
		select {
		case p := <-ended:
			if p != "a mistake" {
				t.Errorf("it ended with %v", p)
			}
		case <-time.After(time.Hour):
			t.Fatal("it does not end")
		}
		if folded(s.log).Controlled("a") {
			t.Error("a lock is left")
		}
	})
}

// crowded is a log of a process that can open no more files.
type crowded struct{ deploylog.Log }

func (crowded) TryLock(string) (func(), error) { return nil, syscall.EMFILE }

func TestAnEntityThatCannotBeLockedForWantOfFilesSaysWhatHelps(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		err := s.loop(reconcile.Options{Log: crowded{s.log}}).Run(s.Context())
		if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// Without files left for it, the work on what is controlled would fail.
func TestSomeFilesAreLeftForTheWork(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		s.create("b", 1)
		s.create("c", 1)
		if err := s.loop(reconcile.Options{Log: s.log, UntilIdle: true, MaxEntities: 3}).Run(s.Context()); err != nil {
			t.Errorf("three of three: %v", err)
		}
		err := s.loop(reconcile.Options{Log: s.log, UntilIdle: true, MaxEntities: 2}).Run(s.Context())
		if err == nil || !strings.Contains(err.Error(), "2 are controlled already") || !strings.Contains(err.Error(), "ulimit -n") {
			t.Errorf("three of two: %v", err)
		}
	})
}
