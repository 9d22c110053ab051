package python

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
)

// SyntaxError says where a template is malformed.
type SyntaxError struct {
	File         string // the included file; "" is the value itself
	Line, Column int    // from 1, in characters
	Message      string
}

func (e *SyntaxError) Error() string {
	return at(e.File, e.Line, e.Column) + e.Message
}

// UndefinedError says that something is not there, and what is.
type UndefinedError struct {
	Name         string   // as the template has it: "db", "db.state.size", "list[3]"
	Of           string   // what lacks it: "db.state"; "" when a variable is missing
	Missing      string   // the part that is missing: "size"
	Defined      []string // the variables, keys or attributes there are, sorted
	Kind         string   // what Of is, such as "a list of 2"
	Unknown      bool     // the variable has a value, which is not known
	Line, Column int      // from 1
	File         string   // the included file; "" is the value itself
}

func (e *UndefinedError) Error() string {
	defined := make([]string, len(e.Defined))
	for i, name := range e.Defined {
		defined[i] = phrase.Cut(name, longest)
	}
	var what string
	switch {
	case e.Unknown:
		what = Message("the value of %q is not known", e.Missing)
	case e.Of == "" && len(defined) == 0:
		what = Message("%q is not defined; nothing is", e.Missing)
	case e.Of == "":
		what = Message("%q is not defined; defined are ", e.Missing) + phrase.List(defined)
	case len(defined) > 0:
		what = Message("%s has no %q; it has ", e.Of, e.Missing) + phrase.List(defined)
	default:
		what = Message("%s has no %q; it is %s", e.Of, e.Missing, e.Kind)
	}
	return at(e.File, e.Line, 0) + what
}

// longest is how many characters of a text stand in a message.
const longest = 100

// Message writes a message. The texts in it are cut: a name or a number in a
// template may be as long as the template.
func Message(format string, a ...any) string {
	parts := slices.Clone(a)
	for i, part := range parts {
		if text, ok := part.(string); ok {
			parts[i] = phrase.Cut(text, longest)
		}
	}
	return fmt.Sprintf(format, parts...)
}

// EvalError says that an operation cannot be done with the values it got.
type EvalError struct {
	File         string // the included file; "" is the value itself
	Line, Column int    // from 1
	Message      string
}

func (e *EvalError) Error() string { return at(e.File, e.Line, 0) + e.Message }

// LimitError says that an evaluation was given up because it would have taken
// too long or too much memory.
type LimitError struct {
	Message string
}

func (e *LimitError) Error() string { return e.Message }

// Exceeded makes the error of a bound.
func Exceeded(format string, a ...any) *LimitError {
	return &LimitError{Message: fmt.Sprintf(format, a...)}
}

// PathError says which value within a larger one failed.
type PathError struct {
	Path []string // keys and, as decimal numbers, indexes
	Err  error
}

func (e *PathError) Error() string {
	if len(e.Path) == 0 {
		return e.Err.Error()
	}
	return strings.Join(e.Path, ".") + ": " + e.Err.Error()
}

// Unwrap returns what failed there.
func (e *PathError) Unwrap() error { return e.Err }

// at is the prefix of a message. The position in a value of one line says
// nothing that the message does not.
func at(file string, line, column int) string {
	switch {
	case file != "" && column > 0:
		return fmt.Sprintf("%s:%d:%d: ", file, line, column)
	case file != "":
		return fmt.Sprintf("%s:%d: ", file, line)
	case column > 0:
		return fmt.Sprintf("line %d, column %d: ", line, column)
	case line > 1:
		return fmt.Sprintf("line %d: ", line)
	default:
		return ""
	}
}

// thrown carries an error up the recursion of the parser and the evaluator to
// RecoverTo; it never leaves the package.
type thrown struct{ err error }

// Throw ends the evaluation with an error.
func Throw(err error) { panic(thrown{err}) }

// RecoverTo ends a panic. One that was not thrown is a defect of this package
// and becomes an error too, so that no value can end the program.
func RecoverTo(err *error) {
	switch r := recover().(type) {
	case nil:
	case thrown:
		*err = r.err
	case runtime.Error:
		*err = &EvalError{Line: 1, Message: "the expression could not be evaluated: " + r.Error()}
	default:
		panic(r)
	}
}
