package postgres_test

import (
	"errors"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// Who is told that an event is there already takes it for done, and may not be who has lost its locks.
func TestWhoHasLostItsLocksIsNotToldThatAnEventIsThere(t *testing.T) {
	l := open(t, server.URL("repeats"))
	if _, err := l.TryLock("stage"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), event("d", "a")); !errors.Is(err, deploylog.ErrDuplicate) {
		t.Errorf("with the lock: %v", err)
	}
	loseLocks(t, "repeats")
	if _, err := l.Append(t.Context(), event("d", "a")); !refused(err) || errors.Is(err, deploylog.ErrDuplicate) {
		t.Errorf("without the lock: %v", err)
	}
}
