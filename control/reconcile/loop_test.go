package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// counter is a state machine: it counts to its goal, one piece of work a step.
type counter struct {
	name              string
	goal, begun, done int
	head              int64
}

func (c *counter) Head() int64 { return c.head }
func (c *counter) Apply(e deploylog.Event) {
	c.head = e.Seq
	switch e.Name {
	case "counter-created":
		c.goal, _ = strconv.Atoi(e.Revision)
	case "counter-begun":
		c.begun = e.Attempt
	case "counter-done":
		c.done = e.Attempt
	}
}

func (c *counter) event(name string, n int) deploylog.Event {
	return deploylog.Event{Deployment: c.name, Target: deploylog.Target("counter/" + c.name), Revision: fmt.Sprint(c.goal), Name: name, Attempt: n}
}

// tenant is all that the loop needs to know of counters.
type tenant struct {
	reconcile.Bare
	work func(ctx context.Context, name string) error
}

func (*tenant) Declines(*counter) string { return "" }

func (*tenant) Idle(c *counter) bool { return c.done == c.goal }

func (t *tenant) Decide(name string, c *counter, d *reconcile.Decision[string]) {
	slot, n := reconcile.Slot[string]{Key: name, Host: "one"}, c.done+1
	if n > c.goal || !d.Can(slot) {
		return
	}
	var beginning []deploylog.Event
	if c.begun < n { // else another process began it, and died
		beginning = []deploylog.Event{c.event("counter-begun", n)}
	}
	d.Add(beginning, d.Begin(&reconcile.Work[string]{
		Slot: slot, What: name,
		Do: func(ctx context.Context) error { return t.work(ctx, name) },
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			if err != nil {
				return nil, true
			}
			return []deploylog.Event{c.event("counter-done", n)}, false
		},
	}))
}

var errInterrupted = errors.New("interrupted")

func folded(log deploylog.Log) *reconcile.Fold[*counter] {
	return reconcile.NewFold(reconcile.Kind[*counter]{
		One: "counter", Many: "counters", Begins: "counter-created", Begin: func(name string) *counter { return &counter{name: name} },
		NameOf: func(t deploylog.Target) (string, bool) { return strings.CutPrefix(string(t), "counter/") },
		Exists: func(*counter) bool { return true }, Missing: errors.New("no such counter"),
	}, log, time.Now, nil)
}

// site is a log on which loops count, in a time of its own.
type site struct {
	testing.TB
	open logtest.Store
	log  deploylog.Log
	work func(name string) error

	mu      sync.Mutex
	notices []string
	working map[string]int
	stalled chan struct{} // the observer waits for it; may be nil
}

func inSite(t *testing.T, test func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{TB: t, open: reconciletest.InMemory(t), working: map[string]int{}, work: func(string) error { <-time.After(time.Second); return nil }}
		s.log = s.open()
		test(s)
	})
}

func (s *site) create(name string, goal int) {
	s.Helper()
	_, err := folded(s.log).Change(s.Context(), name, true, func(c *counter) ([]deploylog.Event, error) {
		c.goal = goal
		return []deploylog.Event{c.event("counter-created", 1)}, nil
	})
	require.NoError(s, err)
}

func (s *site) Recorded(deploylog.Event) {
	if s.stalled != nil {
		<-s.stalled
	}
}

func (s *site) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, text)
}

// Inform notes what is as it is to be.
func (s *site) Inform(text string) { s.Notice("as it is to be: " + text) }

// wantNotices compares the notices since the last time.
func (s *site) wantNotices(want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(s, want, s.notices)
	s.notices = nil
}

// do does the work of a counter, which nobody else may do meanwhile.
func (s *site) do(_ context.Context, name string) error {
	count := func(by int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.working[name] += by
		assert.LessOrEqual(s, s.working[name], 1, name)
	}
	count(1)
	defer count(-1)
	return s.work(name)
}

// setup is that of a loop which counts.
func (s *site) setup(o reconcile.Options) reconcile.Setup[*counter, string] {
	if o.Log == nil {
		o.Log = s.log
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Parallelism = 10
	return reconcile.Setup[*counter, string]{
		Options: o, Fold: folded(o.Log), Tenant: &tenant{work: s.do}, Observer: s, Role: "counter's controller",
		Slots: func(string) int { return 100 }, Interrupted: errInterrupted,
	}
}

func (s *site) loop(o reconcile.Options) *reconcile.Loop[*counter, string] {
	return reconcile.New(s.setup(o))
}

// start runs a loop as another process does.
func (s *site) start(scope *reconcile.Scope) (kill func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	l := s.loop(reconcile.Options{Log: s.open(), Scope: scope})
	go func() { ended <- l.Run(ctx) }()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

func (s *site) untilIdle(o reconcile.Options) error {
	o.UntilIdle = true
	return s.loop(o).Run(s.Context())
}

// story is what the log tells of a counter.
func (s *site) story(name string) (story []string) {
	s.Helper()
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Target: deploylog.Target("counter/" + name)}) {
		require.NoError(s, err)
		story = append(story, fmt.Sprintf("%s %d", e.Name, e.Attempt))
	}
	return story
}

