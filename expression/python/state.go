package python

import "sort"

// The bounds of one evaluation. They are far above what configuration needs.
const (
	maxMemory   = 64 << 20  // bytes of everything built on the way
	maxSteps    = 4_000_000 // nodes visited and elements touched; about a second
	MaxRange    = 100_000   // numbers in one range()
	maxCalls    = 200       // macros, includes and recursive loops within each other
	MaxDataDeep = 500       // lists and mappings within each other
)

// State is what an evaluation has left of its bounds, and where it is.
type State struct {
	*Library
	steps int
	bytes int
	calls int
	File  string // the included file that is rendered; "" is the value itself
	At    Position
}

// Position is a line and a column, in characters, from 1.
type Position struct{ Line, Column int }

// Library is what can be applied to values by its name.
type Library struct {
	Filters map[string]Filter
	Tests   map[string]Test
	methods methods
}

type (
	// Filter is what stands after "|".
	Filter func(s *State, in any, a *Args) any

	// Test is what stands after "is".
	Test func(s *State, in any, a *Args) bool
)

// NewLibrary makes a library of filters and tests; the methods are Python's.
func NewLibrary(filters map[string]Filter, tests map[string]Test) *Library {
	return &Library{filters, tests, builtinMethods()}
}

// NewState begins an evaluation.
func (l *Library) NewState() *State {
	return &State{Library: l, steps: maxSteps, bytes: maxMemory, At: Position{1, 1}}
}

// Fail throws an EvalError at the current position.
func (s *State) Fail(format string, a ...any) {
	Throw(&EvalError{File: s.File, Line: s.At.Line, Column: s.At.Column, Message: Message(format, a...)})
}

// Work counts n steps.
func (s *State) Work(n int) {
	s.steps -= n
	if s.steps < 0 {
		Throw(Exceeded("the evaluation takes more than %d steps", maxSteps))
	}
}

// Memory counts n bytes that are about to be built.
func (s *State) Memory(n int) {
	s.bytes -= n
	if n < 0 || s.bytes < 0 {
		Throw(Exceeded("the evaluation builds more than %d MiB", maxMemory>>20))
	}
}

// Times counts n pieces of size bytes, which may overflow when multiplied.
func (s *State) Times(n, size int64) {
	if n > 0 && size > 0 && n > int64(s.bytes)/size {
		s.Memory(s.bytes + 1)
	}
	if n > 0 {
		s.Memory(int(n * size))
	}
}

// deep bounds how deep data is nested.
func (s *State) deep(n int) {
	if n > MaxDataDeep {
		Throw(Exceeded("lists and mappings are nested deeper than %d levels", MaxDataDeep))
	}
}

// Within runs f, which renders a part of a file, and bounds how deep calls and
// includes nest.
func (s *State) Within(file string, f func()) {
	s.calls++
	if s.calls > maxCalls {
		Throw(Exceeded("macros, loops and includes call each other deeper than %d levels; is one calling itself without end?", maxCalls))
	}
	outer := s.File
	s.File = file
	f()
	s.File = outer
	s.calls--
}

// Undefined makes an undefined value that knows where it came up.
func (s *State) Undefined(err func() *UndefinedError, at Position) *Undefined {
	file := s.File
	return &Undefined{err: func() *UndefinedError {
		e := err()
		e.File, e.Line, e.Column = file, at.Line, at.Column
		return e
	}}
}

// Nothing is the undefined value of a filter that found none.
func (s *State) Nothing(what string) *Undefined {
	return s.Undefined(func() *UndefinedError {
		return &UndefinedError{Name: what, Of: "an empty list", Missing: what, Kind: "empty"}
	}, s.At)
}

// ordered returns the indexes of values in ascending order.
func (s *State) ordered(values []any) []int {
	return s.Sorted(len(values), func(i, j int) int { return s.Compare(values[i], values[j], 0) })
}

// Sorted returns the indexes below n in the order of compare; equal ones keep
// theirs.
func (s *State) Sorted(n int, compare func(i, j int) int) []int {
	s.Memory(8 * n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		s.Work(1)
		return compare(order[i], order[j]) < 0
	})
	return order
}
