// Package exit decides how a command ends: what an error means for the exit code,
// and how people read it.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitChanges     = 2 // plan --detailed-exitcode or drift found changes, env or build status --check something that is not as it should be
	exitInvalid     = 3 // wrong usage or invalid input; nothing was touched
	exitInterrupted = 130
)

// coded is an error that decides the exit code.
type coded struct {
	error
	code int
}

// Unwrap returns the cause.
func (e *coded) Unwrap() error { return e.error }

// Invalid makes an error one of wrong usage or invalid input.
func Invalid(cause error) error { return &coded{cause, exitInvalid} }

// Usage is Invalid of a new error.
func Usage(format string, args ...any) error { return Invalid(fmt.Errorf(format, args...)) }

// IsInvalid reports whether an error is one of wrong usage or invalid input.
func IsInvalid(err error) bool { return Code(err) == exitInvalid }

// ErrChanges is how plan --detailed-exitcode says that there are changes.
var ErrChanges error = &coded{errors.New("there are changes"), exitChanges}

// ErrUnhealthy is how env status --check says that an environment is not healthy.
var ErrUnhealthy error = &coded{errors.New("not healthy"), exitChanges}

// ErrIncomplete is how build status --check says that a group is not complete.
var ErrIncomplete error = &coded{errors.New("not complete"), exitChanges}

// Status is the exit code of something that ran in this process's place.
func Status(code int) error { return &coded{fmt.Errorf("exited with %d", code), code} }

// reported is an error that the output has reported already.
type reported struct{ error }

// Unwrap returns the cause.
func (e *reported) Unwrap() error { return e.error }

// Reported marks an error as one that the output has reported already.
func Reported(err error) error {
	if err == nil {
		return nil
	}
	return &reported{err}
}

// Code is the exit code of a command that returned an error.
func Code(err error) int {
	var failed *failure.Error
	var decided *coded
	var input *work.InputError
	var invalid *manifest.Error
	var refused *client.Refusal
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, runner.ErrInterrupted):
		return exitInterrupted
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &decided):
		return decided.code
	case errors.As(err, &input), errors.As(err, &invalid), errors.As(err, &refused) && refused.Invalid():
		return exitInvalid
	case errors.Is(err, pipelines.ErrNoPipeline), errors.Is(err, pipeline.ErrUnknown), errors.Is(err, upstream.ErrUnknown), errors.Is(err, pipeline.ErrAmbiguous), errors.Is(err, environments.ErrNoEnvironment),
		errors.Is(err, environment.ErrUnknown), errors.Is(err, build.ErrNoGroup), errors.Is(err, build.ErrNoJob), errors.Is(err, query.ErrNotFound): // a name of nothing
		return exitInvalid
	default:
		return exitFailed
	}
}

// Text is what people read of an error: nothing where the output has reported it
// already. It may quote files and containers.
func Text(err error) string {
	var said *reported
	if err == nil || errors.As(err, &said) {
		return ""
	}
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
