package expression

import (
	"maps"

	"github.com/deployster-go/deployster/expression/python"
)

// scope is where names are looked up: the variables of a body, then those of
// the bodies around it, then the environment of the template.
type scope struct {
	*evaluation
	outer  *scope
	body   *body
	vars   map[string]any
	env    *environment
	out    *output
	isRoot bool      // of a template: what is set here, blocks and importers see
	macro  bool      // of a call
	parent *template // of a root: what it extends
	// captured is the text that an assignBody has rendered.
	captured string
}

// environment is what all parts of a template see: the names that are set at
// its top, what it was given, and the functions that every template has.
type environment struct {
	vars     map[string]any
	exported map[string]bool // the names that are set at the top and not imported
	given    map[string]any
	isolated bool // it does not see the caller's variables
	blocks   map[string][]*blockVersion
}

// blockVersion is a block of a template that may be extended.
type blockVersion struct {
	block *block
	file  string
}

// newRoot makes the scope of a template.
func (s *evaluation) newRoot(t *template, out *output, given map[string]any, isolated bool) *scope {
	sc := &scope{evaluation: s, body: &t.body, out: out, isRoot: true, env: &environment{given: given, isolated: isolated}}
	sc.addBlocks(t)
	return sc
}

func (sc *scope) addBlocks(t *template) {
	sc.Work(4 * len(t.blocks))
	for name, b := range t.blocks {
		if sc.env.blocks == nil {
			sc.env.blocks = map[string][]*blockVersion{}
		}
		sc.env.blocks[name] = append(sc.env.blocks[name], &blockVersion{b, t.file})
	}
}

// inner makes the scope of a body within sc.
func (sc *scope) inner(b *body) *scope {
	return &scope{evaluation: sc.evaluation, outer: sc, body: b, env: sc.env, out: sc.out, captured: sc.captured}
}

// set sets a name in the body of sc.
func (sc *scope) set(name string, v any) {
	sc.Work(1)
	if sc.vars == nil {
		sc.vars = map[string]any{}
	}
	sc.vars[name] = v
	if sc.isRoot {
		if sc.env.vars == nil {
			sc.env.vars, sc.env.exported = map[string]any{}, map[string]bool{}
		}
		sc.env.vars[name] = v
		sc.env.exported[name] = name[0] != '_'
	}
}

// lookup finds the value of a name. What it costs beyond a step is counted.
func (sc *scope) lookup(name string) (any, bool) {
	const passedInAStep = 4
	hidden, passed := false, 0
	for at := sc; at != nil; at = at.outer {
		if v, ok := at.vars[name]; ok {
			return v, true
		}
		if passed++; passed%passedInAStep == 0 {
			sc.Work(1)
		}
		if use, ok := at.body.uses[name]; ok {
			hidden = use == stored
		}
		if at.macro && (name == "varargs" || name == "kwargs" || name == "caller") {
			sc.undefinedName(name).Use() // Jinja2 defines them in every macro
		}
	}
	if hidden {
		return nil, false
	}
	return sc.env.lookup(sc.evaluation, name)
}

func (env *environment) lookup(s *evaluation, name string) (any, bool) {
	if v, ok := env.vars[name]; ok {
		return v, true
	}
	if v, ok := env.given[name]; ok {
		return v, true
	}
	if !env.isolated {
		switch v, ok := s.variables[name]; {
		case v == Unknown{}:
			python.Throw(&python.UndefinedError{Name: name, Missing: name, Unknown: true, Line: s.At.Line, Column: s.At.Column, File: s.File})
		case ok:
			return v, true
		}
	}
	if name == "self" {
		return &templateBlocks{s, env}, true
	}
	v, ok := s.e.globals[name]
	return v, ok
}

// snapshot is all that is set in a template, for one that it includes.
func (sc *scope) snapshot() map[string]any {
	sc.Work(len(sc.env.given) + len(sc.env.vars))
	all := maps.Clone(sc.env.given)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, sc.env.vars)
	var within func(at *scope)
	within = func(at *scope) {
		if at == nil {
			return
		}
		within(at.outer)
		sc.Work(len(at.vars))
		for name, v := range at.vars {
			if l, ok := v.(*loop); name == "super" || ok && name == "loop" && !l.mentioned {
				continue
			}
			all[name] = v
		}
	}
	within(sc)
	return all
}

func (sc *scope) undefinedName(name string) *python.Undefined {
	return sc.Undefined(func() *python.UndefinedError {
		return &python.UndefinedError{Name: name, Missing: name, Defined: python.SortedKeys(sc.variables)}
	}, sc.At)
}
