package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
)

func (s *site) loopOf(t reconcile.Tenant[*counter, string], o reconcile.Options, seen reconcile.Observer) *reconcile.Loop[*counter, string] {
	setup := s.setup(o)
	setup.Tenant, setup.Observer = t, seen
	return reconcile.New(setup)
}

func TestADrainThatStartsWhileTheDecideLockIsWaitedForBeginsNothing(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		unlock := must.Get(s.log.Lock(s.Context(), "counters"))(t)
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
		assert.ErrorContains(t, s.loop(reconcile.Options{Log: crowded{s.log}}).Run(s.Context()), "ulimit -n")
	})
}

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
	assert.True(t, errors.Is(err, ended) && !errors.Is(err, context.Canceled) &&
		controlled, "it ends with %v, and was waited for: %t", err, controlled)
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

// told is an observer that remembers what it is notified of.
type told struct {
	*site
	events []deploylog.Event
}

func (o *told) Recorded(e deploylog.Event) { o.events = append(o.events, e) }

func (o *told) wantInLog() {
	for _, e := range o.events {
		assert.Contains(o, o.story("a"), fmt.Sprintf("%s %d", e.Name, e.Attempt))
	}
}

// conditional is a loop that records what ends together with what begins by that.
func (s *site) conditional(log deploylog.Log, o reconcile.Observer) *reconcile.Loop[*counter, string] {
	setup := s.setup(reconcile.Options{Log: log, UntilIdle: true})
	setup.Observer, setup.Conditional = o, true
	return reconcile.New(setup)
}

// Whoever dies while an end is made durable together with the next beginning has recorded both or
// neither, and nobody was told of what is not in the log.
func TestALoopIsKilledWhileItRecordsAnEndAndWhatFollows(t *testing.T) {
	life := func(t *testing.T, lives int, last bool) (appends int) {
		inSite(t, func(s *site) {
			s.create("a", 4)
			m := &reconciletest.Mortal{Log: s.log, Lives: lives, Last: last}
			o := &told{site: s}
			if err := s.conditional(m, o).Run(s.Context()); err != nil {
				assert.ErrorIs(t, err, reconciletest.ErrDead)
			}
			appends = m.Calls()
			o.wantInLog()
			story := s.story("a")
			n := len(story)
			assert.False(t, n%2 == 1 && n > 1 && n < 9, "after %d appends an end is recorded without what follows: %q", lives, story)
			assert.NoError(t, s.conditional(s.log, &told{site: s}).Run(s.Context()))
			s.wantDone("a", 4)
		})
		return appends
	}
	appends := life(t, 1000, false)
	assert.Equal(t, 5, appends, "4 beginnings and 4 ends were appended at")
	for lives := range appends {
		for _, last := range []bool{false, true} {
			life(t, lives, last)
		}
	}
}

// What ended is recorded though what was decided then is refused; whose events these are is left out, and the others go on.
func TestWhatFollowsIsRefused(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		s.create("b", 3)
		log := &reconciletest.Hooked{Log: s.log, Event: "counter-begun", Hook: func(e deploylog.Event) error {
			if e.Target == "counter/a" && e.Attempt == 3 {
				return deploylog.ErrInvalid
			}
			return nil
		}}
		assert.ErrorIs(t, s.conditional(log, s).Run(s.Context()), deploylog.ErrInvalid)
		s.wantDone("a", 2)
		s.wantDone("b", 3)
	})
}

// What ended was recorded already, by somebody who came that far: it is left out, and the rest goes on.
func TestAnEndIsThereAlready(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		other := false
		log := &reconciletest.Hooked{Log: s.log, Event: "counter-done", Hook: func(e deploylog.Event) error {
			if other || e.Attempt != 2 {
				return nil
			}
			other = true
			_, err := s.log.Append(s.Context(), e)
			return err
		}}
		assert.NoError(t, s.conditional(log, s).Run(s.Context()))
		s.wantDone("a", 3)
	})
}

// torn is a log whose write fails once what follows is decided.
type torn struct{ *reconciletest.Snapshots }

func (torn) AppendThen(_ context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	placed := slices.Clone(events)
	for i := range placed {
		placed[i].Seq = int64(i + 2)
	}
	then(placed)
	return nil, deploylog.ErrPoisoned
}

func TestAFoldThatIsAheadOfItsLogIsOfNoUse(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		kept := &reconciletest.Snapshots{Log: s.log}
		f := folded(torn{kept})
		f.KeepSnapshots(reconcile.Needs[*counter]{After: 1, Of: func(_ *counter, e deploylog.Event) (deploylog.Event, bool) { return e, true }})
		lost := (&counter{name: "a"}).event("counter-begun", 1)
		assert.ErrorIs(t, must.Fail(f.Change(s.Context(), "a", false, func(*counter) ([]deploylog.Event, error) {
			return f.AppendThen(s.Context(), []deploylog.Event{lost}, func() []deploylog.Event { return nil })
		})), deploylog.ErrPoisoned)
		assert.ErrorIs(t, f.Follow(s.Context(), 0), deploylog.ErrPoisoned)
		assert.ErrorIs(t, f.Hold(s.Context(), func() error { return nil }), deploylog.ErrPoisoned)
		_, ok := kept.Snapshot(s.Context(), deploylog.SnapshotName("counters", 0))
		assert.False(t, ok, "a snapshot of what is not in the log was kept")
	})
}

