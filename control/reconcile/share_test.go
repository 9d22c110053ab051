package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

func TestManyEntitiesAreTakenOverAtOnceAndToldTogether(t *testing.T) {
	inSite(t, func(s *site) {
		for i := range 300 {
			s.create(fmt.Sprintf("%03d", i), 1000)
		}
		kill := s.start(reconcile.All())
		end := s.start(reconcile.All())
		reconciletest.Wait(10 * time.Second)
		s.wantNotices(`standing by for 300 counters, such as 000: another counter's controller is at work on 000 (lock "counter/000": lock is held by another process)`)
		kill()
		reconciletest.Wait(200 * time.Millisecond)
		taken := 0
		for _, text := range s.notices {
			var some int
			n, _ := fmt.Sscanf(text, "taking over %d counters", &some)
			assert.NotEqual(t, 0, n, text)
			taken += some
		}
		assert.Equal(t, 300, taken, "told %q", s.notices)
		end()
	})
}

// tried counts how often locks of counters are tried.
type tried struct {
	deploylog.Log
	n atomic.Int64
}

func (l *tried) TryLock(name string) (func(), error) {
	if strings.HasPrefix(name, "counter/") {
		l.n.Add(1)
	}
	return l.Log.TryLock(name)
}

func TestWhatLeavesTheScopeIsNotTriedAnyMore(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		s.create("b", 1)
		kill := s.start(reconcile.Only("a"))
		log, scope, drain, ended := &tried{Log: s.open()}, reconcile.Only("b"), make(chan struct{}), make(chan error, 1)
		l := s.loop(reconcile.Options{Log: log, Scope: scope, Drain: drain})
		go func() { ended <- l.Run(s.Context()) }()
		remove := scope.Add("a")
		reconciletest.Wait(10 * time.Second)
		before := log.n.Load()
		remove()
		reconciletest.Wait(time.Second)
		left := log.n.Load()
		reconciletest.Wait(10 * time.Second)
		if before < 10 || log.n.Load() != left {
			t.Errorf("it was tried %d times, and %d times after it left the scope", before, log.n.Load()-left)
		}
		close(drain)
		assert.NoError(t, <-ended)
		kill()
	})
}

// untaken is a log of whose locks none may be taken.
type untaken struct {
	deploylog.Log
	t testing.TB
}

func (u untaken) TryLock(name string) (func(), error) {
	u.t.Errorf("%s is taken", name)
	return func() {}, nil
}

func TestAskingWhetherAnEntityIsControlledTakesNothing(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1000)
		asked := untaken{s.log, t}
		assert.False(t, folded(asked).Controlled("a"), "nobody controls it")
		kill := s.start(reconcile.Only("a"))
		assert.True(t, folded(asked).Controlled("a"), "it is not controlled")
		kill()
	})
}

// throng is a tenant with more steps than there are slots. Asking for each takes its
// time, and what a second creation of the counter wants is found last.
type throng struct {
	tenant
	worked int
}

func (t *throng) Decide(name string, c *counter, d *reconcile.Decision[string]) {
	for n := range 300 {
		<-time.After(time.Second / 3000)
		slot := reconcile.Slot[string]{Key: fmt.Sprint(name, n), Host: "one"}
		if d.Can(slot) {
			d.Add(nil, d.Begin(&reconcile.Work[string]{Slot: slot, What: name, Do: func(ctx context.Context) error { return t.work(ctx, name) }, Result: t.result(c)}))
		} else if d.Enough() {
			return
		}
	}
	if c.done < c.goal {
		d.Add([]deploylog.Event{c.event("counter-done", c.goal)})
	}
}

func (t *throng) result(c *counter) func(error, int) ([]deploylog.Event, bool) {
	return func(error, int) ([]deploylog.Event, bool) {
		t.worked++
		return []deploylog.Event{c.event("counter-worked", t.worked)}, false
	}
}

