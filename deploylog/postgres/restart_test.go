package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
)

// outcomes are what several who append were told.
type outcomes struct {
	acknowledged sync.Map     // deployments
	count        atomic.Int64 // of these
	unknown      atomic.Int64 // appends that failed while events were on their way
	unsent       atomic.Int64 // appends that failed before
}

// appendsThroughout appends one event after the other through a log of its own. Where one failed, it waits until
// the server is up and appends the same event again, through a log that it opens anew where that
// is necessary. It ends when the server has been up for so many events.
func (o *outcomes) appendsThroughout(ctx context.Context, url, name string, up <-chan struct{}, more int) error {
	l, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	for i := 0; more > 0; i++ {
		select {
		case <-up:
			more--
		default:
		}
		deployment := fmt.Sprintf("%s-%d", name, i)
		for sent, done := false, false; !done; {
			_, err := l.Append(ctx, event(deployment, "a"), event(deployment, "b"))
			switch {
			case err == nil, sent && errors.Is(err, deploylog.ErrDuplicate):
				o.acknowledged.Store(deployment, true)
				o.count.Add(1)
				done = true
				continue
			case errors.Is(err, deploylog.ErrDuplicate):
				return fmt.Errorf("%s is there, and no append of it has succeeded or may have: %w", deployment, err)
			case refused(err):
				sent = true
				o.unknown.Add(1)
			default:
				o.unsent.Add(1)
			}
			select {
			case <-up:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !refused(err) {
				continue
			}
			_ = l.Close()
			if l, err = postgres.Open(ctx, url, postgres.Options{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// A server that crashes while many append loses nothing that it has acknowledged, and has nothing twice.
// What is said to be not on its way is not there, so it can be appended again.
func TestAServerThatCrashesWhileManyAppend(t *testing.T) {
	s, err := pgtest.New()
	s = started(t, s, err)
	reader := open(t, s.URL("log"))
	told, up := &outcomes{}, make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if err := told.appendsThroughout(ctx, s.URL("log"), fmt.Sprint(n), up, 10); err != nil {
				t.Error(err)
			}
		})
	}
	wait(t, s, "SELECT count(*) >= 200 FROM log.events")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	close(up)
	all.Wait()
	if told.unknown.Load()+told.unsent.Load() == 0 {
		t.Error("no append failed")
	}
	found, last := map[string]int{}, int64(0)
	for e, err := range reader.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Errorf("after event %d comes %d", last, e.Seq)
		}
		last = e.Seq
		found[e.Deployment]++
	}
	for deployment, n := range found {
		if _, acknowledged := told.acknowledged.Load(deployment); n != 2 || !acknowledged {
			t.Errorf("of %s there are %d events, acknowledged: %v", deployment, n, acknowledged)
		}
	}
	if int64(len(found)) != told.count.Load() {
		t.Errorf("%d are acknowledged, and %d are there", told.count.Load(), len(found))
	}
	if v, err := reader.Verify(t.Context()); err != nil || v.Events != last {
		t.Errorf("%+v, %v", v, err)
	}
}
