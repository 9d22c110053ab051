package cli

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
	var input *work.InputError
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
	case errors.As(err, &wrong), errors.As(err, &input), errors.As(err, &invalid):
		return exitInvalid
	default:
		return exitFailed
	}
}

// errorText is what people read of an error. It may quote files and containers.
func errorText(err error) string {
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
		said := file.Path + ": " + fileWords(file.Err)
		text = strings.ReplaceAll(text, file.Path+": "+file.Error(), said) // it was named already
		text = strings.ReplaceAll(text, file.Error(), said)
	}
	return text
}

// fileWords is what is wrong with a file.
func fileWords(err error) string {
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
