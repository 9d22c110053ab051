package logtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/deploylog"
)

func testAppend(t *testing.T, fresh func(testing.TB) Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func(testing.TB) Store)
	}{
		{"assigns what is missing", assignsWhatIsMissing},
		{"keeps what is given", keepsWhatIsGiven},
		{"ids sort as they were made", sortsIDs},
		{"nothing", appendsNothing},
		{"a step completes once", completesAStepOnce},
		{"all or none", appendsAllOrNone},
		{"refuses invalid events", refusesInvalidEvents},
		{"takes the largest event", takesTheLargestEvent},
		{"very many deployments go on", goesOnWithManyDeployments},
		{"a withdrawn append", dropsAWithdrawnAppend},
		{"after close", refusesAfterClose},
		{"is there after reopening", isThereAfterReopening},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, fresh) })
	}
}

func assignsWhatIsMissing(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	first := mustAppend(t, l, deploylog.Event{Deployment: "d", Target: "resource/db", Name: "resource-started"})[0]
	if first.Seq != 1 || first.Attempt != 1 {
		t.Errorf("seq %d, attempt %d; want 1 and 1", first.Seq, first.Attempt)
	}
	if _, err := ulid.ParseStrict(first.ID); err != nil {
		t.Errorf("id %q: %v", first.ID, err)
	}
	if first.CreatedAt.IsZero() || first.CreatedAt.Location() != time.UTC {
		t.Errorf("created at %v, want a time in UTC", first.CreatedAt)
	}
}

func keepsWhatIsGiven(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	e := deploylog.Event{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Deployment: "name/prod:3@now", Target: "stage/ant gateway/b@ta:ü", Revision: "v1 'quoted' \"twice\" 100%",
		Name: "x2-y", Attempt: 7, CreatedAt: at(123456789).In(time.FixedZone("x", 3600)), Data: json.RawMessage("{\n \"a\" : [1, null, \"\\u0000 ü\"] }"),
	}
	appended := mustAppend(t, l, e)
	e.Seq = 1
	if d := diff(appended, []deploylog.Event{e}); d != "" {
		t.Error(d)
	}
	if d := diff(mustRead(t, l, deploylog.Filter{}), []deploylog.Event{e}); d != "" {
		t.Errorf("read back: %s", d)
	}
	if at := mustRead(t, l, deploylog.Filter{})[0].CreatedAt; at.Location() != time.UTC {
		t.Errorf("created_at is in %v, want UTC", at.Location())
	}
}

// Where a deployment began is part of what holds events together, however many go on at once.
func goesOnWithManyDeployments(t *testing.T, fresh func(testing.TB) Store) {
	const many = 3000
	store := fresh(t)
	for _, name := range []string{"step-a", "step-b", "step-c"} {
		l := store() // which knows of none of them yet
		events := make([]deploylog.Event, many)
		for i := range events {
			events[i] = event(fmt.Sprintf("d%d", i), "host/a", name)
		}
		mustAppend(t, l, events...)
		if v, err := l.Verify(t.Context()); err != nil {
			t.Fatalf("after %s: %+v, %v", name, v, err)
		}
	}
}

func sortsIDs(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	var events []deploylog.Event
	for i := range 200 {
		e := event("d", "resource/db", "action-started")
		e.Attempt = i + 1
		events = append(events, e)
	}
	appended := mustAppend(t, l, events...)
	if !slices.IsSortedFunc(appended, func(a, b deploylog.Event) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("ids of one append are not in order")
	}
}

func appendsNothing(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	mustAppend(t, l)
	if n := len(mustRead(t, l, deploylog.Filter{})); n != 0 {
		t.Errorf("%d events after an empty append", n)
	}
}

func completesAStepOnce(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	done := event("d", "host/a", "host-deployed")
	mustAppend(t, l, done)
	refused(t, l, deploylog.ErrDuplicate, done)
	for _, change := range []func(*deploylog.Event){
		func(e *deploylog.Event) { e.Deployment = "e" },
		func(e *deploylog.Event) { e.Target = "host/b" },
		func(e *deploylog.Event) { e.Name = "host-tested" },
		func(e *deploylog.Event) { e.Attempt = 2 },
	} {
		other := done
		change(&other)
		mustAppend(t, l, other)
	}
	same := done
	same.Revision, same.Data = "another revision", json.RawMessage(`{}`)
	refused(t, l, deploylog.ErrDuplicate, same)
}

func appendsAllOrNone(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	mustAppend(t, l, event("d", "host/a", "host-deployed"))
	refused(t, l, deploylog.ErrDuplicate,
		event("e", "host/b", "host-started"), event("d", "host/a", "host-deployed"), event("e", "host/c", "host-started"))
	refused(t, l, deploylog.ErrDuplicate, event("e", "host/b", "host-started"), event("e", "host/b", "host-started"))
	invalid := event("e", "host/b", "host-started")
	invalid.Name = "Host Started"
	refused(t, l, deploylog.ErrInvalid, event("e", "host/b", "host-started"), invalid)
	// What was refused leaves no trace: not a gap, not a registration.
	next := mustAppend(t, l, event("f", "host/b", "host-started"), event("e", "host/b", "host-started"))
	if next[0].Seq != 2 || next[1].Seq != 3 {
		t.Errorf("seq %d and %d after refusals, want 2 and 3", next[0].Seq, next[1].Seq)
	}
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func refusesInvalidEvents(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	for name, change := range invalidations() {
		e := event("d", "resource/db", "resource-started")
		change(&e)
		if _, err := l.Append(t.Context(), e); !errors.Is(err, deploylog.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
	if n := len(mustRead(t, l, deploylog.Filter{})); n != 0 {
		t.Errorf("%d invalid events were appended", n)
	}
}

func takesTheLargestEvent(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	e := event(strings.Repeat("d", deploylog.MaxDeployment), deploylog.Target("host/"+strings.Repeat("t", deploylog.MaxTarget-5)), strings.Repeat("n", deploylog.MaxName))
	e.Revision = strings.Repeat("r", deploylog.MaxRevision)
	e.Data = json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), deploylog.MaxData-2)) + `"`)
	appended := mustAppend(t, l, e)
	if d := diff(mustRead(t, l, deploylog.Filter{}), appended); d != "" {
		t.Error("the largest event did not come back as it was")
	}
}

