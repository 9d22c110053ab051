package expression

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// nodes parses up to one of the tags, of which it takes the name, or up to the
// end of the template where none is given.
func (p *parser) nodes(ends ...string) (list []node, end token) {
	for {
		switch t := p.next(); t.kind {
		case textToken:
			list = p.printed(list, &text{t.text, t.tail})
		case printBegin:
			x := p.several(true)
			if p.current().kind != printEnd {
				p.unexpected("'}}' expected here")
			}
			p.next()
			list = p.printed(list, &printed{t.at, x})
		case tagBegin:
			tag := p.name(`a tag such as "if"`)
			if slices.Contains(ends, tag.text) {
				return list, tag
			}
			if (tag.text == "else" || tag.text == "elif") && slices.Contains(ends, "endif") || tag.text == "else" && slices.Contains(ends, "endfor") {
				p.fail(tag.at, "%q after \"else\"", tag.text)
			}
			p.begin = t.at
			n := p.statement(tag)
			if _, isBlock := n.(*block); isBlock {
				list = p.printed(list, n)
			} else {
				list = append(list, n)
			}
		default:
			if len(ends) > 0 {
				p.fail(t.at, "Unexpected EOF, expected tag %s, got the end of the text", strings.Join(ends, " or "))
			}
			return list, t
		}
	}
}

// printed adds a node that prints to a list, unless nothing is printed here.
func (p *parser) printed(list []node, n node) []node {
	if p.within.muted {
		return list
	}
	return append(list, n)
}

func (p *parser) statement(tag token) node {
	at := p.begin
	switch tag.text {
	case "if":
		return p.branch()
	case "for":
		return p.loop(at)
	case "set":
		return p.assignment(at)
	case "with":
		return p.with()
	case "macro":
		return p.macro(at)
	case "block":
		return p.block(at)
	case "include":
		return p.include(at)
	case "import", "from":
		return p.imports(at, tag.text == "from")
	case "extends":
		return p.extends(at)
	case "break", "continue":
		if !p.within.inLoop {
			p.fail(tag.at, "%q outside of a loop", tag.text)
		}
		p.close()
		return &jump{map[string]signal{"break": breaks, "continue": continues}[tag.text]}
	}
	p.fail(tag.at, "unknown or unexpected tag %q", tag.text)
	return nil
}

// close takes the end of a tag.
func (p *parser) close() {
	if p.current().kind != tagEnd {
		p.unexpected("'%}' expected here")
	}
	p.next()
}

// enter counts a statement that is open until leave.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.begin, "nested deeper than %d levels", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// inner parses the rest of a tag and a body with names of its own, up to an
// end tag, of which it takes the name.
func (p *parser) inner(within context, ends ...string) (body, token) {
	p.close()
	p.enter()
	defer p.leave()
	outer := p.within
	p.within = within
	nodes, end := p.nodes(ends...)
	p.within = outer
	return body{nodes, within.uses}, end
}

// nested is the context of a body whose statement is part of what surrounds it.
func (p *parser) nested(names ...string) context {
	return context{inLoop: p.within.inLoop, inFor: p.within.inFor, muted: p.within.muted, symbols: newSymbols(names...)}
}

// aside parses an expression that belongs to another body.
func (p *parser) aside(of symbols, parse func()) {
	outer := p.within.symbols
	p.within.symbols = of
	parse()
	p.within.symbols = outer
}

func (p *parser) branch() node {
	p.enter()
	defer p.leave()
	b := &branch{}
	before, branches := p.within.symbols, [3]symbols{}
	ends := []string{"elif", "else", "endif"}
	for test := true; ; {
		at := min(len(b.tests), 1)
		if !test {
			at = 2
		}
		if at > 0 && branches[at].uses == nil {
			p.within.symbols = before.branch()
		}
		if test {
			b.tests = append(b.tests, p.several(false))
		}
		if at == 0 {
			p.within.symbols = before.branch()
		}
		p.close()
		nodes, end := p.nodes(ends...)
		b.bodies = append(b.bodies, nodes)
		branches[at] = p.within.symbols
		switch end.text {
		case "endif":
			p.within.symbols = before
			before.join(branches)
			p.close()
			return b
		case "else":
			test, ends = false, []string{"endif"}
		}
	}
}

func (p *parser) loop(at python.Position) node {
	n := &loopNode{at: at, target: p.target()}
	p.storesNot(n.target, "loop")
	p.expect("in")
	n.list = p.several(false)
	if p.skip("if") {
		p.aside(newSymbols(), func() { n.test = p.expression(true) })
	}
	n.recursive = p.skip("recursive")
	loops := p.loops
	var end token
	n.body, end = p.inner(context{inLoop: true, inFor: true, muted: p.within.muted, symbols: newSymbols(append(n.target.names(), "loop")...)}, "else", "endfor")
	n.mentions = n.recursive || p.loops > loops
	if end.text == "else" {
		within := p.nested()
		within.inFor = true
		var otherwise body
		otherwise, _ = p.inner(within, "endfor")
		n.otherwise = &otherwise
	}
	p.close()
	return n
}

