// Package vars collects the values of variables: the defaults that manifests declare, files of variables, the
// environment, the command line.
package vars

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/schema"
)

// Options says where variables come from.
type Options struct {
	ConfDir   string // the user's configuration; "" is none
	Workspace string
	Flags     []Flag         // in the order of the command line
	Last      map[string]any // set after all others, as they are: what looks like an expression is a text
	Builtin   map[string]any // set by the program; nobody else can set them
	Evaluator *expression.Evaluator
	Usage     *usage.Variables // notes which variables Flags and Last give, and which ones values read; may be nil

	Outside  *Outside                // where declared ones come from that nobody gives; nil is nowhere, and so it is with Assignments
	Declared []*declaration.Variable // in the order of declaration; other variables are as they are given
	Partly   bool                    // only some of the variables are known: that one has no value is no problem
	Unknown  []string                // variables whose values are not known: no default stands for one; see expression.Unknown
	Texts    map[string]any          // gets the variables whose type nobody declares, with numbers and truth values as they are written; may be nil
	Hide     func(any)               // is called with each value that may not be shown, before anything is said of it; may be nil

	// Assignments are in the place of the files and of Flags, unless they are nil.
	Assignments []Assignment
}

// Flag is --var-file File, or --var Name=Value when File is "".
//
// Value is read as somebody who types it would expect:
//
//   - With an expression it is evaluated, over all variables set before; a
//     single {{ expression }} keeps its type.
//   - true, 3, 1.5 and null are what they are in YAML, and so are lists and
//     mappings in the form [a, b] and {a: 1} and texts in quotes.
//   - Everything else is text as it stands. That includes numbers that would
//     not be printed as they were typed: 1.10, 007 and 1e3 are texts, so that a
//     version or an id comes out as it went in.
//
// In a file of variables, a number or a truth value without quotes is a text where the schema of a declared
// variable wants one. Of other variables, what would not be printed as it is written is refused.
//
// Of a variable that is declared, it is the first of these that its schema accepts: what it is
// above, a number as JSON writes it, the text as it stands.
type Flag struct {
	File  string
	Name  string
	Value string
}

// Load collects the variables: the declared defaults, what comes from outside, the files vars.auto.yaml and
// vars.*.auto.yaml (sorted) in ConfDir, then those in Workspace, then the
// flags, then Last. Mappings merge deeply, otherwise the later wins. A value can use
// expressions over what was set before it, also in its own file. A default that has
// expressions is evaluated when all that is given is set, over that and over defaults that
// are declared before it. It fails with an *manifest.Error that holds all problems.
func Load(opts Options) (map[string]any, error) {
	v := newVariables(opts)
	v.declare()
	given := opts.Assignments
	if given == nil {
		v.read(func(a Assignment) { given = append(given, a) })
		given = append(v.outside(given), given...)
	}
	for _, a := range given {
		v.assign(a)
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Last)) {
		if problem := v.nameProblem(name); problem != "" {
			v.found.Add(manifest.Problem{Message: problem})
			continue
		}
		v.set(name, v.fit(Assignment{Name: name}, opts.Last[name]), declaration.Place{}, nil)
		v.Usage.Give(name, manifest.Problem{Path: name})
	}
	v.complete()
	if err := v.found.Err(); err != nil {
		return nil, err
	}
	v.tellTexts()
	return v.values, nil
}

// tellTexts adds to Options.Texts those variables whose types nobody declares.
func (v *variables) tellTexts() {
	if v.Texts == nil {
		return
	}
	for name, value := range v.values {
		if _, builtin := v.Builtin[name]; builtin || v.unknown[name] {
			continue
		}
		d := v.declared[name]
		text, given := v.texts[name]
		if d != nil && (!given || d.Late) {
			text, _ = declaration.Texts(value, d.Node)
		}
		if !reflect.DeepEqual(text, value) && d.Untyped(value, text) {
			v.Texts[name] = text
		}
	}
}

var (
	variableFile = yamlfile.Format{Second: ", several files can be given", Binary: true, Members: map[string]string{"": "variable"}}
	typedValue   = yamlfile.Format{Binary: true}
)

type variables struct {
	Options
	values   map[string]any
	declared map[string]*declaration.Variable
	from     map[string]declaration.Place // where the last value of a variable was given; of Last it is not known
	failed   map[string]bool              // variables that could not be set
	unknown  map[string]bool              // variables that have some value, as their commands are not run, or that is expression.Unknown
	texts    map[string]any               // values with their numbers and truth values as they are written
	found    yamlfile.Report
}

func newVariables(opts Options) *variables {
	v := &variables{Options: opts, values: maps.Clone(opts.Builtin), from: map[string]declaration.Place{}, failed: map[string]bool{}, unknown: map[string]bool{}, texts: map[string]any{}}
	if v.values == nil {
		v.values = map[string]any{}
	}
	return v
}

// nameProblem says why a name cannot be set, "" when it can.
func (v *variables) nameProblem(name string) string {
	if _, builtin := v.Builtin[name]; builtin {
		return fmt.Sprintf("%q is set by deployster itself and cannot be changed", name)
	}
	return declaration.NameProblem(name)
}

