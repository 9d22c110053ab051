package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/crash"
)

// changes are those of a fold that wait for the lock of the log. Who gets it carries out all of them,
// each as of all before it, and has them made durable at once: so many who send commands wait little
// longer than one.
type changes[S Machine] struct {
	mu      sync.Mutex
	waiting []*change[S]
	leading chan struct{} // has one while somebody carries out what waits
}

// manyChanges is how many changes are made durable at once, at most.
const manyChanges = 32

// change is what somebody wants to be changed.
type change[S Machine] struct {
	name   string
	create bool
	of     func(S) ([]deploylog.Event, error)
	done   chan struct{} // closed when the rest is known

	written  []deploylog.Event
	err      error
	panicked *crash.Error // of that, which is its caller's and not that of who leads
}

func (c *change[S]) end(written []deploylog.Event, err error) {
	c.written, c.err = written, err
	close(c.done)
}

// Change appends what change makes of the newest state, and returns it. Nothing
// else of the kind changes until change returns, so it must neither wait for people nor
// call back. create lets it begin a name that there is not yet.
func (f *Fold[S]) Change(ctx context.Context, name string, create bool, of func(S) ([]deploylog.Event, error)) ([]deploylog.Event, error) {
	for {
		mine := &change[S]{name: name, create: create, of: of, done: make(chan struct{})}
		f.changes.add(mine)
		select {
		case <-mine.done:
		case f.changes.leading <- struct{}{}:
			f.lead(ctx, mine)
		case <-ctx.Done():
			if f.changes.withdraw(mine) { // the log knows what it is that was waited for
				return nil, f.Hold(ctx, func() error { return fmt.Errorf("locking the %s: %w", f.Many, context.Cause(ctx)) })
			}
			<-mine.done
		}
		if mine.panicked != nil {
			panic(mine.panicked)
		}
		// Who led may have given up, which says nothing of what others want.
		if mine.err == nil || ctx.Err() != nil || !errors.Is(mine.err, context.Canceled) && !errors.Is(mine.err, context.DeadlineExceeded) {
			return mine.written, mine.err
		}
	}
}

func (c *changes[S]) add(one *change[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, one)
}

// withdraw has a change not carried out, and reports whether it waited yet.
func (c *changes[S]) withdraw(one *change[S]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, one)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

// take removes those that have waited longest.
func (c *changes[S]) take() []*change[S] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), manyChanges)
	taken := slices.Clone(c.waiting[:n])
	c.waiting = slices.Delete(c.waiting, 0, n)
	return taken
}

// lead carries out what waits until that change is done which it leads for.
func (f *Fold[S]) lead(ctx context.Context, mine *change[S]) {
	defer func() { <-f.changes.leading }()
	for {
		select {
		case <-mine.done:
			return
		default:
		}
		err := f.Hold(ctx, func() error {
			f.carryOut(ctx, f.changes.take())
			return nil
		})
		if err != nil && f.changes.withdraw(mine) {
			mine.end(nil, err)
		}
	}
}

// carryOut changes states one after the other, for who Holds.
func (f *Fold[S]) carryOut(ctx context.Context, all []*change[S]) {
	for len(all) > 0 && f.ahead == nil {
		all = f.carryOutTogether(ctx, all)
	}
	for _, c := range all {
		c.end(nil, f.ahead)
	}
}

// proposed is what a change comes to.
func (f *Fold[S]) proposed(c *change[S]) (events []deploylog.Event, err error) {
	s, ok := f.States[c.name]
	if !ok {
		if !c.create {
			return nil, f.unknown(c.name)
		}
		s = f.Begin(c.name)
	}
	err = crash.Do("changing "+f.One+" "+c.name, func() (err error) {
		events, err = c.of(s)
		return err
	})
	if errors.As(err, &c.panicked) || err != nil {
		return nil, err
	}
	return events, nil
}

// carryOutTogether has changes made durable at once, up to one that the log refuses, and returns the
// rest.
func (f *Fold[S]) carryOutTogether(ctx context.Context, all []*change[S]) (rest []*change[S]) {
	var appended []*change[S] // the log may refuse the last of them
	next := func() []deploylog.Event {
		for len(all) > 0 {
			c := all[0]
			all = all[1:]
			events, err := f.proposed(c)
			if len(events) > 0 {
				c.written, appended = events, append(appended, c)
				return events
			}
			c.end(nil, err)
		}
		return nil
	}
	first := next()
	if first == nil {
		return nil
	}
	written, err := f.AppendThen(ctx, first, next)
	lost := len(written) == 0
	for i, c := range appended {
		n := min(len(c.written), len(written))
		own := written[:n]
		written = written[n:]
		if lost || i == len(appended)-1 {
			c.end(own, err)
		} else {
			c.end(own, nil)
		}
	}
	return all
}