// target parses what is assigned to: names, with commas and parentheses.
func (p *parser) target() target {
	first := p.current().at
	var list []target
	// As in Jinja2, only a parenthesis or the end of the tag may follow the last comma.
	for len(list) == 0 || !p.ends() && !p.current().is(")") {
		switch {
		case p.current().is("in"):
			p.unexpected("expected a name to assign to")
		case p.skip("("):
			list = append(list, p.target())
			p.expect(")")
		default:
			list = append(list, p.targetName())
		}
		if !p.skip(",") {
			if len(list) == 1 {
				return list[0]
			}
			break
		}
	}
	return target{at: first, several: list}
}

func (p *parser) targetName() target {
	t := p.name("a name to assign to")
	if slices.Contains(keywords, t.text) || slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, t.text) {
		p.fail(t.at, "cannot assign to %q", t.text)
	}
	p.bound[t.text] = true
	return target{at: t.at, name: t.text}
}

func (t target) names() []string {
	if t.several == nil {
		return []string{t.name}
	}
	var names []string
	for _, inner := range t.several {
		names = append(names, inner.names()...)
	}
	return names
}

// storesNot refuses a target that would hide a name.
func (p *parser) storesNot(t target, name string) {
	if t.attribute == "" && slices.Contains(t.names(), name) {
		p.fail(t.at, "cannot assign to %q in a loop", name)
	}
}

// assignment parses {% set %}: of a value, or of a body through filters.
func (p *parser) assignment(at python.Position) node {
	var t target
	if p.current().kind == nameToken && p.look(1).is(".") {
		of := p.next()
		p.next()
		t = target{at: of.at, name: of.text, attribute: p.name("a name").text}
		p.reading(of)
	} else {
		t = p.target()
		seen := map[string]bool{}
		for _, name := range t.names() {
			if seen[name] {
				p.fail(t.at, "%q is assigned to twice", name) // which value remains depends on the Python
			}
			seen[name] = true
		}
	}
	if p.within.inFor {
		p.storesNot(t, "loop")
	}
	if p.skip("=") {
		value := p.several(true)
		p.within.storeTarget(t)
		p.close()
		return &assign{at, t, value, nil}
	}
	p.within.storeTarget(t)
	var value expr = captured{}
	p.aside(newSymbols(), func() {
		for p.current().is("|") {
			value = p.filter(value)
		}
	})
	within := p.nested()
	within.muted = false
	body, _ := p.inner(within, "endset")
	p.close()
	return &assign{at, t, value, &body}
}

func (p *parser) with() node {
	w := &with{}
	for first := true; p.current().kind != tagEnd; first = false {
		if !first {
			p.expect(",")
		}
		w.names = append(w.names, p.targetName().name)
		p.expect("=")
		w.values = append(w.values, p.expression(true))
	}
	w.body, _ = p.inner(p.nested(w.names...), "endwith")
	p.close()
	return w
}

func (p *parser) macro(at python.Position) node {
	m := &macro{at: at, name: p.targetName().name}
	p.within.store(m.name)
	names := newSymbols()
	p.expect("(")
	for first := true; !p.skip(")"); first = false {
		if !first {
			p.expect(",")
		}
		param := p.targetName()
		if slices.Contains(m.params, param.name) || param.name == "caller" {
			p.fail(param.at, "there cannot be another parameter %q", param.name)
		}
		m.params = append(m.params, param.name)
		names.store(param.name)
		if p.skip("=") {
			p.aside(names, func() { m.defaults = append(m.defaults, p.expression(true)) })
		} else if len(m.defaults) > 0 {
			p.fail(param.at, "a parameter without a default cannot follow one with a default")
		}
	}
	m.body, _ = p.inner(context{inFor: p.within.inFor, symbols: names}, "endmacro")
	p.close()
	return m
}

func (p *parser) block(at python.Position) node {
	name := p.name("the name of the block")
	if p.blocks[name.text] != nil {
		p.fail(name.at, "Block named '%s' already defined", name.text)
	}
	if p.within.muted && !p.within.top {
		p.fail(at, "the block %s of a template that extends another cannot stand within a statement", name.text)
	}
	b := &block{name: name.text}
	p.blocks[name.text] = b
	b.body, _ = p.inner(context{inFor: p.within.inFor, symbols: newSymbols("super")}, "endblock")
	p.skip(name.text)
	p.close()
	return b
}