// decided counts how often the decide lock is taken, and something made durable.
type decided struct {
	deploylog.Log
	n, writes atomic.Int64
}

func (l *decided) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	l.writes.Add(1)
	return l.Log.Append(ctx, events...)
}

func (l *decided) AppendThen(ctx context.Context, events []deploylog.Event, then func([]deploylog.Event) []deploylog.Event) ([]deploylog.Event, error) {
	l.writes.Add(1)
	return l.Log.(deploylog.ThenAppender).AppendThen(ctx, events, then)
}

func (l *decided) Lock(ctx context.Context, name string) (func(), error) {
	l.n.Add(1)
	return l.Log.Lock(ctx, name)
}

// watchful is a tenant that decides only once it has looked at the world since the last end.
type watchful struct {
	tenant
	t    *testing.T
	seen bool
}

func (w *watchful) Observe() bool { w.seen = true; return false }

func (w *watchful) Received(_ string, e deploylog.Event) bool {
	if e.Name == "counter-done" && !w.seen {
		w.t.Errorf("nobody looked before %s %d was recorded, after which it is decided", e.Name, e.Attempt)
	}
	if e.Name == "counter-begun" {
		w.seen = false
	}
	return true
}

// What ends is recorded, and what begins by that decided, under one lock, and both are made durable at once.
func TestWhatEndsAndWhatBeginsByThatTakeOneLockAndOneWrite(t *testing.T) {
	for name, is := range map[string]func(*reconcile.Setup[*counter, string]){
		"conditional": func(of *reconcile.Setup[*counter, string]) { of.Conditional = true },
		"together":    func(of *reconcile.Setup[*counter, string]) { of.Together = true },
	} {
		t.Run(name, func(t *testing.T) {
			inSite(t, func(s *site) {
				const goal = 100
				s.create("a", goal)
				log := &decided{Log: s.open()}
				setup := s.setup(reconcile.Options{Log: log, UntilIdle: true})
				setup.Tenant = &watchful{tenant: tenant{work: s.do}, t: t}
				is(&setup)
				assert.NoError(t, reconcile.New(setup).Run(s.Context()))
				s.wantDone("a", goal)
				assert.LessOrEqual(t, log.n.Load(), int64(goal+goal/10), "the lock is taken too often")
				assert.LessOrEqual(t, log.writes.Load(), int64(goal+goal/10), "it is made durable too often")
			})
		})
	}
}

// Whoever ends a loop at once loses nothing of what had ended, whichever way that is recorded.
func TestWhatHasEndedIsRecordedThoughTheLoopEndsAtOnce(t *testing.T) {
	for name, is := range map[string]func(*reconcile.Setup[*counter, string]){
		"alone":       func(*reconcile.Setup[*counter, string]) {},
		"conditional": func(of *reconcile.Setup[*counter, string]) { of.Conditional = true },
		"together":    func(of *reconcile.Setup[*counter, string]) { of.Together = true },
	} {
		t.Run(name, func(t *testing.T) {
			inSite(t, func(s *site) {
				s.create("a", 3)
				ctx, end := context.WithCancel(s.Context())
				log := &reconciletest.Hooked{Log: s.open(), Event: "counter-done", Hook: func(deploylog.Event) error { end(); return nil }}
				setup := s.setup(reconcile.Options{Log: log})
				is(&setup)
				assert.ErrorIs(t, reconcile.New(setup).Run(ctx), context.Canceled)
				f := folded(s.log)
				require.NoError(t, f.Follow(s.Context(), 0))
				assert.Positive(t, f.States["a"].done)
				assert.Equal(t, f.States["a"].begun, f.States["a"].done)
			})
		})
	}
}

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
		assert.True(t, before >= 10 &&
			log.n.Load() == left, "it was tried %d times, and %d times after it left the scope", before, log.n.Load()-left)
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

// What others record right before the loop appends is read by the loop, and so no news any more when the log tells of it.
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
			late := e.CreatedAt.Sub(asked)
			assert.True(t, err == nil && late <= 400*time.Millisecond, "it was seen %s later, error %v", late, err)
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
		assert.LessOrEqual(t, time.Since(before), time.Second, "a command took")
		assert.NoError(t, <-ended)
		assert.Equal(t, 10_001, len(s.story("a")))
		s.wantDone("b", 1)
	})
}

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
		all            []deploylog.Heartbeat
		silent, others string
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
		got := f.Others("a")
		assert.True(t, strings.HasPrefix(got, test.others) && (got == "") == (test.others == ""), "%s: of others it says %q", name, got)
	}
	f := reconcile.NewFold(reconcile.Kind[*counter]{One: "thing"}, logtest.NewMemory().Open(), time.Now, nil)
	assert.Empty(t, f.Silent("a")+f.Others("a"), "a log without heartbeats says something")
}
