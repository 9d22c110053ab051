// Package exit decides how a command ends: what an error means for the exit code,
// and how people read it.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/deployster-go/deployster/control/work"
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

// UsageError is wrong usage or invalid input.
type UsageError struct{ Cause error }

// Error implements error.
func (e *UsageError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Cause }

// Invalid makes an error one of wrong usage or invalid input.
func Invalid(cause error) error { return &UsageError{cause} }

// Usage is Invalid of a new error.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// ReportedError is an error that the output has reported already.
type ReportedError struct{ Cause error }

// Error implements error.
func (e *ReportedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *ReportedError) Unwrap() error { return e.Cause }

// Reported marks an error as one that the output has reported already.
func Reported(err error) error {
	if err == nil {
		return nil
	}
	return &ReportedError{err}
}

// ErrChanges is how plan --detailed-exitcode says that there are changes.
var ErrChanges = errors.New("there are changes")

// Code is the exit code of a command that returned an error.
func Code(err error) int {
	var wrong *UsageError
	var failed *runner.FailedError
	var input *work.InputError
	var invalid *manifest.Error
	var status Status
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, runner.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, ErrChanges):
		return exitChanges
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &wrong), errors.As(err, &input), errors.As(err, &invalid):
		return exitInvalid
	default:
		return exitFailed
	}
}

// Text is what people read of an error. It may quote files and containers.
func Text(err error) string {
	text := view.Clean(inWords(err)) + "\n"
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		return text
	}
	return "error: " + text
}

// inWords is the text of an error in which files are spoken of in plain words.
func inWords(err error) string {
	text := err.Error()
	for _, file := range fileErrors(err) {
		said := file.Path + ": " + FileWords(file.Err)
		text = strings.ReplaceAll(text, file.Path+": "+file.Error(), said) // it was named already
		text = strings.ReplaceAll(text, file.Error(), said)
	}
	return text
}

// FileWords is what is wrong with a file.
func FileWords(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "you have no permission to do that"
	default:
		return err.Error()
	}
}

// fileErrors are the errors of files of which an error is made.
func fileErrors(err error) []*fs.PathError {
	switch err := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
		return nil
	case *fs.PathError:
		return []*fs.PathError{err}
	case interface{ Unwrap() error }:
		return fileErrors(err.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*fs.PathError
		for _, below := range err.Unwrap() {
			all = append(all, fileErrors(below)...)
		}
		return all
	}
	return nil
}

// Status is the exit code of something that ran in this process's place
// and has reported its errors itself.
type Status int

// Error implements error.
func (s Status) Error() string { return fmt.Sprintf("exited with %d", int(s)) }
