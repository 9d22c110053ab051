package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
)

// told is an observer that remembers what it is notified of.
type told struct {
	*site
	events []deploylog.Event
}

func (o *told) Recorded(e deploylog.Event) { o.events = append(o.events, e) }

// wantInLog compares what the observer was notified of with what the log has.
func (o *told) wantInLog() {
	o.Helper()
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
			if n := len(story); n%2 == 1 && n > 1 && n < 9 {
				t.Errorf("after %d appends an end is recorded without what follows: %q", lives, story)
			}
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

// What ended is recorded though what was decided then is refused; whose events these are is left
// out, and the others go on.
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
		_, err := f.Change(s.Context(), "a", false, func(*counter) ([]deploylog.Event, error) {
			return f.AppendThen(s.Context(), []deploylog.Event{lost}, func() []deploylog.Event { return nil })
		})
		assert.ErrorIs(t, err, deploylog.ErrPoisoned)
		assert.ErrorIs(t, f.Follow(s.Context(), 0), deploylog.ErrPoisoned)
		assert.ErrorIs(t, f.Hold(s.Context(), func() error { return nil }), deploylog.ErrPoisoned)
		_, ok := kept.Snapshot(s.Context(), "counters")
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

// What ends is recorded, and what begins by that decided, under one lock, and both are made durable
// at once.
func TestWhatEndsAndWhatBeginsByThatTakeOneLockAndOneWrite(t *testing.T) {
	inSite(t, func(s *site) {
		const goal = 100
		s.create("a", goal)
		log := &decided{Log: s.open()}
		setup := s.setup(reconcile.Options{Log: log, UntilIdle: true})
		setup.Tenant, setup.Conditional = &watchful{tenant: tenant{work: s.do}, t: t}, true
		assert.NoError(t, reconcile.New(setup).Run(s.Context()))
		s.wantDone("a", goal)
		assert.LessOrEqual(t, log.n.Load(), int64(goal+goal/10), "the lock is taken too often")
		assert.LessOrEqual(t, log.writes.Load(), int64(goal+goal/10), "it is made durable too often")
	})
}
