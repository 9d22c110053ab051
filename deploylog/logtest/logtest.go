// Package logtest is the conformance suite that every store of a deployment
// log passes. It knows nothing of any store: what it demands is what
// deploylog.Log promises. A store's tests call Run and add what is particular
// to the store, such as what its files survive.
package logtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Store opens one and the same store again each time it is called, as another
// process would. Handles are closed by whoever made the Store, at the latest
// when its test ends; closing one earlier is allowed.
type Store func() deploylog.Log

// Run subjects a store to the suite. Fresh makes a new, empty store.
func Run(t *testing.T, fresh func(testing.TB) Store) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, func(testing.TB) Store)
	}{
		{"append", testAppend},
		{"append then", testThen},
		{"read", testRead},
		{"queries", testQueries},
		{"watch", testWatch},
		{"locks", testLocks},
		{"concurrency", testConcurrency},
		{"verify", testVerify},
		{"oracle", testOracle},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, fresh) })
	}
}

// at is a fixed instant, n nanoseconds past a round one.
func at(n int) time.Time {
	return time.Date(2026, 3, 14, 15, 9, 26, n, time.UTC)
}

// event is a valid event; tests change what they are about.
func event(deployment string, target deploylog.Target, name string) deploylog.Event {
	return deploylog.Event{Deployment: deployment, Target: target, Revision: "r-" + deployment, Name: name, Attempt: 1}
}

func mustAppend(t *testing.T, l deploylog.Log, events ...deploylog.Event) []deploylog.Event {
	t.Helper()
	appended, err := l.Append(t.Context(), events...)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if len(appended) != len(events) {
		t.Fatalf("append of %d events returned %d", len(events), len(appended))
	}
	return appended
}

// collect reads everything the filter selects.
func collect(ctx context.Context, l deploylog.Log, f deploylog.Filter) ([]deploylog.Event, error) {
	var events []deploylog.Event
	for e, err := range l.Read(ctx, f) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

func mustRead(t *testing.T, l deploylog.Log, f deploylog.Filter) []deploylog.Event {
	t.Helper()
	events, err := collect(t.Context(), l, f)
	if err != nil {
		t.Fatalf("read %+v: %v", f, err)
	}
	return events
}

// diff says how two histories differ; "" when they do not.
func diff(got, want []deploylog.Event) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d events, want %d\ngot  %v\nwant %v", len(got), len(want), names(got), names(want))
	}
	for i, e := range got {
		if w := want[i]; !equal(e, w) { //nolint:gosec // they are of one length
			return fmt.Sprintf("event %d is\n %+v, want\n %+v", i, e, w)
		}
	}
	return ""
}

func equal(a, b deploylog.Event) bool {
	return a.Seq == b.Seq && a.ID == b.ID && a.Deployment == b.Deployment && a.Target == b.Target &&
		a.Revision == b.Revision && a.Name == b.Name && a.Attempt == b.Attempt &&
		a.CreatedAt.Equal(b.CreatedAt) && string(a.Data) == string(b.Data)
}

func names(events []deploylog.Event) []string {
	s := make([]string, len(events))
	for i, e := range events {
		s[i] = e.Deployment + " " + e.Name
	}
	return s
}
