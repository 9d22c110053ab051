package logcopy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, errOf(l.Append(t.Context(), event(n))))
	}
	return l
}

func TestACopyIsTheSameLog(t *testing.T) {
	from, to := filled(t, 7), logtest.NewMemory().Open()
	told := ""
	r, err := logcopy.Copy(t.Context(), from, to, func(there, of int64) { told += fmt.Sprintf("%d/%d ", there, of) })
	require.True(t, err == nil && r.Copied == 7 && told == "7/7 ", "%+v, %v; it told %s", r, err, told)
	require.NoError(t, errOf(from.Append(t.Context(), event(7))))
	r, err = logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err == nil && r.Copied == 1, "what came since: %+v, %v", r, err)
	a, _ := from.Verify(t.Context())
	b, _ := to.Verify(t.Context())
	assert.True(t, a == b && r.Head == a.Anchor(), "%+v is not %+v", b, a)
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
		assert.ErrorContains(t, errOf(logcopy.Copy(t.Context(), from, c.to, nil)), c.says, name)
		after, _ := c.to.Verify(t.Context())
		assert.True(t, before == after, "%s: it was changed", name)
	}
	unlock, err := other.TryLock("copy")
	require.NoError(t, err)
	defer unlock()
	assert.ErrorIs(t, errOf(logcopy.Copy(t.Context(), from, other, nil)), deploylog.ErrLocked, "two copies at once")
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
		require.NoError(t, errOf(from.Append(t.Context(), e)))
	}
	require.ErrorContains(t, errOf(logcopy.Copy(t.Context(), from, &dying{to, 1}, nil)), "killed", "it did not end early")
	r, err := logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err == nil && r.Copied != 0 && r.Copied != 12, "%+v, %v", r, err)
	_, err = logcopy.Copy(t.Context(), filled(t, 3), meddled{logtest.NewMemory().Open()}, nil)
	assert.True(t, errors.Is(err, deploylog.ErrCorrupt) && strings.Contains(err.Error(), "somebody else appends"), "beside somebody else: %v", err)
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }
