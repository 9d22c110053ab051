package expression

import (
	"errors"
	"io/fs"
)

// renderTemplate runs a template and those that it extends.
func (sc *scope) renderTemplate(t *template) {
	sc.work(1)
	sc.within(t.file, func() {
		sc.run(t.body.nodes)
		if parent := sc.parent; parent != nil {
			root := &scope{state: sc.state, body: &parent.body, env: sc.env, out: sc.out, isRoot: true}
			root.renderTemplate(parent)
		}
	})
}

func (n *include) run(sc *scope) signal {
	name := defined(n.name.eval(sc))
	sc.at = n.at
	names, several := items(name)
	if !several {
		names = []any{name}
	}
	for _, candidate := range names {
		t, err := sc.load(sc.fileName(candidate))
		if errors.Is(err, fs.ErrNotExist) && (n.ignoreMissing || len(names) > 1) {
			continue
		}
		if err != nil {
			sc.fail("can not include %q: %s", candidate, err)
		}
		sc.rootOf(t, sc.out, !n.withoutContext).renderTemplate(t)
		return goesOn
	}
	if !n.ignoreMissing {
		sc.fail("none of the files to include is in the workspace")
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

func (s *state) fileName(v any) string {
	name, ok := defined(v).(string)
	if !ok {
		s.fail("a file name must be text, not %s", describe(v))
	}
	return name
}

// run renders the file for what it sets and defines.
func (n *imports) run(sc *scope) signal {
	name := sc.fileName(n.name.eval(sc))
	sc.at = n.at
	t, err := sc.load(name)
	if err != nil {
		sc.fail("can not import %q: %s", name, err)
	}
	root := sc.rootOf(t, &output{}, n.withContext)
	root.renderTemplate(t)
	sc.at = n.at
	vars := map[string]any{}
	for name, exported := range root.env.exported {
		if exported {
			vars[name] = root.env.vars[name]
		}
	}
	if n.as != "" {
		sc.setImported(n.as, &namespace{vars: vars, isModule: true})
		return goesOn
	}
	for i, from := range n.names {
		value, ok := vars[from]
		if !ok {
			value = sc.undefined(func() *UndefinedError {
				return &UndefinedError{Name: from, Missing: from, Of: name, Defined: sortedKeys(vars), Kind: "empty"}
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
	sc.at = n.at
	parent, err := sc.load(n.name)
	if err != nil {
		sc.fail("can not extend %q: %s", n.name, err)
	}
	sc.addBlocks(parent)
	sc.parent = parent
	return goesOn
}
