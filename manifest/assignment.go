package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Assignment gives a variable a value: it is a member of a file of variables, or a --var.
type Assignment struct {
	Name  string
	Value any    // as it is written, with its expressions; of a --var its text
	File  string // "" of a --var, and where From says it
	Whole bool   // the value is all of the file, a text as it stands
	From  string // the variable of the environment or the command that gave the value, a text as it stands; else ""
	Given bool   // by --var or --var-file: somebody means it to be read
	At    Position

	node *yamlfile.Node // nil of a --var, and of what was not read from a file
}

// ReadAssignments reads the files of variables and the flags, in the order in which they
// count, and evaluates nothing. It fails with an *Error that holds all problems of the
// form of files.
func ReadAssignments(opts VariableOptions) ([]Assignment, error) {
	v, all := newVariables(opts), []Assignment{}
	v.declare()
	v.read(func(a Assignment) {
		if problem := v.nameProblem(a.Name); problem != "" {
			v.found.Add(Problem{Position: a.At, Message: problem})
		}
		all = append(all, a)
	})
	all = append(v.outside(all), all...)
	return all, v.found.Err()
}

// AssignmentsIn reads one file of variables.
func AssignmentsIn(path string) (all []Assignment, err error) {
	v := newVariables(VariableOptions{})
	v.file(path, readFile, false, func(a Assignment) { all = append(all, a) })
	return all, v.found.Err()
}

func (v *variables) read(assign func(Assignment)) {
	for _, dir := range []string{v.ConfDir, v.Workspace} {
		if dir == "" {
			continue
		}
		for _, path := range v.automatic(dir) {
			v.file(path, readFile, false, assign)
		}
	}
	for _, flag := range v.Flags {
		if flag.File != "" {
			v.file(flag.File, readNamed, true, assign)
			continue
		}
		assign(Assignment{Name: flag.Name, Value: flag.Value, Given: true, At: Position{File: flagPlace(flag.Name)}})
	}
}

// flagPlace is what messages call the place of a --var.
func flagPlace(name string) string { return "--var " + name }

// automatic lists the files of a directory that are read without being asked
// for.
func (v *variables) automatic(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			v.found.Add(Problem{Position: Position{File: dir}, Message: fileError(err).Error()})
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

// file reads a file of variables.
func (v *variables) file(path string, read func(string) ([]byte, error), given bool, assign func(Assignment)) {
	data, err := read(path)
	if err != nil {
		v.found.Add(Problem{Position: Position{File: path}, Message: err.Error()})
		return
	}
	root, _ := yamlfile.Open(path, data, variableFile, &v.found)
	switch {
	case root == nil:
		return
	case root.Kind != yamlfile.Mapping:
		root.Fail("a file of variables must be a mapping of names to values, not %s", kindOf(root))
		return
	}
	for _, n := range root.Members {
		value, ok := n.Any()
		if !ok {
			v.failed[n.Name] = true
			continue
		}
		assign(Assignment{Name: n.Name, Value: value, File: path, Given: given, At: n.NameAt, node: n})
	}
}

// assign sets the variable of an assignment.
func (v *variables) assign(a Assignment) {
	if problem := v.nameProblem(a.Name); problem != "" {
		v.found.Add(Problem{Position: a.At, Message: problem})
		return
	}
	if a.Given {
		v.Usage.give(a.Name, Problem{Position: a.At})
	}
	switch {
	case a.From != "" || a.Whole:
		v.literal(a)
		return
	case a.File == "":
		v.flag(a)
		return
	}
	v.Usage.examine(v.Evaluator, a.Value)
	v.hideParts(a.Name, a.Value)
	value, err := v.Evaluator.Resolve(a.Value, v.values)
	switch {
	case err == nil:
		v.set(a.Name, value, place{a.At, a.node})
	case a.node != nil:
		v.fail(a.Name, err, failure(a.node, err))
	default:
		v.fail(a.Name, err, Problem{Position: a.At, Path: a.Name, Message: err.Error()})
	}
}
