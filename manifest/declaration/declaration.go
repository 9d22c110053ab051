// Package declaration reads how manifests declare variables: what a value may be, which parts of it
// may not be shown, and where it comes from where nobody gives one.
package declaration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/schema"
)

// Key is the section of a manifest that declares variables.
const Key = "variables"

// maxVariables is how many variables manifests may declare together.
const maxVariables = 1000

var validVariable = pattern.Lazy(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// NameProblem says why a variable cannot have a name, "" when it can.
func NameProblem(name string) string {
	if !validVariable().MatchString(name) {
		return fmt.Sprintf("%q cannot be the name of a variable: it begins with a letter or _ and consists of letters, digits, _ and -", name)
	}
	return ""
}

// Variable is one that a manifest declares: what its values may be, and which it has where
// nobody gives one.
type Variable struct {
	Name        string
	Description string
	Secret      bool // no part of a value may be shown
	Position    yamlfile.Position

	// Where the value comes from that nobody gives; at most one of them, or a default.
	File    string   // that holds it
	Command []string // that prints it

	Origin  *yamlfile.Node // of File or Command; nil is none
	Node    *yamlfile.Node // of its default; nil is none
	Written any            // the default, as it is written
	Late    bool           // the default has expressions

	schema *schema.Schema
}

// Valid reports whether its declaration could be read; what is wrong with it was found.
func (d *Variable) Valid() bool { return d.schema != nil }

// Default is what the variable is where nobody gives it a value, with its expressions as
// they are written. has is false where somebody must give one.
func (d *Variable) Default() (written any, has bool) { return d.Written, d.Node != nil }

// Secrets returns the paths of the parts of a value that may not be shown, as
// schema.Schema.Secrets does.
func (d *Variable) Secrets(value any) [][]string { return d.schema.Secrets(value) }

// Validate is how a value breaks the schema of the variable.
func (d *Variable) Validate(value any) []schema.Violation {
	return d.schema.Validate(value)
}

// Hide tells of all parts of a value that may not be shown; hide may be nil.
func (d *Variable) Hide(value any, hide func(any)) {
	if hide == nil {
		return
	}
	for _, path := range d.Secrets(value) {
		hide(schema.Within(value, path))
	}
}

// MayBeSecret reports whether a value, as it is written, may have parts that may not be shown.
func (d *Variable) MayBeSecret(written any) bool {
	return len(d.schema.PossibleSecrets(written, func(string) bool { return true })) > 0
}

// Read reads the section of a manifest, and adds what it declares to the variables that others have.
// What is wrong with it is found.
func Read(n *yamlfile.Node, others []*Variable, found *yamlfile.Report) []*Variable {
	switch {
	case n == nil || n.Kind == yamlfile.Nothing:
		return others
	case n.Kind != yamlfile.Mapping:
		n.Fail("must be a mapping of names to JSON Schemas, not %s", n.Kind)
		return others
	}
	for _, m := range n.Members {
		if len(others) == maxVariables {
			m.FailName("there are more than %d variables", maxVariables)
			break
		}
		if i := slices.IndexFunc(others, func(d *Variable) bool { return d.Name == m.Name }); i >= 0 {
			m.FailName("the variable %q is already declared at %s", m.Name, others[i].Position)
			continue
		}
		others = append(others, read(m, found))
	}
	return others
}

// read reads a declaration, which is a JSON Schema. Nothing that is unknown stands in
// it: a mistyped writeOnly would show a secret.
func read(n *yamlfile.Node, found *yamlfile.Report) *Variable {
	d := &Variable{Name: n.Name, Position: n.NameAt}
	if problem := NameProblem(n.Name); problem != "" {
		n.FailName("%s", problem)
	}
	written := map[string]any{}
	if n.Kind != yamlfile.Nothing { // any value will do
		fields, ok := n.Fields("a variable", append(schema.Keywords(), "file", "command")...)
		if !ok {
			return d
		}
		d.readOrigin(fields)
		value, ok := n.Any()
		if !ok {
			return d
		}
		written, _ = value.(map[string]any)
		delete(written, "file")
		delete(written, "command")
	}
	text, err := json.Marshal(written)
	if err == nil {
		d.schema, err = schema.CompileConfig(text)
	}
	if err != nil {
		n.FailName("%s", err)
		return d
	}
	d.Description, _ = written["description"].(string)
	d.Secret = slices.ContainsFunc(d.schema.Secrets(nil), func(path []string) bool { return len(path) == 0 })
	if d.Node = n.Child("default"); d.Node == nil {
		return d
	}
	d.Written = written["default"]
	for text := range d.Node.Texts() {
		d.Late = d.Late || expression.IsTemplate(text.Value)
	}
	if !d.Late {
		for _, p := range d.Broken(d.Written, Place{Node: d.Node}) {
			found.Add(p)
		}
	}
	return d
}

// readOrigin reads where the value comes from that nobody gives.
func (d *Variable) readOrigin(fields map[string]*yamlfile.Node) {
	var found []string
	for _, key := range []string{"default", "file", "command"} {
		if fields[key] != nil {
			found = append(found, key)
		}
	}
	if len(found) > 1 {
		fields[found[1]].FailName("the variable has %s, too; each says what it is where nobody gives a value", found[0])
		return
	}
	plain := func(n *yamlfile.Node, what string) string {
		text, ok := n.Text(what, yamlfile.MaxSize)
		switch {
		case ok && expression.IsTemplate(text):
			n.Fail("cannot be an expression")
		case strings.ContainsRune(text, 0):
			n.Fail("must not contain a NUL character")
		}
		return text
	}
	if n := fields["file"]; n != nil {
		d.Origin, d.File = n, plain(n, "the path of a file")
	}
	if n := fields["command"]; n != nil {
		d.Origin, d.Command = n, []string{}
		if n.Kind != yamlfile.List || len(n.Members) == 0 {
			n.Fail("must be a list of a program and its arguments, such as [pass, show, db], not %s", n.Kind)
			return
		}
		for _, word := range n.Members {
			d.Command = append(d.Command, plain(word, "text"))
		}
	}
}