// fail reports that a variable could not be set, unless that only follows from
// another one that could not be.
func (v *variables) fail(name string, err error, p manifest.Problem) {
	v.failed[name] = true
	var undefined *expression.UndefinedError
	if errors.As(err, &undefined) && undefined.Of == "" && v.failed[undefined.Missing] && undefined.Missing != name {
		return
	}
	v.found.Add(p)
}

// flag sets the variable of a --var, whose name can be set.
func (v *variables) flag(a Assignment) {
	text, ok := a.Value.(string)
	if d := v.declared[a.Name]; d != nil && ok && d.MayBeSecret(text) {
		v.hide(text)
	}
	if !ok || !utf8.ValidString(text) {
		v.fail(a.Name, nil, manifest.Problem{Position: a.At, Message: "the value is not valid UTF-8"})
		return
	}
	value, node, err := v.typed(text)
	if d := v.declared[a.Name]; d != nil {
		value, err = fitting(d, text, value, err)
	}
	if err != nil {
		v.fail(a.Name, err, manifest.Problem{Position: a.At, Message: err.Error()})
		return
	}
	v.set(a.Name, value, declaration.Place{Position: a.At, Named: true}, node)
}

// typed turns what was typed into a value; see Flag. node is how it is written, nil of a text as it stands.
func (v *variables) typed(text string) (value any, node *yamlfile.Node, err error) {
	v.Usage.Examine(v.Evaluator, text)
	template := expression.IsTemplate(text)
	if !template || !strings.HasPrefix(strings.TrimSpace(text), "{{") {
		switch value, node, err := fromYAML(text); {
		case err == nil:
			value, err = v.Evaluator.Resolve(value, v.values)
			return value, node, err
		case !template && !errors.Is(err, errPlain):
			return nil, nil, err
		}
	}
	value, err = v.Evaluator.Evaluate(text, v.values)
	return value, nil, err
}

// errPlain says that a text is nothing but a text.
var errPlain = errors.New("plain text")

// fromYAML reads what was typed as YAML, where it is meant to be that. It fails
// with errPlain where it is not.
func fromYAML(text string) (value any, node *yamlfile.Node, err error) {
	if len(text) > yamlfile.MaxSize {
		return nil, nil, yamlfile.TooLarge(int64(len(text)), yamlfile.MaxSize)
	}
	var found yamlfile.Report
	root, ok := yamlfile.Open("", []byte(text), typedValue, &found)
	trimmed := strings.TrimSpace(text)
	switch {
	case ok && slices.Contains([]string{"~", "null", "Null", "NULL"}, trimmed):
		return nil, nil, nil
	case root == nil:
		return nil, nil, errPlain
	}
	value, ok = root.Any()
	switch root.Kind {
	case yamlfile.Mapping, yamlfile.List:
		if !root.InBrackets() || strings.IndexByte("[{", trimmed[0]) < 0 { // behind an anchor or a tag
			return nil, nil, errPlain
		}
		return value, root, unplaced(&found)
	case yamlfile.Text:
		ok = root.Quoted() && strings.IndexByte(`'"`, trimmed[0]) >= 0
	case yamlfile.Boolean:
		ok = ok && root.Value == trimmed // there is no comment
	default:
		ok = ok && root.Value == trimmed && fmt.Sprint(value) == trimmed
	}
	if !ok {
		return nil, nil, errPlain
	}
	return value, root, nil
}

// unplaced is what was found wrong, in one line, without places: there is no
// file.
func unplaced(found *yamlfile.Report) error {
	var invalid *manifest.Error
	if !errors.As(found.Err(), &invalid) {
		return nil
	}
	said := make([]string, len(invalid.Problems))
	for i, p := range invalid.Problems {
		p.Position = manifest.Position{}
		said[i] = p.String()
	}
	return errors.New(strings.Join(said, "; "))
}

// set gives a variable a value. node is how it is written, nil where nobody knows.
func (v *variables) set(name string, value any, from declaration.Place, node *yamlfile.Node) {
	delete(v.failed, name)
	if v.values[name] == any(expression.Unknown{}) {
		if _, mapping := value.(map[string]any); mapping { // the rest of it is not known
			return
		}
		delete(v.unknown, name)
	}
	v.from[name] = from
	if v.Texts != nil {
		text, _ := declaration.Texts(value, node)
		v.texts[name] = merge(v.texts[name], text)
	}
	v.values[name] = merge(v.values[name], value)
	v.hideParts(name, value)
}

func (v *variables) hide(value any) {
	if v.Hide != nil {
		v.Hide(value)
	}
}

// hideParts hides what of a value of a declared variable may not be shown.
func (v *variables) hideParts(name string, value any) {
	d := v.declared[name]
	if d == nil {
		return
	}
	for _, path := range d.Secrets(value) {
		v.hide(schema.Within(value, path))
	}
}

// merge lays one value over another: mappings merge deeply, everything else is
// replaced. Neither is changed.
func merge(below, above any) any {
	b, ok := below.(map[string]any)
	if !ok {
		return above
	}
	a, ok := above.(map[string]any)
	if !ok {
		return above
	}
	out := maps.Clone(b)
	for key, value := range a {
		out[key] = merge(out[key], value)
	}
	return out
}
