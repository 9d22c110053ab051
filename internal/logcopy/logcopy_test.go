package logcopy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/logcopy"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

func event(n int) deploylog.Event {
	return deploylog.Event{Deployment: fmt.Sprintf("d%d", n/3), Target: "host/a", Name: fmt.Sprintf("step-%c", 'a'+n%3), Data: []byte(`{"n": 1}`)}
}

func filled(t *testing.T, events int) *logtest.MemoryLog {
	l := logtest.NewMemory().Open()
	for n := range events {
		require.NoError(t, must.Fail(l.Append(t.Context(), event(n))))
	}
	return l
}

func TestACopyIsTheSameLog(t *testing.T) {
	from, to := filled(t, 7), logtest.NewMemory().Open()
	told := ""
	r, err := logcopy.Copy(t.Context(), from, to, func(there, of int64) { told += fmt.Sprintf("%d/%d ", there, of) })
	require.True(t, err == nil && r.Copied == 7 && told == "7/7 ", "%+v, %v; it told %s", r, err, told)
	require.NoError(t, must.Fail(from.Append(t.Context(), event(7))))
	r, err = logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err == nil && r.Copied == 1, "what came since: %+v, %v", r, err)
	a, _ := from.Verify(t.Context())
	b, _ := to.Verify(t.Context())
	assert.True(t, a == b && r.Head == a.Anchor(), "%+v is not %+v", b, a)
	r, err = logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err == nil && r.Copied == 0, "once more: %+v, %v", r, err)
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
		assert.ErrorContains(t, must.Fail(logcopy.Copy(t.Context(), from, c.to, nil)), c.says, name)
		after, _ := c.to.Verify(t.Context())
		assert.True(t, before == after, "%s: it was changed", name)
	}
	unlock := must.Get(other.TryLock("copy"))(t)
	defer unlock()
	assert.ErrorIs(t, must.Fail(logcopy.Copy(t.Context(), from, other, nil)), deploylog.ErrLocked, "two copies at once")
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
		require.NoError(t, must.Fail(from.Append(t.Context(), e)))
	}
	require.ErrorContains(t, must.Fail(logcopy.Copy(t.Context(), from, &dying{to, 1}, nil)), "killed", "it did not end early")
	r, err := logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err == nil && r.Copied != 0 && r.Copied != 12, "%+v, %v", r, err)
	_, err = logcopy.Copy(t.Context(), filled(t, 3), meddled{logtest.NewMemory().Open()}, nil)
	assert.True(t, errors.Is(err, deploylog.ErrCorrupt) && strings.Contains(err.Error(), "somebody else appends"), "beside somebody else: %v", err)
}

func beside(t *testing.T) logcopy.Beside {
	dir := t.TempDir()
	return logcopy.Beside{Objects: objects.In(filepath.Join(dir, "objects"), nil), Documents: protected.New(filepath.Join(dir, "protected"))}
}

func TestWhatEventsNameIsCopiedAsWell(t *testing.T) {
	from, to := beside(t), beside(t)
	named, err := from.Objects.Keep([]byte("named"))
	other, failed := from.Objects.Keep([]byte("other"))
	ref, refused := from.Documents.Put("a secret")
	salt, none := from.Objects.MakeSalt()
	require.NoError(t, errors.Join(err, failed, refused, none))
	log := logtest.NewMemory().Open()
	e := event(0)
	e.Data = []byte(`{"text": "` + named + `", "gone": "` + strings.Repeat("0", 64) + `"}`)
	require.NoError(t, must.Fail(log.Append(t.Context(), e)))
	for range 2 {
		n, err := logcopy.CopyBeside(t.Context(), log, from, to, map[string]bool{ref.Name: true, strings.Repeat("f", 32): true, "../x": true})
		require.True(t, err == nil && n.Objects == 1 && n.Documents == 1 && n.Missing == 2 && n.Unread == nil, "%+v, %v", n, err)
	}
	text, err := to.Objects.Load(named)
	assert.True(t, err == nil && string(text) == "named", "%q, %v", text, err)
	assert.ErrorIs(t, must.Fail(to.Objects.Load(other)), objects.ErrMissing, "what nothing names")
	there, err := to.Objects.Salt()
	assert.True(t, err == nil && bytes.Equal(there, salt), "the salt is %x and not %x, %v", there, salt, err)
	var secret string
	err = to.Documents.Get(ref, &secret)
	assert.True(t, err == nil && secret == "a secret", "%q, %v", secret, err)
	elsewhere := beside(t)
	require.NoError(t, must.Fail(elsewhere.Objects.MakeSalt()))
	assert.ErrorContains(t, must.Fail(logcopy.CopyBeside(t.Context(), log, from, elsewhere, nil)), "another key of hashes", "to where somebody has made revisions")
}

// closed is a place of which somebody may read nothing, or write nothing.
type closed struct{ protected.Remote }

func (closed) Load(string) ([]byte, error) { return nil, fs.ErrPermission }
func (closed) Keep(string, []byte) error   { return fs.ErrPermission }
func (closed) Salt() ([]byte, error)       { return nil, fs.ErrPermission }
func (closed) String() string              { return "a closed place" }

func TestWhatMayNotBeReadIsLeftOut(t *testing.T) {
	open := beside(t)
	shut := logcopy.Beside{Objects: objects.Via(closed{}), Documents: protected.Via(closed{})}
	ref, err := open.Documents.Put("a secret")
	text, failed := open.Objects.Keep([]byte("a text"))
	require.NoError(t, errors.Join(err, failed))
	log := logtest.NewMemory().Open()
	e := event(0)
	e.Data = []byte(`{"text": "` + text + `"}`)
	require.NoError(t, must.Fail(log.Append(t.Context(), e)))
	names := map[string]bool{ref.Name: true}
	n, err := logcopy.CopyBeside(t.Context(), log, shut, beside(t), names)
	if err != nil || !slices.Equal(n.Unread, []string{"the key of hashes", "texts of revisions", "documents with secrets"}) || n.Missing+n.Documents+n.Objects != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, to := range []logcopy.Beside{{Objects: open.Objects, Documents: shut.Documents}, {Objects: shut.Objects, Documents: open.Documents}} {
		n, err := logcopy.CopyBeside(t.Context(), log, open, to, names)
		assert.True(t, errors.Is(err, fs.ErrPermission), "%+v, %v", n, err)
	}
}

// A copy that was used since is told apart from another log.
func TestACopyThatHasGoneOnIsNoFailureOfTheOriginal(t *testing.T) {
	from, to := filled(t, 3), logtest.NewMemory().Open()
	_, err := logcopy.Copy(t.Context(), from, to, nil)
	for n := 3; n < 5 && err == nil; n++ {
		_, err = to.Append(t.Context(), event(n))
	}
	require.NoError(t, err)
	_, err = logcopy.Copy(t.Context(), from, to, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "all of its 3 events, and 2 more") && strings.Contains(err.Error(), "the other way around"), "%v", err)
}
