package manifest

import (
	"path"
	"slices"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// Outline is the resources of a manifest as they are written, also in modules, whatever the
// variables are: neither what they depend on is known, nor their instances, nor the plugs.
// What is wrong with the form of a file is an *Error. e reads the manifests of modules; where
// it cannot, they have no resources.
func Outline(source Source, e *expression.Evaluator) (*Manifest, error) {
	m := &Manifest{Files: []string{source.Name}, plugs: map[string]*Plug{}, resources: map[string]*Resource{}}
	l := &loader{manifest: m, declared: map[string]*pending{}, files: e, texts: map[string][]byte{}, count: new(int)}
	l.outline(source)
	for _, r := range m.Resources {
		m.resources[r.Name] = r
	}
	return m, l.found.Err()
}

// outline reads the resources of a manifest, or of a module.
func (l *loader) outline(source Source) {
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &l.found)
	if root == nil || root.Kind != yamlfile.Mapping {
		return
	}
	if n := root.Child("modules"); n != nil {
		section(n, "module", l.call)
	}
	if n := root.Child("resources"); n != nil {
		section(n, "resource", l.resource)
	}
	l.manifest.Resources = nil
	for _, p := range l.pending {
		r := p.Resource
		r.Name, r.module = l.address(r.Name), l.module
		if p.call == nil {
			l.manifest.Resources = append(l.manifest.Resources, r)
			continue
		}
		dir, ok := l.located(p)
		if !ok {
			continue
		}
		text, err := l.text(dir)
		if err != nil {
			continue
		}
		if !l.counted(p) {
			return
		}
		sub := l.within(&Module{Address: r.Name, parent: l.module, call: p.call, dir: dir})
		source := Source{Name: path.Join(dir, ModuleFile), Data: text}
		sub.secret(source)
		sub.outline(source)
		l.manifest.Resources = append(l.manifest.Resources, sub.manifest.Resources...)
		l.manifest.Secret = append(l.manifest.Secret, sub.manifest.Secret...)
		sub.module.hand(&l.found, &sub.found)
	}
}

// secret notes what the secret variables of a module are given.
func (l *loader) secret(source Source) {
	m := l.module
	var err error
	if m.declared, err = Declarations([]Source{source}); err != nil {
		return // whoever loads it says why
	}
	for _, n := range m.call.vars {
		written, _ := n.Any()
		i := slices.IndexFunc(m.declared, func(d *declaration.Variable) bool { return d.Name == n.Name })
		if i < 0 || !m.declared[i].Secret && !m.declared[i].MayBeSecret(written) {
			continue
		}
		for in := m.parent; in != nil; in = in.parent {
			written = in.outside(written, l.files)
		}
		l.manifest.Secret = append(l.manifest.Secret, Given{n.Position, n.Path(), written})
	}
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
