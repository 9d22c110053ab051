package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// lost is what those are told whose locks are lost.
const lost = "the connection was lost by which this process had its locks"

// Wherever the connection is cut, what was acknowledged is there, once, and what was not is
// there or not, but nothing in between; and the log can be opened again.
func TestWhereverTheConnectionIsCutNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	poisoned := 0
	for _, after := range ends() {
		for parts := range 14 {
			schema := fmt.Sprintf("cut_%v_%d", after, parts)
			c, url := newCable(t, schema)
			c.after.Store(after)
			l := open(t, url)
			appends(t, l, event("before", "a"))
			c.parts.Store(int64(parts))
			acknowledged, ended := []string{"before"}, error(nil)
			for i := range 6 {
				deployment := fmt.Sprintf("d%d", i)
				_, err := l.Append(t.Context(), event(deployment, "a"), event(deployment, "b"))
				if err == nil {
					acknowledged = append(acknowledged, deployment)
				} else if ended = err; errors.Is(err, deploylog.ErrDuplicate) {
					t.Errorf("cut after %d parts: %v", parts, err)
				}
			}
			if errors.Is(ended, deploylog.ErrPoisoned) {
				poisoned++
			}
			c.parts.Store(whole)
			again := open(t, url)
			assert.NoError(t, errOf(again.Append(t.Context(), event("after", "a"))), "cut after %d parts", parts)
			found := map[string]int{}
			for _, e := range read(t, again, deploylog.Filter{}) {
				found[e.Deployment]++
			}
			for _, deployment := range acknowledged {
				assert.Contains(t, found, deployment, "cut after %d parts (the last reached the server: %v)", parts, after)
			}
			for deployment, n := range found {
				assert.True(t, n == 2 || !strings.HasPrefix(deployment, "d"), "cut after %d parts: of %s there are %d events", parts, deployment, n)
			}
			assert.NoError(t, errOf(again.Verify(t.Context())), "cut after %d parts", parts)
		}
	}
	assert.NotZero(t, poisoned, "no cut came where the outcome of a write was unknown")
}

// Who has lost its locks appends nothing. Who is told that an event is there already takes it for done,
// so that is not said either.
func TestWhoLosesTheConnectionOfItsLocksAppendsNothing(t *testing.T) {
	const schema = "lost_locks"
	l, other, repeats := open(t, server.URL(schema)), open(t, server.URL(schema)), open(t, server.URL("repeats"))
	unlock, err := l.TryLock("stage")
	require.NoError(t, err)
	err = errOf(other.TryLock("stage"))
	assert.ErrorIs(t, err, deploylog.ErrLocked)
	assert.ErrorContains(t, err, "process")
	require.NoError(t, errOf(repeats.TryLock("stage")))
	appends(t, l, event("d", "a"))
	appends(t, repeats, event("d", "a"))
	assert.ErrorIs(t, errOf(repeats.Append(t.Context(), event("d", "a"))), deploylog.ErrDuplicate, "with the lock")
	loseLocks(t)
	theirs, err := other.Lock(t.Context(), "stage")
	require.NoError(t, err)
	defer theirs()
	err = errOf(l.Append(t.Context(), event("d", "b")))
	assert.True(t, refused(err))
	assert.ErrorContains(t, err, lost)
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "b"))), deploylog.ErrPoisoned)
	unlock()
	held, err := other.Locked("stage")
	assert.True(t, held && err == nil, "it was given up for who has it now: %v", err)
	err = errOf(repeats.Append(t.Context(), event("d", "a")))
	assert.True(t, refused(err) && !errors.Is(err, deploylog.ErrDuplicate), "without the lock: %v", err)
}

// Who has locks and does nothing but wait is told that they are lost.
func TestWhoWaitsIsToldThatItsLocksAreLost(t *testing.T) {
	l := open(t, server.URL("idle"))
	l.SetAttendPause(10 * time.Millisecond)
	require.NoError(t, errOf(l.TryLock("stage")))
	ended := endOfWatch(t, l)
	loseLocks(t)
	assert.ErrorContains(t, soon(t, ended), lost)
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "a"))), deploylog.ErrPoisoned)
}

