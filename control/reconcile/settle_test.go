package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
)

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
		l := reconcile.New(reconcile.Setup[*counter, string]{
			Options:     reconcile.Options{Log: log, Parallelism: 10, Now: time.Now, UntilIdle: true},
			Fold:        folded(log),
			Tenant:      &watchful{tenant: tenant{work: s.do}, t: t},
			Observer:    s,
			Role:        "counter's controller",
			Slots:       func(string) int { return 100 },
			Interrupted: errInterrupted, Conditional: true,
		})
		if err := l.Run(s.Context()); err != nil {
			t.Error(err)
		}
		s.wantDone("a", goal)
		if n := log.n.Load(); n > goal+goal/10 {
			t.Errorf("for %d ends the lock was taken %d times", goal, n)
		}
		if n := log.writes.Load(); n > goal+goal/10 {
			t.Errorf("for %d ends, and as many beginnings, something was made durable %d times", goal, n)
		}
	})
}
