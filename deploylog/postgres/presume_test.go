package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
)

// A process that appends in a row presumes that it is alone. Whatever proves that wrong, the log
// is as it would be if it had looked.
func TestWhatIsPresumedWronglyIsLookedFor(t *testing.T) {
	const schema = "presumed"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
	l.SetPresumeTime(time.Hour)
	appended := func(l deploylog.Log, deployment, host string) error {
		_, err := l.Append(t.Context(), event(deployment, host))
		return err
	}
	n := 0
	presuming := func() { // leaves it with all reason to presume
		for range 3 {
			n++
			if err := appended(l, "own", fmt.Sprint("before", n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func() error // what happens meanwhile
		then func() error
		want error
	}{
		{name: "somebody else has appended", do: func() error { return appended(other, "theirs", "a") }, then: func() error { return appended(l, "own", "a") }},
		{name: "somebody else has begun the deployment", do: func() error { return appended(other, "both", "a") }, then: func() error { return appended(l, "both", "b") }},
		{name: "the event is there", do: func() error { return nil }, then: func() error { return appended(l, "own", "before1") }, want: deploylog.ErrDuplicate},
		{name: "somebody else has appended the event", do: func() error { return appended(other, "same", "a") }, then: func() error { return appended(l, "same", "a") }, want: deploylog.ErrDuplicate},
		{name: "an event comes twice", do: func() error { return nil }, then: func() error {
			_, err := l.Append(t.Context(), event("twice", "a"), event("twice", "a"))
			return err
		}, want: deploylog.ErrDuplicate},
		{name: "a deployment goes on that this process knows nothing of", do: func() error { return appended(other, "older", "a") }, then: func() error {
			presuming()
			return appended(l, "older", "b")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			presuming()
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			if err := c.then(); !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
			presuming()
			if _, err := other.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	registered := map[string]int64{}
	for e, err := range other.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if registered[e.Deployment] == 0 {
			registered[e.Deployment] = e.Seq
		}
	}
	rows, err := connected(t, server, schema).Query(t.Context(), "SELECT DISTINCT deployment, registered FROM events")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for rows.Next() {
		var deployment string
		var first int64
		if err := rows.Scan(&deployment, &first); err != nil {
			t.Fatal(err)
		}
		if found[deployment] != 0 {
			t.Errorf("%s has begun twice", deployment)
		}
		found[deployment] = first
	}
	if fmt.Sprint(found) != fmt.Sprint(registered) {
		t.Errorf("deployments began at %v, and are said to have at %v", registered, found)
	}
}

// Who appends in a row waits for one answer of the server each time.
func TestWhoAppendsInARowWaitsForOneAnswer(t *testing.T) {
	const many, enough = 200, 1 << 20
	c, url := newCable(t, "in_a_row")
	l := open(t, url)
	l.SetPresumeTime(time.Hour)
	for i := range many {
		if _, err := l.Append(t.Context(), event(fmt.Sprint(i/2), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			c.parts.Store(enough)
		}
	}
	if parts := enough - c.parts.Load(); parts > many+10 {
		t.Errorf("%d appends took %d messages", many-1, parts)
	}
}

// whileWaiting has a log append under a lock, in a row, and once more while somebody else has the turn to
// append, until the returned function ends that.
func whileWaiting(t *testing.T, l *postgres.Log, schema string, late deploylog.Event) (appended <-chan error, goOn func()) {
	t.Helper()
	l.SetPresumeTime(time.Hour)
	for i := range 3 {
		if _, err := l.Append(t.Context(), event("own", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	turn, err := connected(t, server, schema).Begin(t.Context())
	if err == nil {
		_, err = turn.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", l.AppendKey())
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(context.Background(), late)
		done <- err
	}()
	awaitWaiting(t, 1)
	return done, func() {
		if err := turn.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// lacksLate fails if the event is there that was appended late.
func lacksLate(t *testing.T, l *postgres.Log) {
	t.Helper()
	for e, err := range l.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Deployment == "late" {
			t.Error("what was refused is in the log")
		}
	}
}

// Who loses its lock while it waits to append, and gives it up as lost, appends nothing, and is not told
// either that an event is there.
func TestWhoGivesUpALostLockAppendsNothing(t *testing.T) {
	for _, there := range []bool{false, true} {
		t.Run(fmt.Sprintf("the event is there: %v", there), func(t *testing.T) { testGivesUpALostLock(t, there) })
	}
}

func testGivesUpALostLock(t *testing.T, there bool) {
	schema := fmt.Sprintf("given_up_%v", there)
	l := open(t, server.URL(schema))
	l.SetTurnTime(longest)
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	late := event("late", "a")
	if there {
		late = event("own", "0")
	}
	appended, goOn := whileWaiting(t, l, schema, late)
	ended := make(chan error, 1)
	go func() {
		for _, err := range l.Watch(context.Background(), deploylog.Filter{After: 1 << 40}) {
			ended <- err
		}
	}()
	loseLocks(t, schema)
	if err := soon(t, ended); err == nil {
		t.Fatal("the watch goes on")
	}
	unlock()
	goOn()
	if err := soon(t, appended); !refused(err) {
		t.Errorf("without the lock: %v", err)
	}
	lacksLate(t, open(t, server.URL(schema)))
}

// A server still has what a lost connection has sent. Who is told that it was not written gives a
// lock up, and who takes that sees all that will ever come of it; the other locks are kept.
func TestWhatALostConnectionHasSentDoesNotComeLater(t *testing.T) {
	const schema = "sent"
	c, url := newCable(t, schema)
	l, other := open(t, url), open(t, server.URL(schema))
	l.SetTurnTime(longest)
	if _, err := l.Append(t.Context(), event("own", "first")); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	appending := c.all[len(c.all)-2]
	c.mu.Unlock()
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryLock("other"); err != nil {
		t.Fatal(err)
	}
	appended, goOn := whileWaiting(t, l, schema, event("late", "a"))
	if err := appending.Close(); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, appended); !refused(err) {
		t.Errorf("without a connection: %v", err)
	}
	unlock()
	if _, err := other.TryLock("stage"); err != nil {
		t.Error(err)
	}
	if _, err := other.TryLock("other"); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("a lock that was not given up: %v", err)
	}
	goOn()
	if _, err := other.Append(t.Context(), event("own", "after")); err != nil {
		t.Error(err)
	}
	lacksLate(t, other)
}
