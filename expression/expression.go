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
// A lexer cuts a template into tokens, a parser makes a tree of them, and the
// tree is walked to evaluate it. An Evaluator keeps the tree of a text, which is
// not changed any more, and nothing else: it may be used from any goroutine.
package expression

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/expression/python"

	"github.com/deployster-go/deployster/expression/builtin"
)

// The bounds of one evaluation. They are far above what configuration needs.
const (
	maxSource  = 1 << 20  // bytes of a template or an included file
	maxOutput  = 16 << 20 // bytes of rendered text
	maxFiles   = 100      // included files, counting each time
	maxNesting = 100      // brackets, and statements, within each other
	maxTokens  = 5_000    // names, operators and so on in one {{ }} or {% %}
)

// Evaluator evaluates templates. It is safe for concurrent use.
type Evaluator struct {
	files     Files
	whole     bool // files are all that there are
	library   *python.Library
	globals   map[string]any
	templates templates
	below     sync.Map // directory → the *Evaluator of what is in it
}

// New returns an evaluator whose templates may include files below workspace, as they
// are at the moment.
func New(workspace string) *Evaluator { return OverAll(Workspace(workspace)) }

// OverAll returns an evaluator whose templates may include these files, which are all that
// there are.
func OverAll(files Files) *Evaluator {
	e := Over(files)
	e.whole = true
	return e
}

// Over returns an evaluator whose templates may include these files, which are not all
// that there are: only those that the forms of their includes name (Usage). An include
// that leads to another file fails, also where it may do without it: nobody knows whether
// there is one.
func Over(files Files) *Evaluator {
	return &Evaluator{
		files:   files,
		library: python.NewLibrary(builtin.Filters(), builtin.Tests()),
		globals: builtin.Functions(),
	}
}

// Unknown is the value of a variable whose value is not known. A template that reads it fails with an UndefinedError,
// also if it could do without the variable: what it would come to instead is not what it means.
type Unknown struct{}

// Ref is a name that a template reads and does not bind itself.
type Ref struct {
	Name         string
	Line, Column int  // of its first use, from 1
	Optional     bool // the template copes with its being undefined
}

// IsTemplate reports whether the text holds anything to evaluate; text that does
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

	// What that may be: some of the files, and any file in the directories, each of
	// which ends in a slash; Anywhere is any file at all.
	Candidates  []string
	Directories []string
	Anywhere    bool
}

// Examine is Check that tells more.
func (e *Evaluator) Examine(src string) (u Usage, err error) {
	if !IsTemplate(src) {
		return Usage{}, nil
	}
	defer python.RecoverTo(&err)
	return e.begin(nil).usage(e.template(src)), nil
}

// Includes tells what a file may include, by constant names and others: the Candidates,
// Directories and Anywhere of a Usage. It reads none of these, so that one that cannot be
// read hides no other.
func (e *Evaluator) Includes(name string) (u Usage, err error) {
	defer python.RecoverTo(&err)
	t, err := e.begin(nil).load(name)
	if err != nil {
		return Usage{}, err
	}
	var all possible
	for _, r := range t.references {
		if r.dynamic {
			all.add(r.possible)
		} else {
			all.files = append(all.files, r.name)
		}
	}
	return Usage{Candidates: all.files, Directories: all.directories, Anywhere: all.anywhere}, nil
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
	defer python.RecoverTo(&err)
	return e.evaluate(e.template(src), vars), nil
}

// evaluation is one evaluation of a template.
type evaluation struct {
	*python.State
	e         *Evaluator
	variables map[string]any
	files     map[string]*template // what was included so far
	reads     int
}

func (e *Evaluator) begin(vars map[string]any) *evaluation {
	return &evaluation{State: e.library.NewState(), e: e, variables: vars}
}

func (e *Evaluator) evaluate(t *template, vars map[string]any) any {
	s := e.begin(vars)
	out := &output{}
	root := s.newRoot(t, out, nil, false)
	x, tail := t.single()
	if x == nil {
		root.renderTemplate(t)
		return out.String()
	}
	value := x.eval(root)
	if text, ok := value.(string); ok {
		return text + tail
	}
	return s.Native(value, 0)
}

// single returns the expression of a template that is nothing else, and the
// line breaks after it: a block scalar of YAML ends in one.
func (t *template) single() (x expr, tail string) {
	nodes := t.body.nodes
	if len(nodes) == 0 || len(nodes) > 2 {
		return nil, ""
	}
	out, ok := nodes[0].(*printed)
	if !ok {
		return nil, ""
	}
	if len(nodes) == 2 {
		after, ok := nodes[1].(*text)
		if !ok || !after.tail || strings.Trim(after.text, "\n") != "" {
			return nil, ""
		}
		tail = after.text
	}
	return out.x, tail
}

// Resolve evaluates every text within v, which is made of maps, slices and
// scalars; keys are taken as they are. The first failure, in the order of
// sorted keys, comes as a PathError.
func (e *Evaluator) Resolve(v any, vars map[string]any) (any, error) {
	return e.resolve(v, vars, nil)
}

func (e *Evaluator) resolve(v any, vars map[string]any, path []string) (any, error) {
	if len(path) > python.MaxDataDeep {
		return nil, &python.PathError{Path: slices.Clone(path), Err: python.Exceeded("the value is nested deeper than %d levels", python.MaxDataDeep)}
	}
	switch v := v.(type) {
	case string:
		result, err := e.Evaluate(v, vars)
		if err != nil {
			return nil, &python.PathError{Path: slices.Clone(path), Err: err}
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
		for _, key := range python.SortedKeys(v) {
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
