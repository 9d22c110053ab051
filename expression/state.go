package expression

import (
	"fmt"
	"io"
	"maps"
	"sort"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// state is one evaluation: its variables, what is left of its bounds, and
// where it is.
type state struct {
	e        *Evaluator
	vars     map[string]any
	env      *exec.Environment
	template *exec.Template // an empty one: gonja's renderer takes its loader from it
	steps    int
	bytes    int
	calls    int
	reads    int
	file     string // the included file that is rendered; "" is the value itself
	at       position
	files    map[string]*nodes.Template // what was included so far
	parsing  *grammar
}

// position is a line and a column, from 1.
type position struct{ line, column int }

func (e *Evaluator) newState(vars map[string]any) *state {
	s := &state{e: e, vars: vars, steps: maxSteps, bytes: maxMemory, at: position{1, 1}, files: map[string]*nodes.Template{}}
	filters := make(map[string]exec.FilterFunction, len(e.operations))
	for name, op := range e.operations {
		filters[name] = s.operate(op)
	}
	s.env = &exec.Environment{
		Context:           exec.EmptyContext(),
		Filters:           exec.NewFilterSet(filters),
		Tests:             exec.NewTestSet(nil),
		ControlStructures: exec.NewControlStructureSet(s.structures()),
	}
	s.template = e.empty
	return s
}

// fail throws an EvalError at the current position.
func (s *state) fail(format string, a ...any) {
	throw(&EvalError{File: s.file, Line: s.at.line, Column: s.at.column, Message: fmt.Sprintf(format, a...)})
}

// work counts n steps.
func (s *state) work(n int) {
	s.steps -= n
	if s.steps < 0 {
		throw(&LimitError{Message: fmt.Sprintf("the evaluation takes more than %d steps", maxSteps)})
	}
}

// memory counts n bytes that are about to be built.
func (s *state) memory(n int) {
	s.bytes -= n
	if n < 0 || s.bytes < 0 {
		throw(&LimitError{Message: fmt.Sprintf("the evaluation builds more than %d MiB", maxMemory>>20)})
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
		throw(&LimitError{Message: fmt.Sprintf("lists and mappings are nested deeper than %d levels", maxDataDeep)})
	}
}

// within bounds how deep calls and includes nest.
func (s *state) within(f func()) {
	s.calls++
	if s.calls > maxCalls {
		throw(&LimitError{Message: fmt.Sprintf("macros, loops and includes call each other deeper than %d levels; is one calling itself without end?", maxCalls)})
	}
	f()
	s.calls--
}

// globalScope is a scope that sees no variables.
func (s *state) globalScope() *exec.Context {
	return exec.NewContext(maps.Clone(s.e.globals))
}

// variables is the scope of the caller's variables.
func (s *state) variables() *exec.Context {
	scope := s.globalScope().Inherit()
	for name, v := range s.vars {
		scope.Set(name, v)
	}
	return scope
}

// renderer renders a template in a scope.
func (s *state) renderer(root *nodes.Template, scope *exec.Context, out io.Writer) *exec.Renderer {
	env := *s.env
	env.Context = scope
	r := &exec.Renderer{Config: settings(), Environment: &env, Template: s.template, RootNode: root, Output: out, Loader: loader{}}
	scope.Set("self", exec.Self(r))
	return r
}

// name looks a name up.
func (s *state) name(name string, scope *exec.Context) any {
	if v, ok := scope.Get(name); ok {
		return unwrap(v)
	}
	return s.undefined(func() *UndefinedError {
		return &UndefinedError{Name: name, Missing: name, Defined: sortedKeys(s.vars)}
	}, s.at)
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

// emptyTemplate is what gonja's renderer asks for its loader.
func emptyTemplate() *exec.Template {
	t, err := exec.NewTemplate("", settings(), emptyLoader{}, &exec.Environment{ControlStructures: exec.NewControlStructureSet(nil)})
	if err != nil {
		panic(err) // an empty text is always a template
	}
	return t
}
