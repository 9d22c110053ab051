package cli

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitChanges     = 2 // plan --detailed-exitcode or drift found changes
	exitInvalid     = 3 // wrong usage or invalid input; nothing was touched
	exitInterrupted = 130
)

// usageError is wrong usage or invalid input.
type usageError struct{ cause error }

func (e *usageError) Error() string { return e.cause.Error() }
func (e *usageError) Unwrap() error { return e.cause }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// toldError is an error whose story the output has told already.
type toldError struct{ cause error }

func (e *toldError) Error() string { return e.cause.Error() }
func (e *toldError) Unwrap() error { return e.cause }

func told(err error) error {
	if err == nil {
		return nil
	}
	return &toldError{err}
}

// errChanges is how plan --detailed-exitcode says that there are changes.
var errChanges = errors.New("there are changes")

func exitCode(err error) int {
	var wrong *usageError
	var failed *runner.FailedError
	var invalid *manifest.Error
	var status exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, runner.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, errChanges):
		return exitChanges
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &wrong), errors.As(err, &invalid):
		return exitInvalid
	default:
		return exitFailed
	}
}

// errorText is what people read of an error. It may quote files and containers.
func errorText(err error) string {
	text := view.Clean(err.Error()) + "\n"
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		return text
	}
	return "error: " + text
}
