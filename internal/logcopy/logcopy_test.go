package logcopy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/logcopy"
)

func event(n int) deploylog.Event {
	return deploylog.Event{Deployment: fmt.Sprintf("d%d", n/3), Target: "host/a", Name: fmt.Sprintf("step-%c", 'a'+n%3), Data: []byte(`{"n": 1}`)}
}

func filled(t *testing.T, events int) *logtest.MemoryLog {
	t.Helper()
	l := logtest.NewMemory().Open()
	for n := range events {
		if _, err := l.Append(t.Context(), event(n)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestACopyIsTheSameLog(t *testing.T) {
	from, to := filled(t, 7), logtest.NewMemory().Open()
	told := ""
	r, err := logcopy.Copy(t.Context(), from, to, func(there, of int64) { told += fmt.Sprintf("%d/%d ", there, of) })
	if err != nil || r.Copied != 7 || told != "7/7 " {
		t.Fatalf("%+v, %v; it told %s", r, err, told)
	}
	if _, err := from.Append(t.Context(), event(7)); err != nil {
		t.Fatal(err)
	}
	r, err = logcopy.Copy(t.Context(), from, to, nil)
	if err != nil || r.Copied != 1 {
		t.Errorf("what came since: %+v, %v", r, err)
	}
	a, _ := from.Verify(t.Context())
	if b, _ := to.Verify(t.Context()); a != b || r.Head != a.Anchor() {
		t.Errorf("%+v is not %+v", b, a)
	}
	if r, err := logcopy.Copy(t.Context(), from, to, nil); err != nil || r.Copied != 0 {
		t.Errorf("once more: %+v, %v", r, err)
	}
}

func TestWhatIsNoCopyStaysAsItIs(t *testing.T) {
	from := filled(t, 3)
	longer := filled(t, 4)
	other := filled(t, 1)
	for name, c := range map[string]struct {
		to   deploylog.Log
		says string
	}{
		"other events": {other, "there are 1 events that are not the first of it"},
		"more events":  {longer, "there are 4 events that are not the first of it"},
		"itself":       {from, "both are the same log"},
	} {
		before, _ := c.to.Verify(t.Context())
		if _, err := logcopy.Copy(t.Context(), from, c.to, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := c.to.Verify(t.Context()); before != after {
			t.Errorf("%s: it was changed", name)
		}
	}
	unlock, err := other.TryLock("copy")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := logcopy.Copy(t.Context(), from, other, nil); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("two copies at once: %v", err)
	}
}

// dying is a log that takes so many appends.
type dying struct {
	deploylog.Log
	lives int
}

func (d *dying) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if d.lives--; d.lives < 0 {
		return nil, errors.New("killed")
	}
	return d.Log.Append(ctx, events...)
}

// meddled is a log to which somebody else appends meanwhile.
type meddled struct{ deploylog.Log }

func (m meddled) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if _, err := m.Log.Append(ctx, event(100)); err != nil {
		return nil, err
	}
	return m.Log.Append(ctx, events...)
}

func TestACopyThatEndedEarlyIsGoneOnWith(t *testing.T) {
	from, to := filled(t, 0), logtest.NewMemory().Open()
	large := []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	for n := range 12 {
		e := event(n)
		e.Data = large
		if _, err := from.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := logcopy.Copy(t.Context(), from, &dying{to, 1}, nil); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("it did not end early: %v", err)
	}
	r, err := logcopy.Copy(t.Context(), from, to, nil)
	if err != nil || r.Copied == 0 || r.Copied == 12 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := logcopy.Copy(t.Context(), filled(t, 3), meddled{logtest.NewMemory().Open()}, nil); !errors.Is(err, deploylog.ErrCorrupt) || !strings.Contains(err.Error(), "somebody else appends") {
		t.Errorf("beside somebody else: %v", err)
	}
}
