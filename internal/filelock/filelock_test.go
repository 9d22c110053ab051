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
)

func TestProcessesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	first, err := filelock.Acquire(t.Context(), dir, filelock.Shared)
	require.NoError(t, err)
	second, err := filelock.Try(dir, filelock.Shared)
	require.NoError(t, err)
	require.NotNil(t, second, "a second shared lock")
	third, err := filelock.Try(dir, filelock.Exclusive)
	require.NoError(t, err)
	assert.Nil(t, third, "an exclusive lock beside shared ones")
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err = filelock.Acquire(ctx, dir, filelock.Exclusive)
	assert.ErrorIs(t, err, stop)
	assert.ErrorContains(t, err, dir)
	first.Release()
	second.Release()
	third, err = filelock.Try(dir, filelock.Exclusive)
	require.NoError(t, err)
	require.NotNil(t, third, "an exclusive lock when all are released")
	third.Release()
}

func TestWhatWasReplacedIsNotHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	if mine, err := filelock.Hold(f); err != nil || !mine {
		t.Fatalf("it is held: %v, %v", mine, err)
	}
	require.NoError(t, os.Remove(path))
	if mine, err := filelock.Hold(f); err != nil || mine {
		t.Errorf("once it was removed, it is held: %v, %v", mine, err)
	}
	assert.ErrorIs(t, errOf(filelock.Try(path, filelock.Exclusive)), os.ErrNotExist)
}

// errOf returns the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }
