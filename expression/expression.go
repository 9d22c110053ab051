// Package expression evaluates Jinja2 expressions within the values of a
// manifest.
//
// A value may hold {{ expressions }}, {% statements %} and {# comments #} of
// the Jinja2 language, with its filters, tests, methods and operators; what
// Python's Jinja2 answers is recorded in testdata/jinja2.json, and the tests
// hold this package to it, as to its answers to random expressions: an
// expression has the value that Jinja2 gives it, or fails. Three things are particular:
//
//   - A value that is one single {{ expression }} keeps its type: a list stays a
//     list, a number a number. Everything else renders to text.
//   - An undefined name, key or index is an error that says what there is
//     instead; only "is defined" and the default filter put up with one.
//   - Evaluation is pure and bounded. It reads nothing but its variables and,
//     through include, import and extends, files of the workspace; it counts
//     its steps and what it builds and gives up with a LimitError, so that a
//     hostile manifest can neither hang nor exhaust the machine. The same
//     value and variables give the same answer or the same error everywhere.
//
// gonja cuts templates into tokens, parses statements and renders. This package
// corrects what it does not know of the language (see grammar), parses the
// expressions (see tagParser), and does everything that computes (see rewrite):
// operators, filters, tests and methods are strict and bounded here. Nothing
// is kept between evaluations, so an Evaluator may be used from any goroutine.
package expression

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// The bounds of one evaluation. They are far above what configuration needs.
const (
	maxSource   = 1 << 20   // bytes of a template or an included file
	maxOutput   = 16 << 20  // bytes of rendered text
	maxMemory   = 64 << 20  // bytes of everything built on the way
	maxSteps    = 4_000_000 // nodes visited and elements touched; about a second
	maxRange    = 100_000   // numbers in one range()
	maxCalls    = 200       // macros, includes and recursive loops within each other
	maxFiles    = 100       // included files, counting each time
	maxNesting  = 100       // brackets, and statements, within each other
	maxTokens   = 5_000     // names, operators and so on in one {{ }} or {% %}
	maxDataDeep = 500       // lists and mappings within each other
)

// Evaluator evaluates templates. It is safe for concurrent use.
type Evaluator struct {
	workspace  string
	filters    map[string]filter
	tests      map[string]test
	methods    methods
	globals    map[string]any
	operations map[string]operation
	empty      *exec.Template
}

// New returns an evaluator whose templates may include files below workspace.
func New(workspace string) *Evaluator {
	return &Evaluator{
		workspace:  workspace,
		filters:    builtinFilters(),
		tests:      builtinTests(),
		methods:    builtinMethods(),
		globals:    builtinGlobals(),
		operations: operations(),
		empty:      emptyTemplate(),
	}
}

// Ref is a name that a template reads and does not bind itself.
type Ref struct {
	Name         string
	Line, Column int  // of its first use, from 1
	Optional     bool // the template copes with its being undefined
}

// IsTemplate tells whether the text holds anything to evaluate; text that does
// not evaluates to itself.
func IsTemplate(src string) bool {
	return strings.Contains(src, "{{") || strings.Contains(src, "{%") || strings.Contains(src, "{#")
}

// Check parses the template, and the files it includes by constant names, and
// returns the names it needs, each once and in the order of their first use;
// what an included file needs is used where it is included. It fails with a
// SyntaxError, or a LimitError when too many files include each other.
func (e *Evaluator) Check(src string) (refs []Ref, err error) {
	u, err := e.Examine(src)
	return u.Refs, err
}

// Usage is what a template does with names.
type Usage struct {
	Refs     []Ref    // what it needs; see Check
	Mentions []string // every name that it may read, also one that it binds elsewhere
	Dynamic  bool     // it includes what is known only when it is evaluated, and so may read any name
}

// Examine is Check that tells more.
func (e *Evaluator) Examine(src string) (u Usage, err error) {
	if !IsTemplate(src) {
		return Usage{}, nil
	}
	defer recoverTo(&err)
	s := e.newState(nil)
	return s.usage(s.parse("", src)), nil
}

// Evaluate evaluates a template. It fails with a SyntaxError, an
// UndefinedError, a LimitError or an EvalError. The answer is made of nil,
// bool, int64, float64, string, []any and map[string]any and shares nothing
// with vars, which may hold any number type, slices and maps with text keys
// and are not changed.
func (e *Evaluator) Evaluate(src string, vars map[string]any) (result any, err error) {
	if !IsTemplate(src) {
		return src, nil
	}
	defer recoverTo(&err)
	s := e.newState(vars)
	root := s.parse("", src)
	out := &output{}
	r := s.renderer(root, s.variables(), out)
	x, tail := single(root)
	if x == nil {
		if err := r.Execute(); err != nil {
			return nil, &EvalError{Line: s.at.line, Column: s.at.column, Message: rootMessage(err)}
		}
		return out.String(), nil
	}
	value := unwrap(r.Eval(x))
	if text, ok := value.(string); ok {
		return text + tail, nil
	}
	return s.native(value, 0), nil
}

// single returns the expression of a template that is nothing else, and the
// line breaks after it: a block scalar of YAML ends in one.
func single(t *nodes.Template) (x nodes.Expression, tail string) {
	if len(t.Nodes) == 0 || len(t.Nodes) > 2 {
		return nil, ""
	}
	out, ok := t.Nodes[0].(*nodes.Output)
	if !ok {
		return nil, ""
	}
	if len(t.Nodes) == 2 {
		data, ok := t.Nodes[1].(*nodes.Data)
		if !ok || data.Trim.Left || strings.Trim(data.Data.Val, "\n") != "" {
			return nil, ""
		}
		tail = data.Data.Val
	}
	// What the expression was before it was made to give text.
	return out.Expression.(*nodes.FilteredExpression).Expression, tail
}

// output is the rendered text, up to its bound.
type output struct{ strings.Builder }

func (o *output) Write(p []byte) (int, error) { return o.WriteString(string(p)) }

func (o *output) WriteString(text string) (int, error) {
	if o.Len()+len(text) > maxOutput {
		throw(&LimitError{Message: fmt.Sprintf("the text becomes longer than %d MiB", maxOutput>>20)})
	}
	return o.Builder.WriteString(text)
}

// Resolve evaluates every text within v, which is made of maps, slices and
// scalars; keys are taken as they are. The first failure, in the order of
// sorted keys, comes as a PathError.
func (e *Evaluator) Resolve(v any, vars map[string]any) (any, error) {
	return e.resolve(v, vars, nil)
}

func (e *Evaluator) resolve(v any, vars map[string]any, path []string) (any, error) {
	if len(path) > maxDataDeep {
		return nil, &PathError{Path: slices.Clone(path), Err: &LimitError{Message: fmt.Sprintf("the value is nested deeper than %d levels", maxDataDeep)}}
	}
	switch v := v.(type) {
	case string:
		result, err := e.Evaluate(v, vars)
		if err != nil {
			return nil, &PathError{Path: slices.Clone(path), Err: err}
		}
		return result, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			resolved, err := e.resolve(item, vars, append(path, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			out[i] = resolved
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			resolved, err := e.resolve(v[key], vars, append(path, key))
			if err != nil {
				return nil, err
			}
			out[key] = resolved
		}
		return out, nil
	default:
		return v, nil
	}
}
