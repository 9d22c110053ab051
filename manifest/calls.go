package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// ModuleFile is the manifest of a module, in the directory that is its source.
const ModuleFile = "module.yaml"

// maxModules is how deep modules may be within each other.
const maxModules = 10

var callKeys = []string{"source", "for_each", "when", "dependencies", "vars", "plugs"}

// call reads what stands under modules, independently of the others.
func (l *loader) call(n *yamlfile.Node) {
	p := &pending{
		Resource: &Resource{Name: n.Name, Position: n.NameAt, Dependencies: map[string]string{}},
		off:      map[string]string{}, early: map[*yamlfile.Node]bool{}, call: &call{at: n, plugs: map[string]string{}},
	}
	l.declare(n, p, "module")
	fields, _ := n.Fields("a module", callKeys...)
	if fields["source"] == nil {
		n.FailName("the module has no source; source is the directory of its files, such as ./modules/web")
	}
	for _, key := range callKeys {
		at := fields[key]
		if at == nil {
			continue
		}
		switch key {
		case "source":
			p.call.source, p.call.sourceAt = readSource(at), at
		case "for_each":
			p.readEach(at)
		case "when":
			p.when = at
		case "dependencies":
			l.dependencies(p, at)
		case "vars":
			p.readVars(at)
		case "plugs":
			p.call.readPlugs(at)
		}
	}
}

func readSource(n *yamlfile.Node) string {
	text, ok := readText(n, "the directory of the module's files, such as ./modules/web")
	if ok && expression.IsTemplate(text) {
		n.Fail("cannot be an expression: what a manifest is made of must be known before anything is evaluated")
		return ""
	}
	return text
}

func (p *pending) readVars(n *yamlfile.Node) {
	switch n.Kind {
	case yamlfile.Nothing:
		return
	case yamlfile.Mapping:
		p.call.vars = n.Members
	default:
		n.Fail("must be a mapping of the module's variables to values, not %s", KindOf(n))
		return
	}
	for text := range n.Texts() {
		if expression.IsTemplate(text.Value) {
			p.texts = append(p.texts, text)
		}
	}
}

func (c *call) readPlugs(n *yamlfile.Node) {
	switch n.Kind {
	case yamlfile.Nothing:
		return
	case yamlfile.Mapping:
	default:
		n.Fail("must be a mapping of plugs as the module calls them to plugs of this manifest, not %s", KindOf(n))
		return
	}
	for _, m := range n.Members {
		if name, ok := readText(m, "the name of a plug"); ok {
			c.plugs[m.Name], c.given = name, append(c.given, m)
		}
	}
}

// checkGiven reports plugs that modules are to be given and the manifest does not define. A module may
// hand on what it was not given itself: whatever asks for that may do without.
func (l *loader) checkGiven() {
	for _, p := range l.pending {
		if p.call == nil {
			continue
		}
		for _, n := range p.call.given {
			if name := p.call.plugs[n.Name]; l.manifest.plugs[name] == nil {
				known := slices.Sorted(maps.Keys(l.manifest.plugs))
				message := fmt.Sprintf("the manifest defines no plug %q (add plugs.%s.path)", name, name)
				l.found.Add(Problem{Position: n.Position, Path: n.Path(), Message: message, Hint: suggest.Closest(name, known)})
			}
		}
	}
}

// counted counts what becomes of a declaration, and fails where that is too much: modules that call
// each other can be many without being long.
func (l *loader) counted(p *pending) bool {
	*l.count++
	if *l.count > maxInstances {
		l.found.Add(Problem{Position: p.Position, Message: fmt.Sprintf("there would be more than %d resources and modules", maxInstances)})
	}
	return *l.count <= maxInstances
}

// located finds the directory of the files of a source that is called in a module.
func (l *loader) located(p *pending) (dir string, ok bool) {
	at, source := p.call.sourceAt, p.call.source
	if at == nil || source == "" {
		return "", false // it is reported
	}
	here := ""
	if l.module != nil {
		here = l.module.dir
	}
	dir = path.Join(here, source)
	if Remote(source) {
		here, dir = "", RemoteDir(source)
	}
	root, meant := remoteRoot(here), suggest.GitSource(source)
	switch {
	case meant != "":
		at.Fail("%q is no source; write %s", source, meant)
	case !Remote(source) && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../"):
		at.Fail("%q is no source; the source of a module is a directory of the workspace, which begins with ./ or ../, or elsewhere: oci://… or git::…", source)
	case !filepath.IsLocal(dir):
		at.Fail("%q leads out of the workspace; a revision could not carry its files", source)
	case root != "" && dir != root && !strings.HasPrefix(dir, root+"/"):
		at.Fail("%q leads out of the module, of which nothing else was fetched", source)
	case slices.Contains(l.chain, dir):
		at.Fail("the module calls itself: %s", strings.Join(append(l.chain[slices.Index(l.chain, dir):], dir), " → "))
	case len(l.chain) >= maxModules:
		at.Fail("modules are called within each other more than %d times", maxModules)
	default:
		return dir, true
	}
	return "", false
}

