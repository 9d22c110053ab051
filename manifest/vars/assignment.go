package vars

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/usage"
)

// Assignment gives a variable a value: it is a member of a file of variables, or a --var.
type Assignment struct {
	Name  string
	Value any    // as it is written, with its expressions; of a --var its text
	File  string // "" of a --var, and where From says it
	Whole bool   // the value is all of the file, a text as it stands
	From  string // the variable of the environment or the command that gave the value, a text as it stands; else ""
	Given bool   // by --var or --var-file: somebody means it to be read
	At    manifest.Position

	node  *yamlfile.Node // nil of a --var, and of what was not read from a file
	texts *yamlfile.Node // how the value is written where that is known without its place in a file; else nil
}

// Read reads the files of variables and the flags, in the order in which they
// count, and evaluates nothing. It fails with an *manifest.Error that holds all problems of the
// form of files.
func Read(opts Options) ([]Assignment, error) {
	v, all := newVariables(opts), []Assignment{}
	v.declare()
	v.read(func(a Assignment) {
		if problem := v.nameProblem(a.Name); problem != "" {
			v.found.Add(manifest.Problem{Position: a.At, Message: problem})
		}
		all = append(all, a)
	})
	all = append(v.outside(all), all...)
	return all, v.found.Err()
}

// In reads one file of variables.
func In(path string) (all []Assignment, err error) {
	v := newVariables(Options{})
	v.file(path, namedfile.Read, false, func(a Assignment) { all = append(all, a) })
	return all, v.found.Err()
}

func (v *variables) read(assign func(Assignment)) {
	for _, dir := range []string{v.ConfDir, v.Workspace} {
		if dir == "" {
			continue
		}
		for _, path := range v.automatic(dir) {
			v.file(path, namedfile.Read, false, assign)
		}
	}
	for _, flag := range v.Flags {
		if flag.File != "" {
			v.file(flag.File, namedfile.ReadNamed, true, assign)
			continue
		}
		assign(Assignment{Name: flag.Name, Value: flag.Value, Given: true, At: manifest.Position{File: flagPlace(flag.Name)}})
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
			v.found.Add(manifest.Problem{Position: manifest.Position{File: dir}, Message: namedfile.Failure(err).Error()})
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
func (v *variables) file(path string, read func(path string, most int64) ([]byte, error), given bool, assign func(Assignment)) {
	data, err := read(path, yamlfile.MaxSize)
	if err != nil {
		v.found.Add(manifest.Problem{Position: manifest.Position{File: path}, Message: err.Error()})
		return
	}
	root, _ := yamlfile.Open(path, data, variableFile, &v.found)
	switch {
	case root == nil:
		return
	case root.Kind != yamlfile.Mapping:
		root.Fail("a file of variables must be a mapping of names to values, not %s", manifest.KindOf(root))
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
		v.found.Add(manifest.Problem{Position: a.At, Message: problem})
		return
	}
	if a.Given {
		v.Usage.Give(a.Name, manifest.Problem{Position: a.At})
	}
	switch {
	case a.From != "" || a.Whole:
		v.literal(a)
		return
	case a.File == "":
		v.flag(a)
		return
	}
	v.Usage.Examine(v.Evaluator, a.Value)
	if v.declared[a.Name] == nil && v.loses(a) {
		return
	}
	v.hideParts(a.Name, a.Value)
	value, err := v.Evaluator.Resolve(a.Value, v.values)
	switch {
	case err == nil:
		v.set(a.Name, v.fit(a, value), declaration.Place{Position: a.At, Node: a.node}, cmp.Or(a.node, a.texts))
	case a.node != nil:
		v.fail(a.Name, err, manifest.Failure(a.node, err))
	default:
		v.fail(a.Name, err, manifest.Problem{Position: a.At, Path: a.Name, Message: err.Error()})
	}
}

// Note notes that a variable is given where it is not set, as nothing reads it.
func (a Assignment) Note(u *usage.Variables) {
	if a.Given {
		u.Give(a.Name, manifest.Problem{Position: a.At})
	}
}

// fit is the value of an assignment as its variable is declared. What may be doubted is said where its file was read.
func (v *variables) fit(a Assignment, value any) any {
	d := v.declared[a.Name]
	if d == nil {
		return value
	}
	value, doubts := d.Fit(value, cmp.Or(a.node, a.texts))
	if a.node == nil {
		return value
	}
	for _, p := range doubts {
		v.Usage.Doubt(p)
	}
	return value
}

// loses reports whether the value of a variable that nobody declares has a part whose text is lost: nobody
// can tell then what it is meant to be.
func (v *variables) loses(a Assignment) (lost bool) {
	if a.node == nil {
		return false
	}
	for _, n := range a.node.Scalars() {
		if why := n.Lost(); why != "" { // it may be a secret that nobody declares as one
			why = "readers of YAML disagree about its value, or its text is lost: put it in quotes for the text, or write a number as it is printed"
			v.found.Add(manifest.Problem{Position: n.Position, Path: n.Path(), Message: why})
			v.failed[a.Name], lost = true, true
		}
	}
	return lost
}
