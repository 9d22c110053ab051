package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// newPath is where a log can be made.
func newPath(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "log.db")
}

func newLog(tb testing.TB) *Log {
	tb.Helper()
	return openLog(tb, newPath(tb))
}

func openLog(tb testing.TB, path string) *Log {
	tb.Helper()
	return openWith(tb, path, Options{}, settings{busyTimeout: defaultBusyTimeout})
}

// openWith opens a log until the end of the test.
func openWith(tb testing.TB, path string, o Options, s settings) *Log {
	tb.Helper()
	l, err := open(tb.Context(), path, o, s)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, l.Close()) })
	return l
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// samples are n events of a typical history.
func samples(from, n int) []deploylog.Event {
	events := make([]deploylog.Event, n)
	for i := range events {
		events[i] = sample(from + i)
	}
	return events
}

// appendEach appends n events of a typical history one by one.
func appendEach(t *testing.T, l *Log, from, n int) {
	t.Helper()
	for _, e := range samples(from, n) {
		require.NoError(t, errOf(l.Append(t.Context(), e)))
	}
}

// wantNext appends an event, which is to become the one of a number.
func wantNext(t *testing.T, l *Log, n int, seq int64) {
	t.Helper()
	appended, err := l.Append(t.Context(), sample(n))
	require.NoError(t, err)
	assert.Equal(t, seq, appended[0].Seq)
}

// wantSound fails unless a log is sound and has so many events.
func wantSound(t *testing.T, l *Log, events int64) {
	t.Helper()
	v, err := l.Verify(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, events, v.Events)
}

// names are those of what is in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestAShortLook leaves no trace, whatever is beside the log.
func TestAShortLook(t *testing.T) {
	path := written(t)
	for _, suffix := range []string{"", anchorSuffix, checkSuffix} { // one more is missing each time
		if suffix != "" {
			require.NoError(t, os.Remove(path+suffix))
		}
		before := names(t, filepath.Dir(path))
		l := openWith(t, path, Options{ReadOnly: true}, settings{busyTimeout: defaultBusyTimeout})
		n := 0
		for _, err := range l.Read(t.Context(), deploylog.Filter{Last: 10}) {
			require.NoError(t, err)
			n++
		}
		assert.Equal(t, 10, n)
		wantSound(t, l, 300)
		wantError(t, errOf(l.Append(t.Context(), sample(1000))), errReadOnly, path)
		assert.NoError(t, errors.Join(l.Close(), l.Close()))
		assert.Equal(t, before, names(t, filepath.Dir(path)))
	}
	none := filepath.Join(t.TempDir(), "sub", "log.db")
	wantError(t, errOf(Open(t.Context(), none, Options{ReadOnly: true})), fs.ErrNotExist, none)
	assert.ErrorIs(t, errOf(os.Stat(filepath.Dir(none))), fs.ErrNotExist)
}

func TestTheStorePassesTheSuite(t *testing.T) {
	logtest.Run(t, func(tb testing.TB) logtest.Store {
		path := newPath(tb)
		return func() deploylog.Log { return openLog(tb, path) }
	})
}

// TestAFileSystemThatIsReadOnly has the remedy of one that somebody may not
// write to.
func TestAFileSystemThatIsReadOnly(t *testing.T) {
	for _, refused := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		err := explain("/mnt/log.db", &os.PathError{Op: "open", Path: "/mnt/log.db-anchor", Err: refused})
		wantError(t, err, refused, "make the file and its directory /mnt writable, or copy them")
	}
	assert.False(t, isForbidden(explain("/mnt/log.db", fs.ErrNotExist)))
}
