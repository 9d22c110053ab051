package logtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// testThen demands of a store that is a deploylog.ThenAppender what that promises.
func testThen(t *testing.T, fresh func(testing.TB) Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func(testing.TB) Store)
	}{
		{"what follows is there with the events", appendsBoth},
		{"nothing follows", appendsNothingMore},
		{"refused events", decidesNothingOfRefusedEvents},
		{"what follows is refused", keepsEventsWithoutWhatIsRefused},
		{"beside others", tellsWhatNobodyCanRead},
		{"a panic", goesOnAfterAPanic},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh) })
	}
}

// appendThen appends to a log that can, and returns false for others.
func appendThen(t *testing.T, l deploylog.Log, then func([]deploylog.Event) []deploylog.Event, events ...deploylog.Event) (written []deploylog.Event, can bool, err error) {
	t.Helper()
	log, can := l.(deploylog.ThenAppender)
	if !can {
		return nil, false, nil
	}
	written, err = log.AppendThen(t.Context(), events, then)
	return written, true, err
}

func appendsBoth(t *testing.T, fresh func(testing.TB) Store) {
	store := fresh(t)
	l := store()
	before := mustAppend(t, l, event("d", "host/a", "host-started"))
	events := []deploylog.Event{event("d", "host/b", "host-started"), event("d", "host/c", "host-started")}
	var given []deploylog.Event
	more := [][]deploylog.Event{{event("d", "host/b", "host-failed"), event("e", "host/b", "host-started")}, {event("e", "host/b", "host-failed")}, nil}
	written, can, err := appendThen(t, l, func(unread []deploylog.Event) (then []deploylog.Event) {
		given = slices.Clone(unread)
		if d := diff(mustRead(t, l, deploylog.Filter{}), before); d != "" {
			t.Errorf("before what follows is known there is: %s", d)
		}
		then, more = more[0], more[1:]
		return then
	}, events...)
	if !can {
		return
	}
	if err != nil || len(written) != 5 || len(more) > 0 {
		t.Fatalf("%d events, %v; %d were not asked for", len(written), err, len(more))
	}
	if d := diff(given, written); d != "" {
		t.Errorf("it was decided from %s", d)
	}
	for i, e := range written {
		if e.Seq != int64(i+2) || e.ID == "" || e.CreatedAt.IsZero() {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := store()
	if d := diff(mustRead(t, again, deploylog.Filter{}), append(before, written...)); d != "" {
		t.Error(d)
	}
	if _, err := again.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func appendsNothingMore(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	nothing := func([]deploylog.Event) []deploylog.Event { return nil }
	written, can, err := appendThen(t, l, nothing, event("d", "host/a", "host-started"))
	if !can {
		return
	}
	if d := diff(mustRead(t, l, deploylog.Filter{}), written); d != "" || err != nil || len(written) != 1 {
		t.Error(written, err, d)
	}
	if written, _, err := appendThen(t, l, func([]deploylog.Event) []deploylog.Event {
		t.Error("something was decided from no events")
		return nil
	}); len(written) > 0 || err != nil {
		t.Errorf("of no events: %v, %v", written, err)
	}
}

func decidesNothingOfRefusedEvents(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	mustAppend(t, l, event("d", "host/a", "host-started"))
	invalid := event("d", "host/b", "host-started")
	invalid.Name = "Host Started"
	for want, e := range map[error]deploylog.Event{deploylog.ErrDuplicate: event("d", "host/a", "host-started"), deploylog.ErrInvalid: invalid} {
		written, can, err := appendThen(t, l, func([]deploylog.Event) []deploylog.Event {
			t.Errorf("%v: something was decided from what was refused", want)
			return nil
		}, event("e", "host/a", "host-started"), e)
		if can && (!errors.Is(err, want) || len(written) > 0) {
			t.Errorf("%v, %v; want %v", written, err, want)
		}
	}
	if n := len(mustRead(t, l, deploylog.Filter{})); n != 1 {
		t.Errorf("there are %d events", n)
	}
}

func keepsEventsWithoutWhatIsRefused(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	invalid := event("d", "host/z", "host-started")
	invalid.Name = "Host Started"
	mustAppend(t, l, event("old", "host/a", "host-started"))
	for i, c := range []struct {
		refused deploylog.Event
		want    error
	}{
		{event("old", "host/a", "host-started"), deploylog.ErrDuplicate},
		{event("new-1", "host/a", "host-started"), deploylog.ErrDuplicate}, // of the events that it follows
		{invalid, deploylog.ErrInvalid},
	} {
		deployment := fmt.Sprintf("new-%d", i)
		written, can, err := appendThen(t, l, func([]deploylog.Event) []deploylog.Event {
			return []deploylog.Event{event(deployment, "host/b", "host-started"), c.refused}
		}, event(deployment, "host/a", "host-started"))
		if !can {
			return
		}
		if !errors.Is(err, c.want) || len(written) != 1 {
			t.Errorf("%d: %v, %v; want one event and %v", i, written, err, c.want)
		}
		if d := diff(mustRead(t, l, deploylog.Filter{Deployment: deployment}), written); d != "" {
			t.Errorf("%d: %s", i, d)
		}
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// tellsWhatNobodyCanRead has callers at once: what one can read and what it is given is the log up
// to its own events, without a gap, and what follows comes right after them.
func tellsWhatNobodyCanRead(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	if _, can := l.(deploylog.ThenAppender); !can {
		return
	}
	const callers, times = 4, 25
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range times {
				deployment := fmt.Sprintf("d%d-%d", caller, n)
				if _, err := l.Append(t.Context(), event(deployment, "host/alone", "host-started")); err != nil {
					t.Error(err)
				}
				written, _, err := appendThen(t, l, func(unread []deploylog.Event) []deploylog.Event {
					next := unread[0].Seq
					if last, err := collect(t.Context(), l, deploylog.Filter{Last: 1}); err != nil || len(last) != 1 || last[0].Seq < next-1 {
						t.Errorf("%v, %v can be read, and event %d is the first that cannot", last, err, next)
					}
					for i, e := range unread {
						if e.Seq != next+int64(i) {
							t.Errorf("event %d is said to be the %dth after %d", e.Seq, i, next)
						}
					}
					last := unread[len(unread)-1]
					if last.Deployment == deployment && last.Target == "host/b" { // what was said to follow
						return nil
					}
					if last.Deployment != deployment || last.Target != "host/a" {
						t.Errorf("the last that nobody can read is %+v", last)
					}
					return []deploylog.Event{event(deployment, "host/b", "host-started")}
				}, event(deployment, "host/a", "host-started"))
				if err != nil || len(written) != 2 || written[1].Seq != written[0].Seq+1 {
					t.Errorf("%v, %v", written, err)
				}
			}
		})
	}
	all.Wait()
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 3*callers*times {
		t.Errorf("%+v, %v", v, err)
	}
}

func goesOnAfterAPanic(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	if _, can := l.(deploylog.ThenAppender); !can {
		return
	}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = appendThen(t, l, func([]deploylog.Event) []deploylog.Event { panic("a mistake") }, event("d", "host/a", "host-started"))
	}()
	next := mustAppend(t, l, event("d", "host/b", "host-started"))
	if all := mustRead(t, l, deploylog.Filter{}); all[len(all)-1].ID != next[0].ID {
		t.Errorf("after a panic there is %v", all)
	}
}
