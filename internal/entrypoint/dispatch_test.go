package entrypoint

import (
	"errors"
	"testing"
)

// A program that would not take the role when it is executed again is never
// executed again: it would start itself for ever.
func TestAProgramThatDoesNotDispatchIsNotExecutedAgain(t *testing.T) {
	before := dispatches.Swap(false)
	defer dispatches.Store(before)
	if _, _, err := Launch("/"); !errors.Is(err, ErrNotDispatched) {
		t.Errorf("as a launcher: %v", err)
	}
	if _, err := Executable(); !errors.Is(err, ErrNotDispatched) {
		t.Errorf("as a shim: %v", err)
	}
}
