package reconcile_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
)

// loopOf is a loop of another tenant, with another observer.
func (s *site) loopOf(t reconcile.Tenant[*counter, string], o reconcile.Options, seen reconcile.Observer) *reconcile.Loop[*counter, string] {
	setup := s.setup(o)
	setup.Tenant, setup.Observer = t, seen
	return reconcile.New(setup)
}

func TestADrainThatStartsWhileTheDecideLockIsWaitedForBeginsNothing(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		unlock, err := s.log.Lock(s.Context(), "counters")
		require.NoError(t, err)
		drain, ended := make(chan struct{}), make(chan error, 1)
		l := s.loop(reconcile.Options{Log: s.open(), Drain: drain})
		go func() { ended <- l.Run(s.Context()) }()
		reconciletest.Wait(time.Second)
		close(drain)
		reconciletest.Wait(time.Second)
		unlock()
		assert.NoError(t, <-ended)
		assert.Equal(t, []string{"counter-created 1"}, s.story("a"))
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
		assert.NoError(t, l.Run(s.Context()))
		assert.Contains(t, s.story("b"), "counter-done 1")
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
		assert.Equal(t, "a mistake", <-ended)
		assert.False(t, folded(s.log).Controlled("a"), "a lock is left")
	})
}

// crowded is a log of a process that can open no more files.
type crowded struct{ deploylog.Log }

func (crowded) TryLock(string) (func(), error) { return nil, syscall.EMFILE }

func TestAnEntityThatCannotBeLockedForWantOfFilesSaysWhatHelps(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		err := s.loop(reconcile.Options{Log: crowded{s.log}}).Run(s.Context())
		assert.ErrorContains(t, err, "ulimit -n")
	})
}

// Without files left for it, the work on what is controlled would fail.
func TestSomeFilesAreLeftForTheWork(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		s.create("b", 1)
		s.create("c", 1)
		assert.NoError(t, s.loop(reconcile.Options{Log: s.log, UntilIdle: true, MaxEntities: 3}).Run(s.Context()), "three of three")
		err := s.loop(reconcile.Options{Log: s.log, UntilIdle: true, MaxEntities: 2}).Run(s.Context())
		assert.ErrorContains(t, err, "2 are controlled already")
		assert.ErrorContains(t, err, "ulimit -n")
	})
}

func TestWhatWaitsForAControllerRunsBesideIt(t *testing.T) {
	over, controlled := make(chan struct{}), false
	ended := errors.New("main has ended")
	err := reconcile.Beside(t.Context(), "controlling", over, func(ctx context.Context) error {
		<-over // it is drained when main has ended, and not before
		controlled = ctx.Err() == nil
		return nil
	}, func(ctx context.Context) error { return errors.Join(ended, ctx.Err()) })
	if !errors.Is(err, ended) || errors.Is(err, context.Canceled) || !controlled {
		t.Errorf("it ends with %v, and was waited for: %t", err, controlled)
	}
}

func TestAControllerThatFailsEndsWhatWaitsForIt(t *testing.T) {
	for name, controller := range map[string]func(context.Context) error{
		"it fails": func(context.Context) error { return errors.New("no log") },
		"it has a fault": func(context.Context) error {
			var none []int
			none[0] = 1
			return nil
		},
	} {
		err := reconcile.Beside(t.Context(), "controlling all", make(chan struct{}), controller, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorContains(t, err, map[string]string{"it fails": "no log", "it has a fault": "controlling all"}[name], name)
	}
}
