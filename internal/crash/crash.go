// Package crash turns panics into errors that can be shown, recorded and
// reported.
//
// A panic is a fault of the program, and ends no more than it must: every
// goroutine that does more than wait begins with one of two guards. Catch hands
// the panic, as an *Error, to the caller that waits for the goroutine, so that what it
// worked on fails and all else goes on. End is for goroutines that nobody waits
// for: it writes the report, and ends the program with ExitCode. Without a guard
// the Go runtime would end it with 2, which says of a plan that there are changes.
package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// ExitCode is how the program ends after an internal error (EX_SOFTWARE of
// sysexits.h).
const ExitCode = 70

// Error is a panic.
type Error struct {
	Doing   string // what the program was at, such as "applying db"
	Message string // of the panic; whoever knows of secrets hides them in it
	Place   string // where it happened: function, file and line
	Stack   string // of the goroutine
}

func (e *Error) Error() string {
	return fmt.Sprintf("internal error while %s: %s, at %s", e.Doing, e.Message, e.Place)
}

// Catch makes an error of a panic. It is deferred, by the function that may panic.
func Catch(err *error, doing string) {
	if p := recover(); p != nil {
		*err = New(p, doing)
	}
}

// Cancel fails what something that panics was a part of. It is deferred, as Catch is.
func Cancel(fail context.CancelCauseFunc, doing string) {
	if p := recover(); p != nil {
		fail(New(p, doing))
	}
}

// Do calls f, and returns its panic as an error.
func Do(doing string, f func() error) (err error) {
	defer Catch(&err, doing)
	return f()
}

// New is the error for what recover returned. A panic that is on its way up
// already stays what it was.
func New(recovered any, doing string) *Error {
	err, _ := recovered.(error)
	if caught := new(Error); errors.As(err, &caught) {
		return caught
	}
	return &Error{Doing: doing, Message: fmt.Sprint(recovered), Place: place(), Stack: string(debug.Stack())}
}

// place finds where the panic began.
func place() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s (%s:%d)", filepath.Base(f.Function), filepath.Base(f.File), f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

// All returns the internal errors among the causes of an error.
func All(err error) []*Error {
	switch e := err.(type) { //nolint:errorlint // this walks the chain itself
	case nil:
		return nil
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() error }:
		return All(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, cause := range e.Unwrap() {
			all = append(all, All(cause)...)
		}
		return all
	default:
		return nil
	}
}

// Write writes a report of internal errors into a new file in dir, which is made
// where it is missing; where that is not possible, into one for temporary files.
// About says, line by line, what the program was asked for.
func Write(dir string, now time.Time, about string, all ...*Error) (path string, err error) {
	text := report(now, about, all)
	name := fmt.Sprintf("crash-%s-%d-*.txt", now.UTC().Format("20060102T150405Z"), os.Getpid())
	err = os.MkdirAll(dir, 0o700)
	for _, dir := range []string{dir, os.TempDir()} {
		var file *os.File
		if file, err = os.CreateTemp(dir, name); err != nil { // readable for its owner only
			continue
		}
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err == nil {
			return file.Name(), nil
		}
	}
	return "", fmt.Errorf("writing the report: %w", err)
}

func report(now time.Time, about string, all []*Error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "An internal error of Deployster.\n\ntime: %s\n%s", now.UTC().Format(time.RFC3339), about)
	fmt.Fprintf(&b, "built with: %s for %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		fmt.Fprintf(&b, "module: %s %s\n", info.Main.Path, info.Main.Version)
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "vcs.") {
				fmt.Fprintf(&b, "%s: %s\n", s.Key, s.Value)
			}
		}
	}
	for _, e := range all {
		fmt.Fprintf(&b, "\nwhile: %s\npanic: %s\nat: %s\n\n%s", e.Doing, e.Message, e.Place, e.Stack)
	}
	return b.String()
}

// Advice says where the report of errors is, to a user who has seen the errors; err
// is why there is no report.
func Advice(path string, err error, all ...*Error) string {
	if err == nil {
		return fmt.Sprintf("This is a fault of Deployster. Please file the report: %s\n", path)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This is a fault of Deployster. Please file this (%v):\n", err)
	for _, e := range all {
		fmt.Fprintf(&b, "%v\n%s", e, e.Stack)
	}
	return b.String()
}

// End ends the program after a panic, with a report below dir. It is deferred, by
// a goroutine that nobody waits for.
func End(dir, doing string) {
	p := recover()
	if p == nil {
		return
	}
	e := New(p, doing)
	path, err := Write(dir, time.Now(), "", e)
	fmt.Fprintf(os.Stderr, "error: %v\n%s", e, Advice(path, err, e))
	os.Exit(ExitCode)
}
