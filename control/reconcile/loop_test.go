package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
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
func (*tenant) Idle(c *counter) bool     { return c.done == c.goal }

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
	synctest.Test(t, func(t *testing.T) {
		s := &site{TB: t, open: reconciletest.InMemory(t), working: map[string]int{}, work: func(string) error { <-time.After(time.Second); return nil }}
		s.log = s.open()
		test(s)
	})
}

func (s *site) create(name string, goal int) {
	must.Get(folded(s.log).Change(s.Context(), name, true, func(c *counter) ([]deploylog.Event, error) {
		c.goal = goal
		return []deploylog.Event{c.event("counter-created", 1)}, nil
	}))(s)
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

func (s *site) Inform(text string) { s.Notice("as it is to be: " + text) }

func (s *site) wantNotices(want ...string) {
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

func (s *site) story(name string) (story []string) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Target: deploylog.Target("counter/" + name)}) {
		require.NoError(s, err)
		story = append(story, fmt.Sprintf("%s %d", e.Name, e.Attempt))
	}
	return story
}

func (s *site) wantDone(name string, goal int) {
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

func whole(encode func() error) reconcile.States[*counter] {
	return reconcile.States[*counter]{
		Target: func(name string) deploylog.Target { return deploylog.Target("counter/" + name) }, After: 1,
		Copy: func(c *counter) func() (json.RawMessage, error) {
			head := c.head
			return func() (json.RawMessage, error) { text, _ := json.Marshal(head); return text, encode() }
		},
		Restore: func(name string, data json.RawMessage) (*counter, error) {
			c := &counter{name: name}
			return c, json.Unmarshal(data, &c.head)
		},
	}
}

func TestASnapshotIsEncodedWithoutTheLock(t *testing.T) {
	kept := &reconciletest.Snapshots{Log: reconciletest.InMemory(t)()}
	append1 := func(n int) {
		must.Get(kept.Append(t.Context(), (&counter{name: "a", goal: 9}).event("counter-created", n)))(t)
	}
	append1(1)
	f, encoded := folded(kept), 0
	f.KeepStates(whole(func() error {
		encoded++
		if encoded > 1 {
			return nil
		}
		append1(2)
		asked := make(chan error, 1)
		go func() { asked <- f.Follow(t.Context(), 0) }()
		return waittest.Receive(t, asked, "another to follow the log while a snapshot is encoded")
	}))
	for want := int64(1); want <= 2; want++ {
		require.NoError(t, f.Follow(t.Context(), 0))
		if s, ok := kept.Snapshot(t.Context(), deploylog.SnapshotName("counters", 0)); !ok || s.Seq != want || encoded != int(want) || f.Head() != 2 {
			t.Fatalf("there is a snapshot of event %d, %t, after %d were encoded; event %d is followed", s.Seq, ok, encoded, f.Head())
		}
		if want == 1 {
			continue // the next one is that of what was followed while this one was encoded
		}
		again := folded(kept)
		again.KeepStates(whole(func() error { return nil }))
		if err := again.Follow(t.Context(), 0); err != nil || again.Head() != 2 {
			t.Errorf("whoever begins with it has followed %d: %v", again.Head(), err)
		}
	}
}

// full is a log beside which there is room for snapshots at times.
type full struct {
	deploylog.Log
	has func() bool // whether there is room
}

func (*full) Snapshot(context.Context, string) (s deploylog.Snapshot, ok bool) { return s, false }
func (f *full) KeepSnapshot(context.Context, string, deploylog.Snapshot) error {
	if f.has() {
		return nil
	}
	return errors.New("the disk is full")
}
func (*full) PruneSnapshots(time.Time, bool) (p deploylog.Pruned, err error) { return p, nil }

// It is said once, and again only after there was room.
func TestALoopSaysOnceThatNoSnapshotCanBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		room []bool // for the first snapshots; there is none for later ones
		says int
	}{
		"there never is room":            {nil, 1},
		"there is for a while":           {[]bool{false, true}, 2},
		"there is none after some while": {[]bool{true, true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inSite(t, func(s *site) {
				s.create("a", 9)
				tries := 0
				f := folded(&full{s.log, func() bool { tries++; return tries <= len(c.room) && c.room[tries-1] }})
				f.KeepStates(whole(func() error { return nil }))
				setup := s.setup(reconcile.Options{UntilIdle: true})
				setup.Fold = f
				require.NoError(t, reconcile.New(setup).Run(s.Context()))
				const says = "no snapshot of the counters can be kept, so that every process that begins reads all of the log: the disk is full"
				s.wantNotices(slices.Repeat([]string{says}, c.says)...)
				assert.GreaterOrEqual(t, tries, 4)
			})
		})
	}
}
