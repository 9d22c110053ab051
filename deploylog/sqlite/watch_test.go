package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/waittest"
)

// numbered are events, each of which says its number.
func numbered(from, n int, size int) (events []deploylog.Event) {
	for i := range n {
		data := fmt.Appendf(nil, `{"n":%d,"pad":%q}`, from+i, strings.Repeat("x", size))
		events = append(events, deploylog.Event{
			Deployment: "d", Target: "place/a", Name: fmt.Sprintf("place-noted-%d", from+i), Data: data,
		})
	}
	return events
}

// What is watched is every event, once and in order, whoever appended it and however much at once.
func TestWatchHasNoGaps(t *testing.T) {
	path := newPath(t)
	here, elsewhere := openLog(t, path), openLog(t, path)
	ctx := waittest.Context(t)
	const rounds = 60
	next := 0
	got := make(chan deploylog.Event, rounds*(keptEvents+1))
	failed := make(chan error, 1)
	go func() {
		for e, err := range here.Watch(ctx, deploylog.Filter{}) {
			if err != nil {
				failed <- err
				return
			}
			got <- e
		}
	}()
	for i := range rounds {
		by, n, size := here, 1+i%3, 0
		if i%4 == 3 {
			by = elsewhere
		}
		switch i % 20 {
		case 5:
			n = keptEvents + 1
		case 10:
			n, size = 3, keptBytes/2
		}
		require.NoError(t, errOf(by.Append(ctx, numbered(next, n, size)...)))
		next += n
	}
	for want := range next {
		select {
		case e := <-got:
			var says struct{ N int }
			err := json.Unmarshal(e.Data, &says)
			require.True(t, err == nil && says.N == want && e.Seq == int64(want+1), "event %d is %d of %.60s (%v), want %d", want+1, e.Seq, e.Data, err, want)
		case err := <-failed:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("event %d did not come", want+1)
		}
	}
}

// What this process appends a watch is given without its being read, and as it was when it was
// appended: whose event it was may do with it what they like.
func TestWatchIsGivenWhatIsAppendedHere(t *testing.T) {
	l := newLog(t)
	ctx := waittest.Context(t)
	grown := l.writer.growth()
	sent := numbered(0, 2, 0)
	want := string(sent[1].Data)
	written, err := l.Append(ctx, sent...)
	require.NoError(t, err)
	clear(sent[1].Data)
	written[1].Name = "other"
	select {
	case <-grown.over:
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	require.True(t, grown.from == 0 && grown.through == 2 && len(grown.events) == 2, "told of (%d, %d], %d events", grown.from, grown.through, len(grown.events))
	e := grown.events[1]
	assert.True(t, string(e.Data) == want && e.Name == "place-noted-1" && e.Seq == 2, "told of %+v", e)
	for read, err := range l.Read(ctx, deploylog.Filter{After: 1}) {
		assert.True(t, err == nil && fmt.Sprintf("%+v", read) == fmt.Sprintf("%+v", e), "read %+v (%v), told of %+v", read, err, e)
	}
	after := l.writer.growth().after
	assert.True(t, after == 2, "what comes next is after %d", after)
}

// A watch selects of what is appended here as it does of what it reads.
func TestWatchSelects(t *testing.T) {
	l := newLog(t)
	ctx := waittest.Context(t)
	got := make(chan deploylog.Event, 10)
	ready := make(chan struct{})
	go func() {
		for e, err := range l.Watch(ctx, deploylog.Filter{Target: "place/", Name: "place-noted-3"}) {
			if err != nil {
				return
			}
			if e.Attempt == 1 {
				close(ready)
				continue
			}
			got <- e
		}
	}()
	first := numbered(3, 1, 0)
	require.NoError(t, errOf(l.Append(ctx, first...)))
	<-ready
	other := first[0]
	other.Target, other.Attempt = "other/a", 2
	for _, e := range []deploylog.Event{numbered(4, 1, 0)[0], other, {Deployment: "d", Target: "place/b", Name: "place-noted-3", Attempt: 3}} {
		require.NoError(t, errOf(l.Append(ctx, e)))
	}
	select {
	case e := <-got:
		assert.True(t, e.Target == "place/b" && e.Seq == 4, "watched %+v", e)
	case <-ctx.Done():
		t.Error("nothing came")
	}
}
