package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// A process that appends in a row presumes that it is alone. Whatever proves that wrong, the log
// is as it would be if it had looked.
func TestWhatIsPresumedWronglyIsLookedFor(t *testing.T) {
	const schema = "presumed"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
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
	for i := range many {
		if _, err := l.Append(t.Context(), event(fmt.Sprint(i/2), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			c.parts.Store(enough)
		}
	}
	// Where the machine is busy, it may have been too long since the append before.
	if parts := enough - c.parts.Load(); parts >= 2*(many-1) {
		t.Errorf("%d appends took %d messages", many-1, parts)
	}
}
