package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/filelock"
)

func TestProcessesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	first, err := filelock.Acquire(t.Context(), dir, filelock.Shared)
	if err != nil {
		t.Fatal(err)
	}
	second, err := filelock.Try(dir, filelock.Shared)
	if err != nil || second == nil {
		t.Fatalf("a second shared lock is %v, %v", second, err)
	}
	if third, err := filelock.Try(dir, filelock.Exclusive); third != nil || err != nil {
		t.Errorf("beside shared ones, an exclusive lock is %v, %v", third, err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := filelock.Acquire(ctx, dir, filelock.Exclusive); !errors.Is(err, stop) || !strings.Contains(err.Error(), dir) {
		t.Errorf("waiting ends with %v", err)
	}
	first.Release()
	second.Release()
	third, err := filelock.Try(dir, filelock.Exclusive)
	if err != nil || third == nil {
		t.Fatalf("when all are released, it is %v, %v", third, err)
	}
	third.Release()
}

func TestWhatWasReplacedIsNotHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if mine, err := filelock.Hold(f); err != nil || !mine {
		t.Fatalf("it is held: %v, %v", mine, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if mine, err := filelock.Hold(f); err != nil || mine {
		t.Errorf("once it was removed, it is held: %v, %v", mine, err)
	}
	if _, err := filelock.Try(path, filelock.Exclusive); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what there is not is %v", err)
	}
}
