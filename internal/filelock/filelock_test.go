package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/must"
)

func TestProcessesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	first := must.Get(filelock.Acquire(t.Context(), dir, filelock.Shared))(t)
	second := must.Get(filelock.Try(dir, filelock.Shared))(t)
	require.NotNil(t, second, "a second shared lock")
	third := must.Get(filelock.Try(dir, filelock.Exclusive))(t)
	assert.Nil(t, third, "an exclusive lock beside shared ones")
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err := filelock.Acquire(ctx, dir, filelock.Exclusive)
	assert.ErrorIs(t, err, stop)
	assert.ErrorContains(t, err, dir)
	first.Release()
	second.Release()
	third = must.Get(filelock.Try(dir, filelock.Exclusive))(t)
	require.NotNil(t, third, "an exclusive lock when all are released")
	third.Release()
}

func TestWhatWasReplacedIsNotHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	mine, err := filelock.Hold(f)
	require.True(t, err == nil && mine, "it is held: %v, %v", mine, err)
	require.NoError(t, os.Remove(path))
	mine, err = filelock.Hold(f)
	assert.True(t, err == nil && !mine, "once it was removed, it is held: %v, %v", mine, err)
	assert.ErrorIs(t, must.Fail(filelock.Try(path, filelock.Exclusive)), os.ErrNotExist)
}
