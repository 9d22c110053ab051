package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/expression"
)

// VariableOptions says where variables come from.
type VariableOptions struct {
	ConfDir   string // the user's configuration; "" is none
	Workspace string
	Flags     []VariableFlag // in the order of the command line
	Last      map[string]any // set after all others, as they are: what looks like an expression is a text
	Builtin   map[string]any // set by the program; nobody else can set them
	Evaluator *expression.Evaluator
	Usage     *Usage // is told which variables are given by Flags and Last, and which ones values read; may be nil
}

// VariableFlag is --var-file File, or --var Name=Value when File is "".
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
type VariableFlag struct {
	File  string
	Name  string
	Value string
}

// LoadVariables collects the variables: the files vars.auto.yaml and
// vars.*.auto.yaml (sorted) in ConfDir, then those in Workspace, then the
// flags, then Last. Mappings merge deeply, otherwise the later wins. A value can use
// expressions over what was set before it, also in its own file. It fails with
// an *Error that holds all problems.
func LoadVariables(opts VariableOptions) (map[string]any, error) {
	v := &variables{VariableOptions: opts, values: maps.Clone(opts.Builtin), failed: map[string]bool{}}
	if v.values == nil {
		v.values = map[string]any{}
	}
	for _, dir := range []string{opts.ConfDir, opts.Workspace} {
		if dir == "" {
			continue
		}
		for _, path := range v.automatic(dir) {
			v.file(path, readFile, false)
		}
	}
	for _, flag := range opts.Flags {
		if flag.File != "" {
			v.file(flag.File, readNamed, true)
		} else {
			v.flag(flag)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Last)) {
		if problem := v.nameProblem(name); problem != "" {
			v.found.add(Problem{Message: problem})
			continue
		}
		v.set(name, opts.Last[name])
		v.Usage.give(name, Problem{Path: name})
	}
	if err := v.found.err(v.files); err != nil {
		return nil, err
	}
	return v.values, nil
}

type variables struct {
	VariableOptions
	values map[string]any
	failed map[string]bool // variables that could not be set
	files  []string
	found  problems
}

// automatic lists the files of a directory that are read without being asked
// for.
func (v *variables) automatic(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			v.found.add(Problem{Position: Position{File: dir}, Message: fileError(err).Error()})
		}
		return nil
	}
	var first, rest []string
	for _, e := range entries { // sorted by name
		switch name := e.Name(); {
		case name == "vars.auto.yaml":
			first = append(first, filepath.Join(dir, name))
		case strings.HasPrefix(name, "vars.") && strings.HasSuffix(name, ".auto.yaml") && len(name) > len("vars..auto.yaml"):
			rest = append(rest, filepath.Join(dir, name))
		}
	}
	return append(first, rest...)
}

var validVariable = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// nameProblem says why a name can not be set, "" when it can.
func (v *variables) nameProblem(name string) string {
	if _, builtin := v.Builtin[name]; builtin {
		return fmt.Sprintf("%q is set by deployster itself and can not be changed", name)
	}
	if !validVariable.MatchString(name) {
		return fmt.Sprintf("%q can not be the name of a variable: it begins with a letter or _ and consists of letters, digits, _ and -", name)
	}
	return ""
}

func (v *variables) file(path string, read func(string) ([]byte, error), given bool) {
	v.files = append(v.files, path)
	data, err := read(path)
	if err != nil {
		v.found.add(Problem{Position: Position{File: path}, Message: err.Error()})
		return
	}
	f, root, ok := open(Source{path, data}, &v.found)
	if !ok || root == nil || isNothing(root) {
		return
	}
	if root.Kind != yaml.MappingNode {
		f.fail(root, nil, "a file of variables must be a mapping of names to values, not %s", nodeKind(root))
		return
	}
	for _, e := range f.entries(root, nil, "variable") {
		path := []string{e.name}
		if problem := v.nameProblem(e.name); problem != "" {
			f.fail(e.key, nil, "%s", problem)
			continue
		}
		before := len(v.found.list)
		c := converter{file: f}
		if e.copy {
			f.copying++
		}
		value := c.value(e.value, path, 0)
		if e.copy {
			f.copying--
		}
		if given {
			v.Usage.give(e.name, Problem{Position: f.at(e.key)})
		}
		if len(v.found.list) == before {
			v.Usage.examine(v.Evaluator, value)
			value, err = v.Evaluator.Resolve(value, v.values)
			if err != nil {
				v.fail(e.name, err, f.failure(e.value, path, err))
				continue
			}
			v.set(e.name, value)
		} else {
			v.failed[e.name] = true
		}
	}
}

