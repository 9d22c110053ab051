package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

func TestACopyIsNotWrittenTo(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	first, second, third := filepath.Join(root, "1"), filepath.Join(root, "2"), filepath.Join(root, "3")
	var said bytes.Buffer
	attempt := 0
	opened := func(dir string) (id string, err error) {
		said.Reset()
		attempt++
		l := must.Get(Open(t.Context(), filepath.Join(dir, "log.db"), Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}))(t)
		_, err = l.Append(t.Context(), deploylog.Event{Deployment: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Target: "run/x", Name: "run-started", Attempt: attempt})
		if unlock, locked := l.TryLock("x"); locked == nil {
			unlock()
			assert.NoError(t, err, dir)
		} else {
			assert.Error(t, err, dir)
		}
		require.NoError(t, l.Close())
		return l.ID(), err
	}
	id, err := opened(first)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(second, os.DirFS(first)))

	copied, err := opened(second)
	var is *CopiedError
	require.ErrorAs(t, err, &is)
	assert.Equal(t, CopiedError{id, filepath.Join(second, "log.db"), filepath.Join(first, "log.db")}, *is)
	assert.Equal(t, id, copied)
	l := must.Get(Open(t.Context(), filepath.Join(second, "log.db"), Options{ReadOnly: true}))(t)
	read := 0
	for _, err := range l.Read(t.Context(), deploylog.Filter{}) {
		require.NoError(t, err)
		read++
	}
	assert.Equal(t, 1, read, "a copy can be read")
	require.NoError(t, l.Close())

	// Who reads a backup leaves nothing beside it that says where it is.
	backup := filepath.Join(root, "backup")
	require.NoError(t, os.CopyFS(backup, os.DirFS(first)))
	require.NoError(t, errors.Join(os.Remove(filepath.Join(backup, "log.db"+placeSuffix)), os.Remove(filepath.Join(backup, "log.db"+copySuffix))))
	l = must.Get(Open(t.Context(), filepath.Join(backup, "log.db"), Options{}))(t)
	_, err = l.Verify(t.Context())
	require.NoError(t, errors.Join(err, l.Close()))
	_, err = os.Stat(filepath.Join(backup, "log.db"+placeSuffix))
	require.ErrorIs(t, err, fs.ErrNotExist)

	_, err = opened(first)
	require.NoError(t, err)
	assert.Contains(t, said.String(), filepath.Join(second, "log.db"))

	// A log that is moved goes on, and so does a copy whose original is gone.
	require.NoError(t, os.Rename(first, third))
	_, err = opened(third)
	require.NoError(t, err)
	require.NoError(t, os.Rename(third, first))
	require.NoError(t, os.Symlink(first, third))
	_, err = opened(third)
	require.NoError(t, err, "by way of a link")
	require.NoError(t, os.RemoveAll(first))
	_, err = opened(second)
	require.NoError(t, err)
	assert.Empty(t, said.String())
}