// text is the manifest of a module, which is read once.
func (l *loader) text(dir string) ([]byte, error) {
	if known, read := l.texts[dir]; read {
		return known, nil
	}
	text, err := l.files.Within(dir).File(ModuleFile)
	if remoteRoot(dir) == dir && errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the module is not locked: \"deployster lock\" with the manifest fetches it, and keeps what it is in deployster.lock")
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path.Join(dir, ModuleFile), err)
	}
	l.texts[dir] = []byte(text)
	return l.texts[dir], nil
}

// instantiate adds the resources of an instance of a module, which r stands for.
func (l *loader) instantiate(p *pending, r *Resource) (*Module, bool) {
	dir, ok := l.located(p)
	if !ok {
		return nil, false
	}
	text, err := l.text(dir)
	if err != nil {
		p.call.sourceAt.Fail("%s", err)
		return nil, false
	}
	m := &Module{Address: r.Name, parent: l.module, call: p.call, dir: dir, each: r.Each, plugs: p.call.plugs, depends: r.aliases()}
	sub := l.within(m)
	root, read := yamlfile.Open(path.Join(dir, ModuleFile), text, moduleFile, &sub.found)
	if root != nil {
		sub.document(root)
		if n := root.Child("plugs"); n != nil {
			n.FailName("a module has no plugs of its own, but those that it is given where it is called")
		}
	}
	m.declared = sub.manifest.Variables
	ok = l.give(m)
	m.given = m.called()
	sub.opts.Variables, sub.opts.Texts = m.variables, declaration.Untyped(m.declared, m.variables)
	if ok && read {
		sub.depend(false)
		sub.expand()
		sub.expressions(false)
		sub.outputs(false)
	}
	m.outputs, m.names = sub.manifest.Outputs, sub.manifest.declared
	m.tells = m.told()
	for _, inner := range sub.manifest.Resources {
		m.contains = append(m.contains, inner.Name)
		l.manifest.resources[inner.Name] = inner
	}
	l.manifest.Resources = append(l.manifest.Resources, sub.manifest.Resources...)
	l.manifest.Moved = append(l.manifest.Moved, sub.manifest.Moved...)
	l.manifest.absent = append(l.manifest.absent, sub.manifest.absent...)
	return m, m.hand(&l.found, &sub.found) && ok
}

// within is a loader for what is in a module.
func (l *loader) within(m *Module) *loader {
	sub := &loader{
		opts: l.opts, patterns: l.patterns, files: l.files, texts: l.texts, count: l.count, module: m, chain: append(slices.Clone(l.chain), m.dir),
		manifest: &Manifest{plugs: map[string]*Plug{}, resources: map[string]*Resource{}}, declared: map[string]*pending{},
	}
	sub.opts.Evaluator, sub.opts.Usage, sub.opts.Variables = m.within(l.files), nil, nil
	return sub
}

// hand reports what was found wrong with a module, and whether nothing was.
func (m *Module) hand(to, found *yamlfile.Report) bool {
	var invalid *Error
	if !errors.As(found.Err(), &invalid) {
		return true
	}
	for _, p := range invalid.Problems {
		p.Message += m.caller()
		to.Add(p)
	}
	return false
}