func (s *site) wantDone(name string, goal int) {
	s.Helper()
	want := []string{"counter-created 1"}
	for n := 1; n <= goal; n++ {
		want = append(want, fmt.Sprintf("counter-begun %d", n), fmt.Sprintf("counter-done %d", n))
	}
	assert.Equal(s, want, s.story(name), name)
}

func TestALoopThatIsKilledAtAnyAppendIsReplacedByAnother(t *testing.T) {
	for lives, died := 0, true; died; lives++ {
		died = false
		for _, last := range []bool{false, true} {
			inSite(t, func(s *site) {
				s.create("a", 3)
				s.create("b", 2)
				m := &reconciletest.Mortal{Log: s.log, Lives: lives, Last: last}
				switch err := s.untilIdle(reconcile.Options{Log: m}); {
				case errors.Is(err, reconciletest.ErrDead):
					died = true
				case err != nil:
					t.Error(err)
				}
				assert.NoError(t, s.untilIdle(reconcile.Options{Log: s.log}))
				s.wantDone("a", 3)
				s.wantDone("b", 2)
			})
		}
	}
}

func TestProcessesShareEntitiesByTheirLocks(t *testing.T) {
	inSite(t, func(s *site) {
		names := []string{"a", "b", "c"}
		for _, name := range names {
			s.create(name, 60)
		}
		killA, killB := s.start(reconcile.Only("a")), s.start(reconcile.Only("b"))
		killAll := s.start(reconcile.All())
		reconciletest.Wait(10 * time.Second)
		for _, name := range names {
			assert.GreaterOrEqual(t, len(s.story(name)), 20, name)
		}
		s.wantNotices(`standing by for 2 counters, such as a: another counter's controller is at work on a (lock "counter/a": lock is held by another process)`)
		killA()
		reconciletest.Wait(time.Second)
		s.wantNotices("taking over a, which another counter's controller has released")
		killB()
		reconciletest.Wait(2 * time.Minute)
		s.wantNotices("taking over b, which another counter's controller has released")
		for _, name := range names {
			s.wantDone(name, 60)
		}
		killAll()
		assert.False(t, folded(s.log).Controlled("a"), "it is controlled still")
	})
}

func TestWhatFailedIsTriedAgainThoughTheClockIsSetBack(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1)
		tries, began := 0, time.Now()
		s.work = func(string) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}
		clock := func() time.Time {
			if now := time.Now().Round(0); now.Sub(began) < 1500*time.Millisecond {
				return now
			} else {
				return now.Add(-time.Hour)
			}
		}
		assert.NoError(t, s.untilIdle(reconcile.Options{Log: s.log, Now: clock}))
		s.wantDone("a", 1)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}

// slow is a log on a disk that takes its time.
type slow struct{ deploylog.Log }

func (s slow) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	<-time.After(300 * time.Millisecond)
	return s.Log.Append(ctx, events...)
}

func TestCommandsComeThroughThoughTheDiskIsSlowOrTheObserverStalls(t *testing.T) {
	for name, stall := range map[string]bool{"slow disk": false, "stalled observer": true} {
		t.Run(name, func(t *testing.T) {
			inSite(t, func(s *site) {
				for i := range 20 {
					s.create(fmt.Sprint(i), 10)
				}
				if stall {
					s.stalled = make(chan struct{})
				}
				log := deploylog.Log(slow{s.log})
				ended := make(chan error, 1)
				go func() { ended <- s.untilIdle(reconcile.Options{Log: log}) }()
				reconciletest.Wait(3 * time.Second)
				before := time.Now()
				s.create("late", 1)
				assert.LessOrEqual(t, time.Since(before), 5*time.Second)
				if stall {
					close(s.stalled)
				}
				assert.NoError(t, <-ended)
				s.wantDone("7", 10)
				s.wantDone("late", 1)
			})
		})
	}
}

func TestADrainLetsWorkEndAndBeginsNothing(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 5)
		drain := make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- s.untilIdle(reconcile.Options{Log: s.log, Drain: drain}) }()
		reconciletest.Wait(1500 * time.Millisecond)
		close(drain)
		assert.NoError(t, <-ended)
		story := s.story("a")
		assert.Equal(t, []string{"counter-begun 2", "counter-done 2"}, story[len(story)-2:])
	})
}

func TestAScopeMayGrowAndShrink(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 1000)
		s.create("b", 1000)
		scope := reconcile.Only()
		kill := s.start(scope)
		remove := scope.Add("a")
		reconciletest.Wait(10 * time.Second)
		remove()
		reconciletest.Wait(2 * time.Second)
		done := len(s.story("a"))
		reconciletest.Wait(10 * time.Second)
		if n := len(s.story("a")); done < 10 || n != done || len(s.story("b")) != 1 || folded(s.log).Controlled("a") {
			t.Errorf("of a are %d and %d events, of b %d", done, n, len(s.story("b")))
		}
		kill()
	})
}
