package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/waittest"
)

// A process that appends in a row presumes that it is alone. Whatever proves that wrong, the log
// is as it would be if it had looked.
func TestWhatIsPresumedWronglyIsLookedFor(t *testing.T) {
	t.Parallel()
	const schema = "presumed"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
	l.SetPresumeTime(time.Hour)
	appended := func(l deploylog.Log, deployment, host string) error {
		return errOf(l.Append(t.Context(), event(deployment, host)))
	}
	n := 0
	presuming := func() { // leaves it with all reason to presume
		for range 3 {
			n++
			require.NoError(t, appended(l, "own", fmt.Sprint("before", n)))
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
			return errOf(l.Append(t.Context(), event("twice", "a"), event("twice", "a")))
		}, want: deploylog.ErrDuplicate},
		{name: "a deployment goes on that this process knows nothing of", do: func() error { return appended(other, "older", "a") }, then: func() error {
			presuming()
			return appended(l, "older", "b")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			presuming()
			require.NoError(t, c.do())
			assert.ErrorIs(t, c.then(), c.want)
			presuming()
			assert.NoError(t, errOf(other.Verify(t.Context())))
		})
	}
	registered, found := map[string]int64{}, map[string]int64{}
	for _, e := range read(t, other, deploylog.Filter{}) {
		if registered[e.Deployment] == 0 {
			registered[e.Deployment] = e.Seq
		}
	}
	rows, err := connected(t, server, schema).Query(t.Context(), "SELECT DISTINCT deployment, registered FROM events")
	require.NoError(t, err)
	var deployment string
	var first int64
	_, err = pgx.ForEachRow(rows, []any{&deployment, &first}, func() error {
		assert.Zero(t, found[deployment], "%s has begun twice", deployment)
		found[deployment] = first
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, registered, found)
}

// Who appends in a row waits for one answer of the server each time.
func TestWhoAppendsInARowWaitsForOneAnswer(t *testing.T) {
	t.Parallel()
	const many, enough = 200, 1 << 20
	c, url := newCable(t, "in_a_row")
	l := open(t, url)
	l.SetPresumeTime(time.Hour)
	for i := range many {
		require.NoError(t, errOf(l.Append(t.Context(), event(fmt.Sprint(i/2), fmt.Sprint(i)))))
		if i == 0 {
			c.parts.Store(enough)
		}
	}
	assert.LessOrEqual(t, enough-c.parts.Load(), int64(many+10), "messages of %d appends", many-1)
}

// whileWaiting has a log append under a lock, in a row, and once more while somebody else has the turn to
// append, until the returned function ends that.
func whileWaiting(t *testing.T, l *postgres.Log, schema string, late deploylog.Event) (appended <-chan error, goOn func()) {
	t.Helper()
	l.SetPresumeTime(time.Hour)
	appends(t, l, hosts("own", 3)...)
	turn, err := connected(t, server, schema).Begin(t.Context())
	if err == nil {
		_, err = turn.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", l.AppendKey())
	}
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- errOf(l.Append(context.Background(), late)) }()
	awaitWaiting(t, 1)
	return done, func() { assert.NoError(t, turn.Rollback(t.Context())) }
}

// lacksLate fails if the event is there that was appended late.
func lacksLate(t *testing.T, l *postgres.Log) {
	t.Helper()
	assert.Empty(t, read(t, l, deploylog.Filter{Deployment: "late"}), "what was refused is in the log")
}

// Who loses its lock while it waits to append, and gives it up as lost, appends nothing, and is not told
// either that an event is there.
func TestWhoGivesUpALostLockAppendsNothing(t *testing.T) {
	for there, late := range map[bool]deploylog.Event{false: event("late", "a"), true: event("own", "0")} {
		t.Run(fmt.Sprintf("the event is there: %v", there), func(t *testing.T) {
			schema := fmt.Sprintf("given_up_%v", there)
			l := open(t, server.URL(schema))
			l.SetTurnTime(waittest.Limit)
			l.SetAttendPause(10 * time.Millisecond)
			unlock, err := l.TryLock("stage")
			require.NoError(t, err)
			appended, goOn := whileWaiting(t, l, schema, late)
			ended := endOfWatch(t, l)
			loseLocks(t)
			require.Error(t, soon(t, ended), "the watch goes on")
			unlock()
			goOn()
			assert.True(t, refused(soon(t, appended)), "without the lock")
			lacksLate(t, open(t, server.URL(schema)))
		})
	}
}

// A server still has what a lost connection has sent. Who is told that it was not written gives a
// lock up, and who takes that sees all that will ever come of it; the other locks are kept.
func TestWhatALostConnectionHasSentDoesNotComeLater(t *testing.T) {
	const schema = "sent"
	c, url := newCable(t, schema)
	l, other := open(t, url), open(t, server.URL(schema))
	l.SetTurnTime(waittest.Limit)
	appends(t, l, event("own", "first"))
	c.mu.Lock()
	appending := c.all[len(c.all)-2]
	c.mu.Unlock()
	unlock, err := l.TryLock("stage")
	require.NoError(t, err)
	require.NoError(t, errOf(l.TryLock("other")))
	appended, goOn := whileWaiting(t, l, schema, event("late", "a"))
	require.NoError(t, appending.Close())
	assert.True(t, refused(soon(t, appended)), "without a connection")
	unlock()
	assert.NoError(t, errOf(other.TryLock("stage")))
	assert.ErrorIs(t, errOf(other.TryLock("other")), deploylog.ErrLocked, "a lock that was not given up")
	goOn()
	assert.NoError(t, errOf(other.Append(t.Context(), event("own", "after"))))
	lacksLate(t, other)
}