func dropsAWithdrawnAppend(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Append(ctx, event("d", "host/a", "host-deployed")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if n := len(mustRead(t, l, deploylog.Filter{})); n != 0 {
		t.Errorf("%d events were appended", n)
	}
}

func refusesAfterClose(t *testing.T, fresh func(testing.TB) Store) {
	l := fresh(t)()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := l.Append(t.Context(), event("d", "host/a", "host-deployed")); err == nil {
		t.Error("a closed log acknowledged an append")
	}
	if _, err := collect(t.Context(), l, deploylog.Filter{}); err == nil {
		t.Error("a closed log was read")
	}
}

func isThereAfterReopening(t *testing.T, fresh func(testing.TB) Store) {
	store := fresh(t)
	l := store()
	id := l.ID()
	appended := mustAppend(t, l, event("d", "host/a", "host-started"), event("d", "host/a", "host-deployed"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := store()
	if again.ID() != id || id == "" {
		t.Errorf("id was %q, is %q after reopening", id, again.ID())
	}
	if d := diff(mustRead(t, again, deploylog.Filter{}), appended); d != "" {
		t.Error(d)
	}
	if other := fresh(t)(); other.ID() == id {
		t.Errorf("two stores have one id %q", id)
	}
}

// refused appends what must fail with target and change nothing.
func refused(t *testing.T, l deploylog.Log, target error, events ...deploylog.Event) {
	t.Helper()
	before := mustRead(t, l, deploylog.Filter{})
	if _, err := l.Append(t.Context(), events...); !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
	}
	if d := diff(mustRead(t, l, deploylog.Filter{}), before); d != "" {
		t.Errorf("a refused append changed the log: %s", d)
	}
}

// invalidations are ways to spoil a valid event.
func invalidations() map[string]func(*deploylog.Event) {
	return map[string]func(*deploylog.Event){
		"empty deployment":       func(e *deploylog.Event) { e.Deployment = "" },
		"endless deployment":     func(e *deploylog.Event) { e.Deployment = strings.Repeat("d", deploylog.MaxDeployment+1) },
		"NUL in deployment":      func(e *deploylog.Event) { e.Deployment = "a\x00b" },
		"newline in deployment":  func(e *deploylog.Event) { e.Deployment = "a\nb" },
		"target without kind":    func(e *deploylog.Event) { e.Target = "db" },
		"target with empty kind": func(e *deploylog.Event) { e.Target = "/db" },
		"target without rest":    func(e *deploylog.Event) { e.Target = "resource/" },
		"target with odd kind":   func(e *deploylog.Event) { e.Target = "Resource/db" },
		"target as prefix":       func(e *deploylog.Event) { e.Target = "stage/web/" },
		"escape in target":       func(e *deploylog.Event) { e.Target = "resource/\x1b[31m" },
		"target not UTF-8":       func(e *deploylog.Event) { e.Target = "resource/\xff" },
		"endless target":         func(e *deploylog.Event) { e.Target += deploylog.Target(strings.Repeat("x", deploylog.MaxTarget)) },
		"control in revision":    func(e *deploylog.Event) { e.Revision = "v\u0085" },
		"endless revision":       func(e *deploylog.Event) { e.Revision = strings.Repeat("r", deploylog.MaxRevision+1) },
		"empty name":             func(e *deploylog.Event) { e.Name = "" },
		"name with capitals":     func(e *deploylog.Event) { e.Name = "resourceStarted" },
		"name with underscore":   func(e *deploylog.Event) { e.Name = "resource_started" },
		"name ends in a dash":    func(e *deploylog.Event) { e.Name = "resource-" },
		"name with two dashes":   func(e *deploylog.Event) { e.Name = "resource--started" },
		"name begins with digit": func(e *deploylog.Event) { e.Name = "1st" },
		"endless name":           func(e *deploylog.Event) { e.Name = strings.Repeat("n", deploylog.MaxName+1) },
		"negative attempt":       func(e *deploylog.Event) { e.Attempt = -1 },
		"id is no ULID":          func(e *deploylog.Event) { e.ID = "42" },
		"time out of range":      func(e *deploylog.Event) { e.CreatedAt = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"data is no JSON":        func(e *deploylog.Event) { e.Data = json.RawMessage("{") },
		"data is two documents":  func(e *deploylog.Event) { e.Data = json.RawMessage("{} {}") },
		"data is not UTF-8":      func(e *deploylog.Event) { e.Data = json.RawMessage("\"\xff\"") },
		"data is blank":          func(e *deploylog.Event) { e.Data = json.RawMessage(" ") },
		"endless data": func(e *deploylog.Event) {
			e.Data = json.RawMessage(`"` + strings.Repeat("x", deploylog.MaxData) + `"`)
		},
	}
}