// give gives a module its variables: those of the call, and defaults.
func (l *loader) give(m *Module) (ok bool) {
	ok = true
	m.variables = map[string]any{}
	for name, value := range l.opts.Variables { // what Deployster sets is the same everywhere
		if strings.HasPrefix(name, "_") {
			m.variables[name] = value
		}
	}
	given := map[string]*yamlfile.Node{}
	var names []string
	for _, d := range m.declared {
		names = append(names, d.Name)
	}
	for _, n := range m.call.vars {
		given[n.Name] = n
		if !slices.Contains(names, n.Name) {
			ok = false
			l.found.Add(Problem{
				Position: n.NameAt, Path: n.Path(), Hint: suggest.Closest(n.Name, names),
				Message: fmt.Sprintf("the module declares no variable %q; %s says which there are", n.Name, path.Join(m.dir, ModuleFile)),
			})
		}
	}
	var defaults []*declaration.Variable
	for _, d := range m.declared {
		_, has := d.Default()
		switch n := given[d.Name]; {
		case !d.Valid(): // its declaration is wrong, which is reported
		case n != nil:
			ok = l.giveOne(m, d, n) && ok
		case has:
			defaults = append(defaults, d)
			if !d.Late {
				m.variables[d.Name] = d.Written
				d.Hide(d.Written, l.opts.Hide)
			}
		case !l.opts.Partly:
			ok = false
			m.call.at.FailName("the module needs the variable %q (%s), which has no default; give it under vars", d.Name, d.Position)
		}
	}
	for _, d := range defaults {
		if d.Late {
			ok = l.giveDefault(m, d) && ok
		}
	}
	return ok
}

// giveDefault gives a module the default of a variable that reads others.
func (l *loader) giveDefault(m *Module, d *declaration.Variable) bool {
	before := m.waiting()
	waits, err := m.within(l.files).Reads(d.Written, slices.Collect(maps.Keys(before))...)
	if waits {
		m.late = append(m.late, &late{Variable: d, node: d.Node, written: d.Written, in: m, reads: before})
		return true
	}
	var value any
	if err == nil {
		value, err = m.within(l.files).Resolve(d.Written, m.variables)
	}
	var problems []Problem
	if err != nil {
		problems = []Problem{Failure(d.Node, err)}
	} else {
		m.variables[d.Name] = value
		d.Hide(value, l.opts.Hide)
		problems = d.Broken(value, declaration.Place{Node: d.Node})
	}
	for _, p := range problems {
		p.Message += m.caller()
		l.found.Add(p)
	}
	return len(problems) == 0
}

// giveOne gives a module a variable. What reads a state waits for that.
func (l *loader) giveOne(m *Module, d *declaration.Variable, n *yamlfile.Node) bool {
	written, ok := n.Any()
	if !ok {
		return false
	}
	waits, err := l.opts.Evaluator.Reads(written, slices.Collect(maps.Keys(m.depends))...)
	if err != nil {
		l.found.Add(Failure(n, err))
		return false
	}
	if waits {
		m.late = append(m.late, &late{Variable: d, node: n, written: written, in: m.parent, each: m.each, reads: m.depends})
		return true
	}
	value, err := l.opts.Evaluator.Resolve(written, l.scope(m.each))
	var undefined *expression.UndefinedError
	switch {
	case l.opts.Partly && errors.As(err, &undefined) && undefined.Unknown:
		m.variables[d.Name] = expression.Unknown{}
		return true
	case err != nil && l.opts.Partly:
		return true
	case err != nil:
		l.found.Add(Failure(n, err))
		return false
	}
	value, doubts := d.Fit(value, n)
	for _, p := range doubts {
		l.opts.Usage.Doubt(p)
	}
	m.variables[d.Name] = value
	d.Hide(value, l.opts.Hide)
	problems := d.Broken(value, declaration.Place{Position: n.Position, Node: n})
	for _, p := range problems {
		p.Path = n.Path()
		l.found.Add(p)
	}
	return len(problems) == 0
}

// isModule reports whether a dependency, as it is written, is a module.
func (l *loader) isModule(written string) bool {
	of, _, _ := address.Written(written)
	p := l.declared[of]
	return p != nil && p.call != nil
}

// isLate reports whether a name is that of a variable which waits for a state.
func (l *loader) isLate(name string) bool {
	return l.module != nil && slices.ContainsFunc(l.module.late, func(v *late) bool { return v.Name == name })
}

// isVariable reports whether a name is that of a variable.
func (l *loader) isVariable(name string) bool {
	_, known := l.opts.Variables[name]
	return known || slices.ContainsFunc(l.manifest.Variables, func(d *declaration.Variable) bool { return d.Name == name })
}

// variableNames are those of all variables, sorted.
func (l *loader) variableNames() []string {
	names := slices.Collect(maps.Keys(l.opts.Variables))
	if l.module != nil {
		for _, v := range l.module.late {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

// address is the name of something in the module that is read.
func (l *loader) address(name string) string {
	if l.module == nil {
		return name
	}
	return l.module.Address + "." + name
}