// endOfWatch is why a watch of what is to come ends.
func endOfWatch(t *testing.T, l deploylog.Log) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for _, err := range l.Watch(t.Context(), deploylog.Filter{After: 1 << 40}) {
			ended <- err
		}
	}()
	return ended
}

// A network that is gone without a word ends what is read over it, and what will be, as soon as the
// locks are known to be lost: nothing waits until TCP gives up, which it never does here.
func TestWhatIsReadEndsWhenTheNetworkIsGoneWithoutAWord(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "without_a_word")
	l := open(t, url)
	appends(t, l, event("d", "a"))
	require.NoError(t, errOf(l.TryLock("stage")))
	watches, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		for _, err := range l.Watch(t.Context(), deploylog.Filter{}) {
			if err != nil {
				watched <- err
			} else {
				close(watches)
			}
		}
	}()
	soon(t, watches)
	l.SetLockTime(time.Second)
	c.held.Store(true)
	read := func() error {
		for _, err := range l.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for what, err := range map[string]error{"a read": read(), "a watch": soon(t, watched), "a later read": read(), "a text": l.Objects().Keep("00", nil)} {
		assert.ErrorContains(t, err, lost, what)
	}
	assert.ErrorContains(t, errOf(l.Locked("stage")), "the connection was lost")
	assert.NoError(t, l.Close())
}

// Whether the locks are still there is asked for a batch, and not for each of its rows, since others
// wait meanwhile.
func TestManyEventsAskForLocksOnce(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("asked"))
	require.NoError(t, errOf(l.TryLock("stage")))
	sql(t, "asked", `CREATE SEQUENCE calls; ALTER FUNCTION alive RENAME TO is_alive;
		CREATE FUNCTION alive(session bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM nextval('calls'); RETURN is_alive(session); END $$`)
	require.NoError(t, errOf(l.Append(t.Context(), hosts("d", 500)...)))
	var calls int
	require.NoError(t, connected(t, server, "asked").QueryRow(t.Context(), "SELECT last_value FROM calls").Scan(&calls))
	assert.Equal(t, 1, calls)
}

// A process that is stopped keeps its connections, for which its machine answers. Its locks others
// have all the same, and it records nothing when it goes on.
func TestAProcessThatIsStoppedLosesItsLocks(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "stopped")
	l, other := open(t, url), open(t, server.URL("stopped"))
	l.SetPatience(8 * time.Second)
	require.NoError(t, errOf(l.TryLock("stage")))
	appends(t, l, event("d", "a"))
	c.held.Store(true)
	require.NoError(t, errOf(other.Lock(t.Context(), "stage")))
	c.held.Store(false)
	assert.True(t, refused(errOf(l.Append(t.Context(), event("d", "b")))), "who was stopped appends")
}

// Who says nothing for long, and goes on, keeps its locks.
func TestAProcessThatOnlyWaitsKeepsItsLocks(t *testing.T) {
	t.Parallel()
	const schema = "patient"
	l, other := open(t, server.URL(schema)+"&application_name=patient"), open(t, server.URL(schema))
	l.SetAttendPause(100 * time.Millisecond)
	require.NoError(t, errOf(l.TryLock("stage")))
	sql(t, schema, `DO $$ DECLARE heard timestamptz; pings int := 0; last timestamptz; BEGIN
		WHILE pings < 3 LOOP
			PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot();
			SELECT max(state_change) INTO heard FROM pg_stat_activity WHERE query = '-- ping' AND application_name = 'patient';
			IF heard IS DISTINCT FROM last THEN pings := pings + 1; last := heard; END IF;
		END LOOP; END $$`)
	held, err := other.Locked("stage")
	assert.True(t, held && err == nil, "it is held: %v, %v", held, err)
}

// Who waits for a lock of a server that hangs waits no longer than it says.
func TestALockIsNotWaitedForLongerThanSaid(t *testing.T) {
	t.Parallel()
	c, url := newCable(t, "hanging")
	l := open(t, url)
	unlock, err := l.TryLock("one")
	require.NoError(t, err)
	unlock()
	c.held.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, errOf(l.Lock(ctx, "two")), context.DeadlineExceeded)
	c.held.Store(false)
	c.cut()
}
