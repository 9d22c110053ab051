package vars

import (
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// EnvironmentPrefix begins the names of variables of the environment that give values.
const EnvironmentPrefix = "DEPLOYSTER_VAR_"

// maxOutside is how long a value from outside of files of variables may be, in bytes.
const maxOutside = 1 << 20

// Outside is where declared variables get values that files of variables and the command
// line do not give. These are texts as they stand, without expressions.
type Outside struct {
	Lookup    func(name string) (value string, set bool) // in the environment; nil: it is not looked at
	Run       func(argv []string) (string, error)        // what a command prints; nil: none is run
	Workspace string
	Home      string // what ~ stands for; "" is not known

	// Unknown is called with a variable whose command is not run, which has some value that
	// its schema accepts.
	Unknown func(d *declaration.Variable)
}

// outside reads what comes from outside for declared variables, below what others give: the
// environment, else a file or a command where nobody gives a value.
func (v *variables) outside(others []Assignment) (all []Assignment) {
	if v.Outside == nil {
		return nil
	}
	given := map[string]bool{}
	for _, a := range others {
		given[a.Name] = true
	}
	for name := range v.Last {
		given[name] = true
	}
	for _, d := range v.Declared {
		if _, builtin := v.Builtin[d.Name]; builtin || v.declared[d.Name] == nil {
			continue
		}
		name := EnvironmentPrefix + d.Name
		var text string
		var set bool
		if v.Outside.Lookup != nil {
			text, set = v.Outside.Lookup(name)
		}
		a := Assignment{Name: d.Name, Value: text, From: name, At: manifest.Position{File: name}}
		var err error
		switch {
		case set:
		case given[d.Name]:
			continue
		case d.File != "":
			path := v.Outside.path(d.File)
			a.Value, err = ReadText(path)
			a.From, a.File, a.Whole, a.At = "", path, true, manifest.Position{File: path}
		case d.Command != nil && v.Outside.Run == nil:
			v.values[d.Name], _ = first(d, []any{"", "x", int64(0), int64(1), true, []any{}, map[string]any{}, nil})
			v.unknown[d.Name] = true
			v.Outside.Unknown(d)
			continue
		case d.Command != nil:
			a.Value, err = v.Outside.Run(d.Command)
			a.From, a.At = "the command at "+d.Origin.Position.String(), d.Origin.Position
		default:
			continue
		}
		if err != nil {
			v.fail(d.Name, err, manifest.Problem{Position: d.Origin.Position, Path: d.Origin.Path(), Message: err.Error()})
			continue
		}
		all = append(all, a)
	}
	return all
}

func (o *Outside) path(file string) string {
	rest, ofHome := strings.CutPrefix(file, "~/")
	switch {
	case ofHome && o.Home != "":
		return filepath.Join(o.Home, rest)
	case filepath.IsAbs(file):
		return filepath.Clean(file)
	}
	return filepath.Join(o.Workspace, file)
}

// ReadText reads a file that is a value as a whole, but for the end of its last line.
func ReadText(path string) (string, error) {
	data, err := namedfile.ReadRegular(path, maxOutside)
	if err != nil {
		return "", errors.New(path + ": " + err.Error())
	}
	return WithoutLineEnd(string(data)), nil
}

// WithoutLineEnd is a text without the end of its last line.
func WithoutLineEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// literal sets a variable to a text as it stands, or to what the schema wants of it.
func (v *variables) literal(a Assignment) {
	text, _ := a.Value.(string)
	d := v.declared[a.Name]
	if d != nil && d.MayBeSecret(text) {
		v.hide(text)
	}
	if !utf8.ValidString(text) {
		v.fail(a.Name, nil, manifest.Problem{Position: a.At, Path: a.Name, Message: "the value is not valid UTF-8"})
		return
	}
	var value any = text
	if d != nil {
		readings := []any{text}
		if typed, _, err := fromYAML(text); err == nil {
			readings = append(readings, typed)
		}
		if number, ok := number(text); ok {
			readings = append(readings, number)
		}
		value, _ = first(d, readings)
	}
	v.set(a.Name, value, declaration.Place{Position: a.At}, nil)
}
