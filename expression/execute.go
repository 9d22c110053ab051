package expression

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
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
		sc.Work(1)
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
	sc.Memory(len(n.text))
	sc.out.write(n.text)
	return goesOn
}

func (n *printed) run(sc *scope) signal {
	v := n.x.eval(sc)
	sc.At = n.at
	text := sc.Text(v)
	sc.Memory(len(text))
	sc.out.write(text)
	return goesOn
}

func (n *branch) run(sc *scope) signal {
	for i, test := range n.tests {
		if sc.Truth(test.eval(sc)) {
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
	in := sc
	if n.body != nil {
		in = sc.inner(n.body)
		text, s := in.render()
		if s != goesOn {
			return s
		}
		in.captured = text
	}
	v := n.value.eval(in)
	sc.At = n.at
	if n.body == nil {
		python.Defined(v)
	}
	n.target.assign(sc, v)
	return goesOn
}

func (captured) eval(sc *scope) any { return sc.captured }

func (t target) assign(sc *scope, v any) {
	switch {
	case t.several != nil:
		list := sc.Iterate(python.Defined(v))
		if len(list) != len(t.several) {
			sc.Fail("cannot assign %s to these names: their numbers differ", python.Describe(v))
		}
		for i, inner := range t.several {
			inner.assign(sc, python.Norm(list[i]))
		}
	case t.attribute != "":
		held, _ := sc.lookup(t.name)
		ns, ok := held.(*python.Namespace)
		if !ok || ns.IsModule {
			sc.Fail("cannot set %s.%s: %s is not a namespace()", t.name, t.attribute, t.name)
		}
		ns.Vars[t.attribute] = v
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
	file := sc.File
	sc.set(n.name, &python.Function{Name: n.name, Call: func(_ *python.State, a *python.Args) any {
		return n.call(sc, file, a)
	}})
	return goesOn
}

// call renders a macro that was defined in the scope.
func (n *macro) call(defined *scope, file string, a *python.Args) (result string) {
	sc := defined.inner(&n.body)
	sc.Work(4 * len(n.params))
	sc.macro = true
	if len(a.Positional) > len(n.params) {
		sc.Fail("macro '%s' received %d arguments but expected only %d", n.name, len(a.Positional), len(n.params))
	}
	for i, v := range a.Positional {
		sc.set(n.params[i], v)
	}
	for _, name := range a.Order {
		sc.Work(len(n.params) / 8)
		if !slices.Contains(n.params, name) {
			sc.Fail("macro '%s' takes no keyword argument '%s'", n.name, name)
		}
		if _, twice := sc.vars[name]; twice {
			sc.Fail("macro '%s' received '%s' argument twice", n.name, name)
		}
		sc.set(name, a.Named[name])
	}
	at := sc.At
	sc.Within(file, func() {
		given := maps.Clone(sc.vars)
		for _, param := range n.params {
			if _, ok := given[param]; !ok {
				sc.set(param, sc.Undefined(func() *python.UndefinedError {
					return &python.UndefinedError{Name: param, Missing: param, Of: "the call of the macro " + n.name, Kind: "without that argument"}
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
type templateBlocks struct {
	*evaluation
	env *environment
}

func (b *templateBlocks) Describe() string { return "the template" }

func (b *templateBlocks) Attribute(_ *python.State, name string) any {
	versions := b.env.blocks[name]
	if versions == nil {
		return nil
	}
	sc := &scope{evaluation: b.evaluation, env: b.env}
	return sc.blockFunction(name, versions)
}

func (n *block) run(sc *scope) signal {
	sc.renderBlock(sc.env.blocks[n.name], sc.out)
	return goesOn
}

// renderBlock runs the first version of a block; super() is the next one.
func (sc *scope) renderBlock(versions []*blockVersion, out *output) {
	v := versions[0]
	inner := &scope{evaluation: sc.evaluation, body: &v.block.body, env: sc.env, out: out}
	inner.set("super", sc.blockFunction("super", versions[1:]))
	sc.Within(v.file, func() { inner.run(v.block.body.nodes) })
}

// blockFunction makes the function that renders a block.
func (sc *scope) blockFunction(name string, versions []*blockVersion) any {
	if len(versions) == 0 {
		return sc.Undefined(func() *python.UndefinedError {
			return &python.UndefinedError{Name: name, Missing: name, Of: "the block", Kind: "that of no other template"}
		}, sc.At)
	}
	return &python.Function{Name: name, Call: func(_ *python.State, a *python.Args) any {
		a.Bind()
		out := &output{}
		sc.renderBlock(versions, out)
		return out.String()
	}}
}

// output is the rendered text, up to its bound.
type output struct{ strings.Builder }

func (o *output) write(text string) {
	if o.Len()+len(text) > maxOutput {
		python.Throw(python.Exceeded("the text becomes longer than %d MiB", maxOutput>>20))
	}
	o.WriteString(text)
}
