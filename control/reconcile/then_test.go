package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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
		if name := fmt.Sprintf("%s %d", e.Name, e.Attempt); !slices.Contains(o.story("a"), name) {
			o.Errorf("it was told of %s of %s, which the log does not have", name, e.Target)
		}
	}
}

// conditional is a loop that records what ends together with what begins by that.
func (s *site) conditional(log deploylog.Log, o reconcile.Observer) *reconcile.Loop[*counter, string] {
	return reconcile.New(reconcile.Setup[*counter, string]{
		Options: reconcile.Options{Log: log, Parallelism: 10, Now: time.Now, UntilIdle: true},
		Fold:    folded(log), Tenant: &tenant{work: s.do}, Observer: o, Role: "counter's controller",
		Slots: func(string) int { return 100 }, Interrupted: errInterrupted, Conditional: true,
	})
}

// Whoever dies while an end is made durable together with the next beginning has recorded both or
// neither, and nobody was told of what is not in the log.
func TestALoopIsKilledWhileItRecordsAnEndAndWhatFollows(t *testing.T) {
	life := func(t *testing.T, lives int, last bool) (appends int) {
		inSite(t, func(s *site) {
			s.create("a", 4)
			m := &reconciletest.Mortal{Log: s.log, Lives: lives, Last: last}
			o := &told{site: s}
			if err := s.conditional(m, o).Run(s.Context()); err != nil && !errors.Is(err, reconciletest.ErrDead) {
				t.Error(err)
			}
			appends = m.Calls()
			o.wantInLog()
			story := s.story("a")
			if n := len(story); n%2 == 1 && n > 1 && n < 9 {
				t.Errorf("after %d appends an end is recorded without what follows: %q", lives, story)
			}
			if err := s.conditional(s.log, &told{site: s}).Run(s.Context()); err != nil {
				t.Error(err)
			}
			s.wantDone("a", 4)
		})
		return appends
	}
	appends := life(t, 1000, false)
	if appends != 5 {
		t.Errorf("4 beginnings and 4 ends were appended at %d times", appends)
	}
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
		if err := s.conditional(log, s).Run(s.Context()); !errors.Is(err, deploylog.ErrInvalid) {
			t.Errorf("it ended with %v", err)
		}
		if got := s.story("a"); len(got) != 5 || got[4] != "counter-done 2" {
			t.Errorf("the log tells %q of a", got)
		}
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
		if err := s.conditional(log, s).Run(s.Context()); err != nil {
			t.Error(err)
		}
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
		if !errors.Is(err, deploylog.ErrPoisoned) {
			t.Errorf("the write fails with %v", err)
		}
		if err := f.Follow(s.Context(), 0); !errors.Is(err, deploylog.ErrPoisoned) {
			t.Errorf("following the log ends with %v", err)
		}
		if err := f.Hold(s.Context(), func() error { return nil }); !errors.Is(err, deploylog.ErrPoisoned) {
			t.Errorf("deciding ends with %v", err)
		}
		if _, ok := kept.Snapshot(s.Context(), "counters"); ok {
			t.Error("a snapshot of what is not in the log was kept")
		}
	})
}
