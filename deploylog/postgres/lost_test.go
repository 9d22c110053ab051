package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
)

// Wherever the connection is cut, what was acknowledged is there, once, and what was not is
// there or not, but nothing in between; and the log can be opened again.
func TestWhereverTheConnectionIsCutNothingIsLostOrDoubled(t *testing.T) {
	poisoned := 0
	for _, after := range []bool{false, true} {
		for parts := range 14 {
			schema := fmt.Sprintf("cut_%v_%d", after, parts)
			c, url := newCable(t, schema)
			c.after.Store(after)
			l := open(t, url)
			if _, err := l.Append(t.Context(), event("before", "a")); err != nil {
				t.Fatal(err)
			}
			c.parts.Store(int64(parts))
			acknowledged, ended := map[string]bool{"before": true}, error(nil)
			for i := range 6 {
				deployment := fmt.Sprintf("d%d", i)
				_, err := l.Append(t.Context(), event(deployment, "a"), event(deployment, "b"))
				if err == nil {
					acknowledged[deployment] = true
				} else if ended = err; errors.Is(err, deploylog.ErrDuplicate) {
					t.Errorf("cut after %d parts: %v", parts, err)
				}
			}
			if errors.Is(ended, deploylog.ErrPoisoned) {
				poisoned++
			}
			c.parts.Store(1 << 40)
			again := open(t, url)
			if _, err := again.Append(t.Context(), event("after", "a")); err != nil {
				t.Errorf("cut after %d parts: %v", parts, err)
			}
			found := map[string]int{}
			for e, err := range again.Read(t.Context(), deploylog.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				found[e.Deployment]++
			}
			for deployment := range acknowledged {
				if found[deployment] == 0 {
					t.Errorf("cut after %d parts (the last reached the server: %v): %s was acknowledged, and is not there", parts, after, deployment)
				}
			}
			for deployment, n := range found {
				if strings.HasPrefix(deployment, "d") && n != 2 {
					t.Errorf("cut after %d parts: of %s there are %d events", parts, deployment, n)
				}
			}
			if _, err := again.Verify(t.Context()); err != nil {
				t.Errorf("cut after %d parts: %v", parts, err)
			}
		}
	}
	if poisoned == 0 {
		t.Error("no cut came where the outcome of a write was unknown")
	}
}

// refused reports whether an append failed since it, or what came before it, was not to be written.
func refused(err error) bool {
	return errors.Is(err, deploylog.ErrUnwritten) || errors.Is(err, deploylog.ErrPoisoned)
}

func TestWhoLosesTheConnectionOfItsLocksAppendsNothing(t *testing.T) {
	schema := "lost_locks"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock("stage"); !errors.Is(err, deploylog.ErrLocked) || !strings.Contains(err.Error(), "process") {
		t.Errorf("it is held, and the error is %v", err)
	}
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	loseLocks(t, schema)
	theirs, err := other.Lock(t.Context(), "stage")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs()
	_, err = l.Append(t.Context(), event("d", "b"))
	if !refused(err) || !strings.Contains(err.Error(), "the connection was lost by which this process had its locks") {
		t.Errorf("an append without the lock: %v", err)
	}
	if _, err = l.Append(t.Context(), event("d", "b")); !errors.Is(err, deploylog.ErrPoisoned) {
		t.Errorf("another: %v", err)
	}
	unlock()
	if held, err := other.Locked("stage"); !held || err != nil {
		t.Errorf("it was given up for who has it now: %v, %v", held, err)
	}
}

// Who has locks and does nothing but wait is told that they are lost.
func TestWhoWaitsIsToldThatItsLocksAreLost(t *testing.T) {
	l := open(t, server.URL("idle"))
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for _, err := range l.Watch(t.Context(), deploylog.Filter{}) {
			ended <- err
		}
	}()
	loseLocks(t, "idle")
	if err := soon(t, ended); err == nil || !strings.Contains(err.Error(), "the connection was lost by which this process had its locks") {
		t.Errorf("%v", err)
	}
	if _, err := l.Append(t.Context(), event("d", "a")); !errors.Is(err, deploylog.ErrPoisoned) {
		t.Errorf("an append: %v", err)
	}
}

