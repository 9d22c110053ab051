// Package refusal says why a state machine refuses a command: with a code for
// programs, and a sentence for people that names what to do instead.
package refusal

import "fmt"

// Code says why a command is refused. The values of a machine never change their
// meaning.
type Code string

// Error is why a command is refused.
type Error struct {
	Code Code
	err  error
}

// New returns a refusal with a message as of fmt.Errorf, which may wrap errors.
func New(code Code, format string, args ...any) error {
	return &Error{Code: code, err: fmt.Errorf(format, args...)}
}

// Error says what was refused, why, and what to do instead.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the message with what it wraps.
func (e *Error) Unwrap() error { return e.err }
