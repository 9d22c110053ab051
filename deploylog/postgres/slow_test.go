package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// sized is an event with so many bytes of data.
func sized(host string, bytes int) deploylog.Event {
	e := event("d", host)
	e.Data = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
	return e
}

// What is many times what a slow link takes within the time for an answer comes into the log all the
// same: that is about the link, and not about the server. Nor does that take who sends for somebody
// who hangs, however large one event is. TestRowsAreInsertedInParts and TestManySmallEventsAreAppendedInParts
// are the tests of this in make test.
func TestMuchIsAppendedOverASlowLink(t *testing.T) {
	if !ringtest.All() {
		return
	}
	t.Parallel()
	c, url := newCable(t, "slow")
	l := open(t, url)
	l.SetAnswerTime(10 * time.Second)
	l.SetTurnTime(10 * time.Second)
	appends(t, l, event("d", "first"))
	c.rate.Store(64 << 10)
	assert.NoError(t, errOf(l.Append(t.Context(), sized("one", deploylog.MaxData), sized("two", 200<<10), sized("three", 200<<10))))
	c.rate.Store(0)
	verified(t, l, 4)
}

// Many events of which each is small are looked for, and appended, in parts as well.
func TestManySmallEventsAreAppendedInParts(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("small"))
	events := make([]deploylog.Event, 3000)
	for i := range events {
		events[i] = event(fmt.Sprintf("%0500d", i), "a")
	}
	for range 2 {
		if _, err := l.Append(t.Context(), event("d", "first")); !errors.Is(err, deploylog.ErrDuplicate) {
			require.NoError(t, err)
		}
		_, err := l.AppendThen(t.Context(), []deploylog.Event{event("d", "last")}, func([]deploylog.Event) []deploylog.Event { return events })
		if !errors.Is(err, deploylog.ErrDuplicate) {
			require.NoError(t, err)
		}
	}
	assert.ErrorIs(t, errOf(l.Append(t.Context(), event("d", "other"), events[2000])), deploylog.ErrDuplicate, "one that is there")
	verified(t, l, 3002)
}

// A server that does not answer is waited for no longer for all that was sent to it before, which
// would be for longer than this one hangs.
func TestAServerThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const schema = "hangs"
	l := open(t, server.URL(schema))
	sql(t, schema, `CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(50); RETURN NEW; END $$;
		CREATE TRIGGER hang BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.target = 'host/last') EXECUTE FUNCTION hang()`)
	all := []deploylog.Event{sized("first", 600<<10), sized("second", 600<<10), event("d", "last")}
	assert.ErrorIs(t, errOf(l.AppendThen(t.Context(), all, func([]deploylog.Event) []deploylog.Event {
		l.SetAnswerTime(time.Second)
		return nil
	})), deploylog.ErrUnwritten)
	verified(t, open(t, server.URL(schema)), 0)
}
