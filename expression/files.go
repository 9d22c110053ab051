package expression

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// renderTemplate runs a template and those that it extends.
func (sc *scope) renderTemplate(t *template) {
	sc.Work(1)
	sc.Within(t.file, func() {
		sc.run(t.body.nodes)
		if parent := sc.parent; parent != nil {
			root := &scope{evaluation: sc.evaluation, body: &parent.body, env: sc.env, out: sc.out, isRoot: true}
			root.renderTemplate(parent)
		}
	})
}

var errElsewhere = errors.New(`it is none of the files that the form of this include names, nor in one of its directories, ` +
	`so whether there is such a file is not known: name the file, a list of files, or begin the name with the directory that it is in, without ".." behind that`)

func (n *include) run(sc *scope) signal {
	name := python.Defined(n.name.eval(sc))
	sc.At = n.at
	names, several := python.Items(name)
	if !several {
		names = []any{name}
	}
	for _, candidate := range names {
		name := sc.fileName(candidate)
		t, err := sc.load(name)
		if errors.Is(err, fs.ErrNotExist) && !sc.e.whole && !possibleNames(n.name).has(name) {
			err = errElsewhere
		}
		if errors.Is(err, fs.ErrNotExist) && (n.ignoreMissing || len(names) > 1) {
			continue
		}
		if err != nil {
			sc.Fail("cannot include %q: %s", candidate, err)
		}
		sc.rootOf(t, sc.out, !n.withoutContext).renderTemplate(t)
		return goesOn
	}
	if !n.ignoreMissing {
		sc.Fail("none of the files to include is in the workspace")
	}
	return goesOn
}

// rootOf makes the scope of another template, which sees what is set here only
// with the context.
func (sc *scope) rootOf(t *template, out *output, withContext bool) *scope {
	if withContext {
		return sc.newRoot(t, out, sc.snapshot(), sc.env.isolated)
	}
	return sc.newRoot(t, out, nil, true)
}

func (s *evaluation) fileName(v any) string {
	name, ok := python.Defined(v).(string)
	if !ok {
		s.Fail("a file name must be text, not %s", python.Describe(v))
	}
	return name
}

// run renders the file for what it sets and defines.
func (n *imports) run(sc *scope) signal {
	name := sc.fileName(n.name.eval(sc))
	sc.At = n.at
	t, err := sc.load(name)
	if err != nil {
		sc.Fail("cannot import %q: %s", name, err)
	}
	root := sc.rootOf(t, &output{}, n.withContext)
	root.renderTemplate(t)
	sc.At = n.at
	vars := map[string]any{}
	for name, exported := range root.env.exported {
		if exported {
			vars[name] = root.env.vars[name]
		}
	}
	if n.as != "" {
		sc.setImported(n.as, &python.Namespace{Vars: vars, IsModule: true})
		return goesOn
	}
	sc.Work(4 * len(n.names))
	for i, from := range n.names {
		value, ok := vars[from]
		if !ok {
			value = sc.Undefined(func() *python.UndefinedError {
				return &python.UndefinedError{Name: from, Missing: from, Of: name, Defined: python.SortedKeys(vars), Kind: "empty"}
			}, n.at)
		}
		sc.setImported(n.aliases[i], value)
	}
	return goesOn
}

// setImported sets a name that importers of this template do not see.
func (sc *scope) setImported(name string, v any) {
	sc.set(name, v)
	if sc.isRoot {
		sc.env.exported[name] = false
	}
}

// run notes the template that is extended, which is rendered after this one.
func (n *extends) run(sc *scope) signal {
	sc.At = n.at
	parent, err := sc.load(n.name)
	if err != nil {
		sc.Fail("cannot extend %q: %s", n.name, err)
	}
	sc.addBlocks(parent)
	sc.parent = parent
	return goesOn
}

// withContext parses "with context" and "without context".
func (p *parser) withContext(standard bool) bool {
	if p.look(1).is("context") {
		if word, ok := p.operator("with", "without"); ok {
			p.next()
			return word.text == "with"
		}
	}
	return standard
}

func (p *parser) include(at python.Position) node {
	if p.within.muted {
		p.fail(at, "an include cannot stand beside the blocks of a template that extends another")
	}
	n := &include{at: at, name: p.expression(true)}
	if p.current().is("ignore") {
		p.next()
		p.expect("missing")
		n.ignoreMissing = true
	}
	n.withoutContext = !p.withContext(true)
	p.refer(at, "include", n.name, n.ignoreMissing, n.withoutContext)
	p.close()
	return n
}

func (p *parser) imports(at python.Position, from bool) node {
	n := &imports{at: at, name: p.expression(true)}
	if from {
		p.expect("import")
		for {
			name := p.name("a name to import")
			if strings.HasPrefix(name.text, "_") {
				p.fail(name.at, "names that start with _ cannot be imported")
			}
			alias := name.text
			if p.bound[alias] = true; p.skip("as") {
				alias = p.targetName().name
			}
			n.names, n.aliases = append(n.names, name.text), append(n.aliases, alias)
			if !p.skip(",") {
				break
			}
		}
	} else {
		p.expect("as")
		n.as = p.targetName().name
		n.aliases = []string{n.as}
	}
	for _, alias := range n.aliases {
		p.within.store(alias)
	}
	n.withContext = p.withContext(false)
	p.refer(at, "import", n.name, false, !n.withContext)
	p.close()
	return n
}

// extends parses {% extends %}, which counts for the whole template.
func (p *parser) extends(at python.Position) node {
	t := p.current()
	switch {
	case t.kind != stringToken:
		p.unexpected("extends takes a file name")
	case !p.within.top || p.depth > 0:
		p.fail(at, "extends cannot stand within another statement")
	case p.within.muted:
		p.fail(at, "a template can extend only one other")
	}
	p.within.muted = true
	p.next()
	p.close()
	p.refer(at, "extend", &constant{t.text}, false, false)
	return &extends{at, t.text}
}
