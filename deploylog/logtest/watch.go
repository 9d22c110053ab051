package logtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/waittest"
)

// follower watches a log in the background.
type follower struct {
	events chan deploylog.Event
	ended  chan error // the error the watch yielded last, once it has ended
	cancel context.CancelFunc
}

func follow(t *testing.T, l deploylog.Log, f deploylog.Filter) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	w := &follower{events: make(chan deploylog.Event), ended: make(chan error, 1), cancel: cancel}
	go func() {
		var last error
		defer func() { w.ended <- last }()
		for e, err := range l.Watch(ctx, f) {
			last = err
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(cancel)
	return w
}

func (w *follower) expect(t *testing.T, want ...deploylog.Event) {
	t.Helper()
	for _, e := range want {
		if got := waittest.Receive(t, w.events, "an event of the watch"); !equal(got, e) {
			w.cancel()
			t.Fatalf("watched %+v, want %+v; the watch says %v", got, e, w.end(t))
		}
	}
}

func (w *follower) end(t *testing.T) error {
	t.Helper()
	return waittest.Receive(t, w.ended, "the end of the watch")
}

func testWatch(t *testing.T, fresh func(testing.TB) Store) {
	t.Run("what was and what comes", func(t *testing.T) {
		store := fresh(t)
		l, other := store(), store()
		first := mustAppend(t, l, event("d1", "host/a", "host-started"), event("d1", "host/b", "host-started"))
		w := follow(t, l, deploylog.Filter{})
		w.expect(t, first...)
		for i := range 5 { // from this handle and from another, in turn
			w.expect(t, mustAppend(t, l, event("d2", "host/a", fmt.Sprintf("step-%c", 'a'+i)))...)
			w.expect(t, mustAppend(t, other, event("d3", "host/a", fmt.Sprintf("step-%c", 'a'+i)))...)
		}
		w.cancel()
		if err := w.end(t); err != nil {
			t.Errorf("the end of a watch is no error: %v", err)
		}
	})

	t.Run("only what is selected", func(t *testing.T) {
		l := fresh(t)()
		mustAppend(t, l, event("d1", "host/a", "host-started"), event("d1", "host/b", "host-started"), event("d2", "host/a", "host-started"))
		w := follow(t, l, deploylog.Filter{Target: "host/a", Last: 1})
		w.expect(t, mustRead(t, l, deploylog.Filter{Deployment: "d2"})...)
		mustAppend(t, l, event("d3", "host/b", "host-started"))
		w.expect(t, mustAppend(t, l, event("d3", "host/a", "host-started"))...)
	})

	t.Run("from a position in the future", func(t *testing.T) {
		l := fresh(t)()
		w := follow(t, l, deploylog.Filter{After: 2})
		mustAppend(t, l, event("d", "host/a", "step-a"), event("d", "host/a", "step-b"))
		third := mustAppend(t, l, event("d", "host/a", "step-c"))[0]
		got := waittest.Receive(t, w.events, "an event of the watch")
		if equal(got, third) {
			return
		}
		w.cancel()
		if err := w.end(t); got.Seq != 0 || err == nil || !strings.Contains(err.Error(), "there is no event 2 yet") {
			t.Errorf("watched %+v, want %+v or that there is no event 2 yet; the watch says %v", got, third, err)
		}
	})

	t.Run("ends at close", func(t *testing.T) {
		l := fresh(t)()
		w := follow(t, l, deploylog.Filter{})
		w.expect(t, mustAppend(t, l, event("d", "host/a", "step-a"))...)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		<-w.events // the yielded error's
		if err := w.end(t); err == nil {
			t.Error("a watch that was cut off ended as if its caller had left")
		}
	})

	t.Run("has no end to ask for", func(t *testing.T) {
		for _, err := range fresh(t)().Watch(t.Context(), deploylog.Filter{Until: 3}) {
			if err == nil {
				t.Error("no error")
			}
		}
	})
}

func testConcurrency(t *testing.T, fresh func(testing.TB) Store) {
	const handles, writers, each = 3, 8, 25
	store := fresh(t)
	watched := follow(t, store(), deploylog.Filter{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[int64]deploylog.Event{}
	won := 0
	for h := range handles {
		l := store()
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					own := event(fmt.Sprintf("d%d-%d", h, w), "host/a", fmt.Sprintf("step-%d", i))
					batch, err := l.Append(t.Context(), own, event(own.Deployment, "host/b", own.Name))
					if err != nil {
						t.Errorf("append: %v", err)
						return
					}
					mu.Lock()
					for _, e := range batch {
						acknowledged[e.Seq] = e
					}
					mu.Unlock()
					// All writers claim the same steps; one of them gets each.
					claim, err := l.Append(t.Context(), event("shared", "host/a", own.Name))
					mu.Lock()
					if err == nil {
						acknowledged[claim[0].Seq] = claim[0]
						won++
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if won != each {
		t.Errorf("%d of the contested steps were acknowledged, want each of %d once", won, each)
	}
	l := store()
	all := mustRead(t, l, deploylog.Filter{})
	if want := handles*writers*each*2 + each; len(all) != want {
		t.Fatalf("%d events, want %d", len(all), want)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has seq %d", i+1, e.Seq)
		}
		if !equal(e, acknowledged[e.Seq]) {
			t.Fatalf("event %d is %+v, but %+v was acknowledged", e.Seq, e, acknowledged[e.Seq])
		}
	}
	for i := range all {
		if all[i].Target == "host/a" && all[i].Deployment != "shared" && all[i+1].Target != "host/b" {
			t.Fatalf("the events %d and %d of one append were parted", i+1, i+2)
		}
	}
	watched.expect(t, all...)
}

func testVerify(t *testing.T, fresh func(testing.TB) Store) {
	store := fresh(t)
	l := store()
	empty, err := l.Verify(t.Context())
	if err != nil || empty.Events != 0 {
		t.Errorf("an empty log: %+v, %v", empty, err)
	}
	first := mustAppend(t, l, event("d", "host/a", "step-a"), event("d", "host/a", "step-b"))
	v, err := store().Verify(t.Context())
	if err != nil || v.Events != 2 || v.Head == empty.Head || v.Head == "" {
		t.Errorf("two events: %+v, %v", v, err)
	}
	copied := fresh(t)()
	mustAppend(t, copied, first[0])
	mustAppend(t, copied, first[1])
	if c, err := copied.Verify(t.Context()); err != nil || c != v {
		t.Errorf("a log of the same events: %+v, %v; want %+v", c, err, v)
	}
	mustAppend(t, l, event("d", "host/a", "step-c"))
	for _, known := range []deploylog.Head{empty.Anchor(), v.Anchor(), {Hash: v.Head}} {
		if now, err := l.Verify(t.Context(), known); err != nil || now.Events != 3 {
			t.Errorf("with the known head %s: %+v, %v", known, now, err)
		}
	}
	for _, foreign := range []deploylog.Head{
		{Seq: 1, Hash: v.Head}, {Seq: 4, Hash: v.Head}, {Seq: 2, Hash: empty.Head}, {Hash: strings.Repeat("ab", len(v.Head)/2)},
	} {
		if _, err := l.Verify(t.Context(), v.Anchor(), foreign); !errors.Is(err, deploylog.ErrCorrupt) || !strings.Contains(err.Error(), foreign.Hash) {
			t.Errorf("with the foreign head %s: error %v, want ErrCorrupt and which", foreign, err)
		}
	}
	other := fresh(t)()
	first[1].Revision += "x"
	mustAppend(t, other, first...)
	if c, err := other.Verify(t.Context()); err != nil || c.Head == v.Head {
		t.Errorf("a log of other events: %+v, %v", c, err)
	}
}