// What others record right before the loop appends is read by the loop, and so no news
// any more when the log tells of it.
func TestWhatOthersRecordWhileTheLoopDoesIsSeenAtOnceUnderFullLoad(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 0)
		began, asked := time.Now(), time.Time{}
		log := &reconciletest.Hooked{Log: s.log, Event: "counter-worked", Hook: func(deploylog.Event) error {
			if !asked.IsZero() || time.Since(began) < 1400*time.Millisecond { // after a tick
				return nil
			}
			asked = time.Now()
			_, err := s.log.Append(s.Context(), (&counter{name: "a", goal: 1}).event("counter-created", 2))
			return err
		}}
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		s.work = func(string) error { <-time.After(300 * time.Millisecond); return nil }
		l := s.loopOf(&throng{tenant: tenant{work: func(_ context.Context, name string) error { return s.work(name) }}}, reconcile.Options{Log: log}, s)
		go func() { ended <- l.Run(ctx) }()
		reconciletest.Wait(5 * time.Second)
		cancel()
		<-ended
		for e, err := range s.log.Read(s.Context(), deploylog.Filter{Name: "counter-done"}) {
			if late := e.CreatedAt.Sub(asked); err != nil || late > 400*time.Millisecond {
				t.Errorf("it was seen %s later, error %v", late, err)
			}
			return
		}
		t.Error("it was never seen")
	})
}

// seeing is a tenant that observes much at once.
type seeing struct {
	tenant
	seen, most int
}

func (t *seeing) Observe() bool { return t.seen < t.most }

func (t *seeing) Observed(most int) (all []reconcile.Observation, more bool) {
	for ; t.seen < t.most && len(all) < most; t.seen++ {
		e := (&counter{name: "a"}).event("counter-seen", t.seen+1)
		all = append(all, reconcile.Observation{Entity: "a", Events: []deploylog.Event{e}})
	}
	return all, t.seen < t.most
}

func TestCommandsComeThroughWhileMuchIsObserved(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 0)
		ended := make(chan error, 1)
		l := s.loopOf(&seeing{tenant: tenant{work: s.do}, most: 10_000}, reconcile.Options{Log: slow{s.log}, UntilIdle: true}, s)
		go func() { ended <- l.Run(s.Context()) }()
		reconciletest.Wait(100 * time.Millisecond)
		before := time.Now()
		s.create("b", 1)
		if took := time.Since(before); took > time.Second {
			t.Errorf("a command took %s", took)
		}
		assert.NoError(t, <-ended)
		assert.Equal(t, 10_001, len(s.story("a")))
		s.wantDone("b", 1)
	})
}

// heartbeatLog is a log beside which there are heartbeats.
type heartbeatLog struct {
	deploylog.Log
	all []deploylog.Heartbeat
}

func (l *heartbeatLog) Heart() (deploylog.Heart, error)            { return nil, deploylog.ErrLocked }
func (l *heartbeatLog) Heartbeats() ([]deploylog.Heartbeat, error) { return l.all, nil }

func TestASilentControllerIsNamed(t *testing.T) {
	ago := func(d time.Duration, kind, host string, controls ...string) deploylog.Heartbeat {
		return deploylog.Heartbeat{Kind: kind, Role: "scheduler", PID: 7, Host: host, Serves: controls, Controls: controls, Last: time.Now().Add(-d)}
	}
	for name, test := range map[string]struct {
		all    []deploylog.Heartbeat
		silent string
		others string
	}{
		"nobody":                        {nil, "", ""},
		"one that goes on":              {[]deploylog.Heartbeat{ago(2*time.Second, "thing", "h", "a")}, "", ""},
		"one that was stopped":          {[]deploylog.Heartbeat{ago(40*time.Second, "thing", "h", "a")}, `the scheduler, process 7 on h, has recorded no heartbeat for 40s`, ""},
		"that, and one that took over":  {[]deploylog.Heartbeat{ago(time.Hour, "thing", "h", "a"), ago(time.Second, "thing", "h", "a")}, "", ""},
		"one of another":                {[]deploylog.Heartbeat{ago(time.Hour, "thing", "h", "b")}, "", `the scheduler, process 7 on h, serves b`},
		"one of another kind":           {[]deploylog.Heartbeat{ago(time.Hour, "other", "h", "a")}, "", ""},
		"one whose clock was set ahead": {[]deploylog.Heartbeat{ago(-time.Hour, "thing", "h", "a")}, "", ""},
	} {
		log := &heartbeatLog{Log: logtest.NewMemory().Open(), all: test.all}
		f := reconcile.NewFold(reconcile.Kind[*counter]{One: "thing"}, log, time.Now, nil)
		assert.Equal(t, test.silent, f.Silent("a"), name)
		if got := f.Others("a"); !strings.HasPrefix(got, test.others) || (got == "") != (test.others == "") {
			t.Errorf("%s: of others it says %q", name, got)
		}
	}
	f := reconcile.NewFold(reconcile.Kind[*counter]{One: "thing"}, logtest.NewMemory().Open(), time.Now, nil)
	assert.Empty(t, f.Silent("a")+f.Others("a"), "a log without heartbeats says something")
}
