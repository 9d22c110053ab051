package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
)

// Whoever sends commands while the lock is held has them carried out together: each as of all before
// it, and each with an outcome of its own.
func TestChangesThatWaitedAreMadeDurableAtOnce(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 100)
		log := &decided{Log: s.log}
		f := folded(log)
		unlock, err := s.log.Lock(s.Context(), "counters")
		require.NoError(s, err)
		begin := func(c *counter) ([]deploylog.Event, error) {
			return []deploylog.Event{c.event("counter-begun", c.begun+1)}, nil
		}
		wrong := errors.New("it must not")
		gone, goes := context.WithCancel(s.Context())
		outcomes := map[string]string{}
		var mu sync.Mutex
		var all sync.WaitGroup
		send := func(ctx context.Context, as, name string, of func(*counter) ([]deploylog.Event, error)) {
			all.Go(func() {
				said := ""
				defer func() {
					if p := recover(); p != nil {
						said = fmt.Sprint("a panic: ", p)
					}
					mu.Lock()
					defer mu.Unlock()
					outcomes[as] = said
				}()
				written, err := f.Change(ctx, name, name == "new", of)
				for _, e := range written {
					said += fmt.Sprint(e.Name, " ", e.Attempt)
				}
				if err != nil {
					said += err.Error()
				}
			})
			synctest.Wait()
		}
		send(gone, "who leads and goes", "a", begin)
		send(s.Context(), "first", "a", begin)
		send(s.Context(), "second", "a", begin)
		send(s.Context(), "wrong", "a", func(*counter) ([]deploylog.Event, error) { return nil, wrong })
		send(s.Context(), "none", "b", begin)
		send(s.Context(), "mistaken", "a", func(*counter) ([]deploylog.Event, error) { panic("a mistake") })
		send(s.Context(), "nothing", "a", func(*counter) ([]deploylog.Event, error) { return nil, nil })
		send(s.Context(), "twice", "a", func(c *counter) ([]deploylog.Event, error) {
			return []deploylog.Event{c.event("counter-begun", 1)}, nil
		})
		send(s.Context(), "new", "new", func(c *counter) ([]deploylog.Event, error) {
			c.goal = 1
			return []deploylog.Event{c.event("counter-created", 1)}, nil
		})
		send(s.Context(), "after it", "new", begin)
		withdrawn, withdraw := context.WithCancel(s.Context())
		send(withdrawn, "withdrawn", "a", begin)
		withdraw()
		goes()
		synctest.Wait()
		unlock()
		all.Wait()
		for as, want := range map[string]string{
			"first": "counter-begun 1", "second": "counter-begun 2", "wrong": wrong.Error(), "nothing": "", "new": "counter-created 1", "after it": "counter-begun 1",
		} {
			assert.Equal(s, want, outcomes[as], as)
		}
		for as, want := range map[string]string{
			"none": "no such counter", "mistaken": "a panic: internal error while changing counter a: a mistake", "twice": deploylog.ErrDuplicate.Error(),
			"who leads and goes": context.Canceled.Error(), "withdrawn": context.Canceled.Error(),
		} {
			assert.Contains(s, outcomes[as], want, as)
		}
		assert.Equal(s, 2, f.States["a"].begun)
		fresh := folded(s.log)
		require.NoError(s, fresh.Follow(s.Context(), 0))
		assert.Equal(s, fresh.States, f.States, "what was folded is what the log says")
		assert.LessOrEqual(s, log.writes.Load(), int64(3), "those that waited were appended one by one")
	})
}

// A loop gives way to commands as long as they come one after the other, but not for ever.
func TestALoopGivesWayToCommands(t *testing.T) {
	inSite(t, func(s *site) {
		s.create("a", 3)
		s.work = func(string) error { return nil }
		var commands reconcile.Precedence
		back := commands.Take()
		ended := make(chan error, 1)
		go func() {
			ended <- s.untilIdle(reconcile.Options{Log: s.log, Commands: &commands})
		}()
		begun := func() int {
			f := folded(s.log)
			require.NoError(s, f.Follow(s.Context(), 0))
			return f.States["a"].begun
		}
		<-time.After(500 * time.Millisecond)
		assert.LessOrEqual(s, begun(), 1, "it has not waited")
		<-time.After(2 * time.Second)
		assert.GreaterOrEqual(s, begun(), 1, "it has waited for longer than it is to")
		back()
		<-time.After(100 * time.Millisecond)
		assert.Equal(s, 3, begun(), "nothing is sent any more")
		require.NoError(s, <-ended)
	})
}
