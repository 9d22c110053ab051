package expression

import (
	"fmt"
	"sort"
)

// state is one evaluation: its variables, what is left of its bounds, and
// where it is.
type state struct {
	e     *Evaluator
	vars  map[string]any
	steps int
	bytes int
	calls int
	reads int
	file  string // the included file that is rendered; "" is the value itself
	at    position
	files map[string]*template // what was included so far
}

func (e *Evaluator) newState(vars map[string]any) *state {
	return &state{e: e, vars: vars, steps: maxSteps, bytes: maxMemory, at: position{1, 1}}
}

// fail throws an EvalError at the current position.
func (s *state) fail(format string, a ...any) {
	throw(&EvalError{File: s.file, Line: s.at.line, Column: s.at.column, Message: fmt.Sprintf(format, a...)})
}

// work counts n steps.
func (s *state) work(n int) {
	s.steps -= n
	if s.steps < 0 {
		throw(limitError("the evaluation takes more than %d steps", maxSteps))
	}
}

// memory counts n bytes that are about to be built.
func (s *state) memory(n int) {
	s.bytes -= n
	if n < 0 || s.bytes < 0 {
		throw(limitError("the evaluation builds more than %d MiB", maxMemory>>20))
	}
}

// times counts n pieces of size bytes, which may overflow when multiplied.
func (s *state) times(n, size int64) {
	if n > 0 && size > 0 && n > int64(s.bytes)/size {
		s.memory(s.bytes + 1)
	}
	if n > 0 {
		s.memory(int(n * size))
	}
}

// deep bounds how deep data is nested.
func (s *state) deep(n int) {
	if n > maxDataDeep {
		throw(limitError("lists and mappings are nested deeper than %d levels", maxDataDeep))
	}
}

// within runs f, which renders a part of a file, and bounds how deep calls and
// includes nest.
func (s *state) within(file string, f func()) {
	s.calls++
	if s.calls > maxCalls {
		throw(limitError("macros, loops and includes call each other deeper than %d levels; is one calling itself without end?", maxCalls))
	}
	outer := s.file
	s.file = file
	f()
	s.file = outer
	s.calls--
}

// undefined makes an undefined value that knows where it came up.
func (s *state) undefined(err func() *UndefinedError, at position) *undefined {
	file := s.file
	return &undefined{err: func() *UndefinedError {
		e := err()
		e.File, e.Line, e.Column = file, at.line, at.column
		return e
	}}
}

// nothing is the undefined value of a filter that found none.
func (s *state) nothing(what string) *undefined {
	return s.undefined(func() *UndefinedError {
		return &UndefinedError{Name: what, Of: "an empty list", Missing: what, Kind: "empty"}
	}, s.at)
}

// ordered returns the indexes of values in ascending order.
func (s *state) ordered(values []any) []int {
	return s.sorted(len(values), func(i, j int) int { return s.compare(values[i], values[j], 0) })
}

// sorted returns the indexes below n in the order of compare; equal ones keep
// theirs.
func (s *state) sorted(n int, compare func(i, j int) int) []int {
	s.memory(8 * n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		s.work(1)
		return compare(order[i], order[j]) < 0
	})
	return order
}
