package expression

import (
	"maps"
	"slices"
	"strings"
)

// signal is how a node ends.
type signal int

const (
	goesOn signal = iota
	breaks
	continues
)

// run runs the nodes up to the first break or continue.
func (sc *scope) run(nodes []node) signal {
	for _, n := range nodes {
		sc.work(1)
		if s := n.run(sc); s != goesOn {
			return s
		}
	}
	return goesOn
}

// render runs a body into a text of its own. ended is false when a break or
// continue left it.
func (sc *scope) render() (text string, s signal) {
	sc.out = &output{}
	s = sc.run(sc.body.nodes)
	return sc.out.String(), s
}

func (n *text) run(sc *scope) signal {
	sc.memory(len(n.text))
	sc.out.write(n.text)
	return goesOn
}

func (comment) run(*scope) signal { return goesOn }

func (n *printed) run(sc *scope) signal {
	v := n.x.eval(sc)
	sc.at = n.at
	text := sc.text(v)
	sc.memory(len(text))
	sc.out.write(text)
	return goesOn
}

func (n *branch) run(sc *scope) signal {
	for i, test := range n.tests {
		if sc.truth(test.eval(sc)) {
			return sc.run(n.bodies[i])
		}
	}
	if len(n.bodies) > len(n.tests) {
		return sc.run(n.bodies[len(n.tests)])
	}
	return goesOn
}

func (n *jump) run(*scope) signal { return n.signal }

func (n *assign) run(sc *scope) signal {
	v := defined(n.value.eval(sc))
	sc.at = n.at
	n.target.assign(sc, v)
	return goesOn
}

func (n *assignBody) run(sc *scope) signal {
	inner := sc.inner(&n.body)
	text, s := inner.render()
	if s != goesOn {
		return s
	}
	inner.captured = text
	v := n.value.eval(inner)
	sc.at = n.at
	n.target.assign(sc, v)
	return goesOn
}

func (captured) eval(sc *scope) any { return sc.captured }

func (t target) assign(sc *scope, v any) {
	switch {
	case t.several != nil:
		list := sc.iterate(defined(v))
		if len(list) != len(t.several) {
			sc.fail("can not assign %s to these names: their numbers differ", describe(v))
		}
		for i, inner := range t.several {
			inner.assign(sc, norm(list[i]))
		}
	case t.attribute != "":
		held, _ := sc.lookup(t.name)
		ns, ok := held.(*namespace)
		if !ok || ns.isModule {
			sc.fail("can not set %s.%s: %s is not a namespace()", t.name, t.attribute, t.name)
		}
		ns.vars[t.attribute] = v
	default:
		sc.set(t.name, v)
	}
}

func (n *with) run(sc *scope) signal {
	inner := sc.inner(&n.body)
	for i, value := range n.values {
		inner.set(n.names[i], value.eval(sc))
	}
	return inner.run(n.body.nodes)
}

func (n *macro) run(sc *scope) signal {
	file := sc.file
	sc.set(n.name, &function{name: n.name, call: func(_ *state, a *args) any {
		return n.call(sc, file, a)
	}})
	return goesOn
}

// call renders a macro that was defined in the scope.
func (n *macro) call(defined *scope, file string, a *args) (result string) {
	sc := defined.inner(&n.body)
	sc.macro = true
	if len(a.positional) > len(n.params) {
		sc.fail("macro '%s' received %d arguments but expected only %d", n.name, len(a.positional), len(n.params))
	}
	for i, v := range a.positional {
		sc.set(n.params[i], v)
	}
	for _, name := range a.order {
		if !slices.Contains(n.params, name) {
			sc.fail("macro '%s' takes no keyword argument '%s'", n.name, name)
		}
		if _, twice := sc.vars[name]; twice {
			sc.fail("macro '%s' received '%s' argument twice", n.name, name)
		}
		sc.set(name, a.named[name])
	}
	at := sc.at
	sc.within(file, func() {
		given := maps.Clone(sc.vars)
		for _, param := range n.params {
			if _, ok := given[param]; !ok {
				sc.set(param, sc.undefined(func() *UndefinedError {
					return &UndefinedError{Name: param, Missing: param, Of: "the call of the macro " + n.name, Kind: "without that argument"}
				}, at))
			}
		}
		first := len(n.params) - len(n.defaults)
		for i, param := range n.params[first:] {
			if _, ok := given[param]; !ok {
				sc.set(param, n.defaults[i].eval(sc))
			}
		}
		result, _ = sc.render()
	})
	return result
}

// templateBlocks is what the name self stands for.
type templateBlocks struct{ env *environment }

func (n *block) run(sc *scope) signal {
	sc.renderBlock(sc.env.blocks[n.name], sc.out)
	return goesOn
}

// renderBlock runs the first version of a block; super() is the next one.
func (sc *scope) renderBlock(versions []*blockVersion, out *output) {
	v := versions[0]
	inner := &scope{state: sc.state, body: &v.block.body, env: sc.env, out: out}
	inner.set("super", sc.blockFunction("super", versions[1:]))
	sc.within(v.file, func() { inner.run(v.block.body.nodes) })
}

// blockFunction makes the function that renders a block.
func (sc *scope) blockFunction(name string, versions []*blockVersion) any {
	if len(versions) == 0 {
		return sc.undefined(func() *UndefinedError {
			return &UndefinedError{Name: name, Missing: name, Of: "the block", Kind: "that of no other template"}
		}, sc.at)
	}
	return &function{name: name, call: func(_ *state, a *args) any {
		a.bind()
		out := &output{}
		sc.renderBlock(versions, out)
		return out.String()
	}}
}

// output is the rendered text, up to its bound.
type output struct{ strings.Builder }

func (o *output) write(text string) {
	if o.Len()+len(text) > maxOutput {
		throw(limitError("the text becomes longer than %d MiB", maxOutput>>20))
	}
	o.WriteString(text)
}
