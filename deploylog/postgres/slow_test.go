package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// sized is an event with so many bytes of data.
func sized(host string, bytes int) deploylog.Event {
	e := event("d", host)
	e.Data = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
	return e
}

// What is many times what a slow link takes within the time for an answer comes into the log all the
// same: that is about the link, and not about the server. Nor does that take who sends for somebody
// who hangs, however large one event is.
func TestMuchIsAppendedOverASlowLink(t *testing.T) {
	c, url := newCable(t, "slow")
	l := open(t, url)
	l.SetAnswerTime(10 * time.Second)
	l.SetTurnTime(10 * time.Second)
	if _, err := l.Append(t.Context(), event("d", "first")); err != nil {
		t.Fatal(err)
	}
	c.rate.Store(64 << 10)
	if _, err := l.Append(t.Context(), sized("one", deploylog.MaxData), sized("two", 200<<10), sized("three", 200<<10)); err != nil {
		t.Errorf("over a slow link: %v", err)
	}
	c.rate.Store(0)
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 4 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Many events of which each is small are looked for, and appended, in parts as well.
func TestManySmallEventsAreAppendedInParts(t *testing.T) {
	l := open(t, server.URL("small"))
	events := make([]deploylog.Event, 3000)
	for i := range events {
		events[i] = event(fmt.Sprintf("%0500d", i), "a")
	}
	for range 2 {
		if _, err := l.Append(t.Context(), event("d", "first")); err != nil && !errors.Is(err, deploylog.ErrDuplicate) {
			t.Fatal(err)
		}
		if _, err := l.AppendThen(t.Context(), []deploylog.Event{event("d", "last")}, func([]deploylog.Event) []deploylog.Event { return events }); err != nil && !errors.Is(err, deploylog.ErrDuplicate) {
			t.Fatal(err)
		}
	}
	again := append([]deploylog.Event{event("d", "other")}, events[2000])
	if _, err := l.Append(t.Context(), again...); !errors.Is(err, deploylog.ErrDuplicate) {
		t.Errorf("one that is there: %v", err)
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Events != 3002 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A server that does not answer is waited for no longer for all that was sent to it before.
func TestAServerThatHangsIsNotWaitedFor(t *testing.T) {
	const schema = "hangs"
	l := open(t, server.URL(schema))
	l.SetAnswerTime(10 * time.Second)
	sql(t, server, schema, `CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(50); RETURN NEW; END $$;
		CREATE TRIGGER hang BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.target = 'host/last') EXECUTE FUNCTION hang()`)
	began := time.Now()
	_, err := l.Append(t.Context(), sized("first", 600<<10), sized("second", 600<<10), event("d", "last"))
	if !errors.Is(err, deploylog.ErrUnwritten) || time.Since(began) > 40*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if v, err := open(t, server.URL(schema)).Verify(t.Context()); err != nil || v.Events != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