// fail reports that a variable could not be set, unless that only follows from
// another one that could not be.
func (v *variables) fail(name string, err error, p Problem) {
	v.failed[name] = true
	var undefined *expression.UndefinedError
	if errors.As(err, &undefined) && undefined.Of == "" && v.failed[undefined.Missing] && undefined.Missing != name {
		return
	}
	v.found.add(p)
}

func (v *variables) flag(flag VariableFlag) {
	at := Position{File: "--var " + flag.Name}
	if !slices.Contains(v.files, at.File) {
		v.files = append(v.files, at.File)
	}
	if problem := v.nameProblem(flag.Name); problem != "" {
		v.found.add(Problem{Position: at, Message: problem})
		return
	}
	if !utf8.ValidString(flag.Value) {
		v.fail(flag.Name, nil, Problem{Position: at, Message: "the value is not valid UTF-8"})
		return
	}
	v.Usage.give(flag.Name, Problem{Position: at})
	value, err := v.typed(flag.Value)
	if err != nil {
		v.fail(flag.Name, err, Problem{Position: at, Message: err.Error()})
		return
	}
	v.set(flag.Name, value)
}

// typed turns what was typed into a value; see VariableFlag.
func (v *variables) typed(text string) (any, error) {
	v.Usage.examine(v.Evaluator, text)
	template := expression.IsTemplate(text)
	if !template || !strings.HasPrefix(strings.TrimSpace(text), "{{") {
		switch value, err := fromYAML(text); {
		case err == nil:
			return v.Evaluator.Resolve(value, v.values)
		case !template && !errors.Is(err, errPlain):
			return nil, err
		}
	}
	return v.Evaluator.Evaluate(text, v.values)
}

// errPlain says that a text is nothing but a text.
var errPlain = errors.New("plain text")

func fromYAML(text string) (any, error) {
	var found problems
	f := &file{name: "", data: []byte(text), found: &found}
	if len(text) > maxFile {
		return nil, tooLarge(int64(len(text)))
	}
	root, err := f.parse()
	if err != nil || root == nil || root.Anchor != "" || root.Style&yaml.TaggedStyle != 0 {
		return nil, errPlain
	}
	const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	switch root.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		if root.Style&yaml.FlowStyle == 0 {
			return nil, errPlain
		}
	case yaml.ScalarNode:
		if root.Style&quotes == 0 && root.Value != strings.TrimSpace(text) {
			return nil, errPlain // a comment
		}
		if root.Style&quotes == 0 && root.ShortTag() == "!!str" {
			return nil, errPlain
		}
	default:
		return nil, errPlain
	}
	c := converter{file: f}
	value := c.value(root, nil, 0)
	if root.Kind == yaml.ScalarNode {
		switch value.(type) {
		case int64, float64:
			if fmt.Sprint(value) != root.Value {
				return nil, errPlain
			}
		}
		if len(found.list) > 0 {
			return nil, errPlain
		}
		return value, nil
	}
	if len(found.list) > 0 {
		said := make([]string, len(found.list))
		for i, p := range found.list {
			p.Position = Position{}
			said[i] = p.String()
		}
		return nil, errors.New(strings.Join(said, "; "))
	}
	return value, nil
}

func (v *variables) set(name string, value any) {
	delete(v.failed, name)
	v.values[name] = merge(v.values[name], value)
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
