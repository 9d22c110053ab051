package manifest

import (
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Outline is the resources of a manifest as they are written, whatever the variables are:
// neither what they depend on is known, nor their instances, nor the plugs. What is wrong with the form of the
// file is an *Error.
func Outline(source Source) (*Manifest, error) {
	l := &loader{manifest: &Manifest{plugs: map[string]*Plug{}, resources: map[string]*Resource{}}, declared: map[string]*pending{}}
	l.manifest.Files = []string{source.Name}
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &l.found)
	if root != nil && root.Kind == yamlfile.Mapping {
		if n := root.Child("resources"); n != nil {
			section(n, "resource", l.resource)
		}
	}
	for _, r := range l.manifest.Resources {
		l.manifest.resources[r.Name] = r
	}
	return l.manifest, l.found.Err()
}

// Written are the values of a manifest in which expressions are evaluated, as they are
// written.
func Written(source Source) []any {
	var found yamlfile.Report
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &found)
	var all []any
	for text := range expressionsOf(root) {
		all = append(all, text.Value)
	}
	return all
}

// Path is what a manifest reads below a name, and where.
type Path struct {
	Position
	expression.Path
}

// String is how an expression may write it, without its place.
func (p Path) String() string { return p.Path.String() }

// Paths are what the expressions of a manifest read below some names and cannot do without.
// What is wrong with an expression is for others to report.
func Paths(source Source, e *expression.Evaluator, names ...string) (all []Path) {
	var found yamlfile.Report
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &found)
	for text := range expressionsOf(root) {
		paths, err := e.Paths(text.Value, names...)
		if err != nil {
			continue
		}
		for _, p := range paths {
			all = append(all, Path{within(text, p.Line, p.Column), p})
		}
	}
	return all
}
