package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// Whoever has a lock whose file is gone shares it with others without knowing, and writes nothing more.
func TestLocksWhoseFilesAreGone(t *testing.T) {
	for name, c := range map[string]struct {
		lose   func(l *Log) error
		writes bool // the next write finds it out, and not only who looks after the locks
	}{
		"their directory was removed": {func(l *Log) error { return os.RemoveAll(l.lockDir()) }, true},
		"it was moved":                {func(l *Log) error { return os.Rename(l.lockDir(), l.lockDir()+".old") }, true},
		"a file was removed":          {func(l *Log) error { return os.Remove(filepath.Join(l.lockDir(), lockFile("host/a"))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			other := openLog(t, l.path)
			must.Get(l.TryLock("host/b"))(t)()
			unlock := must.Get(l.TryLock("host/a"))(t)
			require.True(t, l.attendOnce())
			appendEach(t, l, 0, 1)

			require.NoError(t, c.lose(l))
			must.Get(other.TryLock("host/a"))(t)
			if !c.writes {
				require.False(t, l.attendOnce())
			}
			wantError(t, errOf(l.Append(context.Background(), samples(1, 1)...)), nil, "removed or replaced", "start this process again")
			wantError(t, errOf(l.Append(context.Background(), samples(1, 1)...)), deploylog.ErrPoisoned)
			appendEach(t, other, 1, 1)
			unlock()
		})
	}

	l := newLog(t)
	must.Get(l.TryLock("host/a"))(t)()
	require.NoError(t, os.RemoveAll(l.lockDir()))
	assert.True(t, l.attendOnce(), "it has no lock")
	appendEach(t, l, 0, 1)
}

// A directory that has not changed says for its files that they are there, though not for ever: a file
// system may not say so.
func TestLocksWhoseDirectoryHasNotChanged(t *testing.T) {
	for name, says := range map[string]bool{"it says when it changes": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			must.Get(l.TryLock("host/a"))(t)
			before := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(l.lockDir(), before, before))
			for range 3 {
				require.True(t, l.attendOnce())
			}
			require.NoError(t, os.Remove(filepath.Join(l.lockDir(), lockFile("host/a"))))
			looks := 1
			if !says {
				require.NoError(t, os.Chtimes(l.lockDir(), before, before))
				looks = eachLook
			}
			for l.attendOnce() {
				looks--
			}
			assert.GreaterOrEqual(t, looks, 0, "it was found out too late")
		})
	}
}

func TestALogWithAnotherNameIsRefused(t *testing.T) {
	l := newLog(t)
	appendEach(t, l, 0, 1)
	require.NoError(t, l.Close())
	unplaced, other := filepath.Join(filepath.Dir(l.path), unfinished(l.path, "")+"1"), filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.Link(l.path, unplaced))
	require.NoError(t, openLog(t, l.path).Close(), "it is put into place just now")
	require.NoError(t, os.Link(l.path, other))
	for _, path := range []string{l.path, other} {
		wantError(t, errOf(Open(t.Context(), path, Options{})), nil, "hard links", "find DIR -samefile "+path)
		read := must.Get(Open(t.Context(), path, Options{ReadOnly: true}))(t)
		require.NoError(t, read.Close(), "a backup that shares files with another is read")
	}
	require.NoError(t, os.Remove(other))
	openLog(t, l.path)
}