// A network that is gone without a word ends what is read over it, and what will be, as soon as the
// locks are known to be lost: nothing waits until TCP gives up.
func TestWhatIsReadEndsWhenTheNetworkIsGoneWithoutAWord(t *testing.T) {
	c, url := newCable(t, "without_a_word")
	l := open(t, url)
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	l.SetLockTime(20 * time.Second)
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
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
	c.held.Store(true)
	read := func() error {
		for _, err := range l.Read(t.Context(), deploylog.Filter{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	began := time.Now()
	for what, err := range map[string]error{"a read": read(), "a watch": soon(t, watched), "a later read": read(), "a text": l.Objects().Keep("00", nil)} {
		if err == nil || !strings.Contains(err.Error(), "the connection was lost by which this process had its locks") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := l.Locked("stage"); err == nil || !strings.Contains(err.Error(), "the connection was lost") {
		t.Errorf("whether it is locked: %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("they ended after %s", took)
	}
	began = time.Now()
	if err := l.Close(); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("it is closed after %s: %v", time.Since(began), err)
	}
}

// Whether the locks are still there is asked for a batch, and not for each of its rows, since others
// wait meanwhile.
func TestManyEventsAskForLocksOnce(t *testing.T) {
	l := open(t, server.URL("asked"))
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	sql(t, server, "asked", `CREATE SEQUENCE calls; ALTER FUNCTION alive RENAME TO is_alive;
		CREATE FUNCTION alive(session bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM nextval('calls'); RETURN is_alive(session); END $$`)
	events := make([]deploylog.Event, 500)
	for i := range events {
		events[i] = event("d", fmt.Sprint(i))
	}
	if _, err := l.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	sql(t, server, "asked", "DO $$ BEGIN IF (SELECT last_value FROM calls) <> 1 THEN RAISE 'it was asked % times', (SELECT last_value FROM calls); END IF; END $$")
}

// A server that is started again is no failure for who was not appending, and locks are free.
func TestAServerThatIsStartedAgain(t *testing.T) {
	s, err := pgtest.New()
	s = started(t, s, err)
	l, holder := open(t, s.URL("log")), open(t, s.URL("log"))
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	watched := make(chan deploylog.Event)
	go func() {
		for e, err := range l.Watch(t.Context(), deploylog.Filter{After: 1}) {
			if err != nil {
				t.Error(err)
				return
			}
			watched <- e
			return
		}
	}()
	if _, err := holder.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event("d", "b")); err == nil || errors.Is(err, deploylog.ErrPoisoned) || errors.Is(err, deploylog.ErrUnwritten) {
		t.Errorf("without a server: %v", err)
	}
	if _, err := postgres.Open(t.Context(), s.URL("log"), postgres.Options{}); err == nil || !strings.Contains(err.Error(), "is the server running there?") {
		t.Errorf("opened without a server: %v", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event("d", "b")); err != nil {
		t.Errorf("with a server again: %v", err)
	}
	unlock, err := l.TryLock("stage")
	if err != nil {
		t.Fatalf("the lock of a server that was killed: %v", err)
	}
	defer unlock()
	if _, err := holder.Append(t.Context(), event("d", "c")); !refused(err) {
		t.Errorf("who had a lock appends: %v", err)
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A process that is stopped keeps its connections, for which its machine answers. Its locks others
// have all the same, and it records nothing when it goes on.
func TestAProcessThatIsStoppedLosesItsLocks(t *testing.T) {
	c, url := newCable(t, "stopped")
	l, other := open(t, url), open(t, server.URL("stopped"))
	l.SetPatience(8 * time.Second)
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	c.held.Store(true)
	unlock, err := other.Lock(t.Context(), "stage")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	c.held.Store(false)
	if _, err := l.Append(t.Context(), event("d", "b")); !refused(err) {
		t.Errorf("who was stopped appends: %v", err)
	}
}

// Who says nothing for long, and goes on, keeps its locks.
func TestAProcessThatOnlyWaitsKeepsItsLocks(t *testing.T) {
	l, other := open(t, server.URL("patient")), open(t, server.URL("patient"))
	l.SetPatience(20 * time.Second)
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	sql(t, server, "patient", `DO $$ DECLARE heard timestamptz; pings int := 0; last timestamptz; BEGIN
		WHILE pings < 3 LOOP
			PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot();
			SELECT max(state_change) INTO heard FROM pg_stat_activity WHERE query = '-- ping';
			IF heard IS DISTINCT FROM last THEN pings := pings + 1; last := heard; END IF;
		END LOOP; END $$`)
	if held, err := other.Locked("stage"); !held || err != nil {
		t.Errorf("it is held: %v, %v", held, err)
	}
}

// Who waits for a lock of a server that hangs waits no longer than it says.
func TestALockIsNotWaitedForLongerThanSaid(t *testing.T) {
	c, url := newCable(t, "hanging")
	l := open(t, url)
	unlock, err := l.TryLock("one")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	c.held.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := l.Lock(ctx, "two"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	c.held.Store(false)
	c.cut()
}
