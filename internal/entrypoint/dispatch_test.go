package entrypoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that would not take the role when it is executed again is never
// executed again: it would start itself for ever.
func TestAProgramThatDoesNotDispatchIsNotExecutedAgain(t *testing.T) {
	before := dispatches.Swap(false)
	defer dispatches.Store(before)
	_, _, err := Launch("/")
	assert.ErrorIs(t, err, ErrNotDispatched, "as a launcher")
	_, err = Executable()
	assert.ErrorIs(t, err, ErrNotDispatched, "as a shim")
}

func TestADirectoryIsEmptied(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	for _, err := range []error{
		os.WriteFile(other, nil, 0o600),
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(dir, "a", "b", "c"), nil, 0o600),
		os.Symlink(other, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(other), filepath.Join(dir, "a", "link")),
	} {
		require.NoError(t, err)
	}
	assert.Equal(t, Failed, takeEmpty(dir, 2), "by a process of a machine it exits")
	entries, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(entries) == 2, "by a process of a machine it is emptied: %v, %v", entries, err)
	assert.Zero(t, takeEmpty(dir, 1), "it exits")
	entries, err = os.ReadDir(dir)
	assert.True(t, err == nil && len(entries) == 0, "it has %v, %v", entries, err)
	_, err = os.Stat(other)
	assert.NoError(t, err, "a link was followed")
	assert.Equal(t, Failed, takeEmpty(filepath.Join(dir, "none"), 1), "of one that is not there it exits")
}
