package expression

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// keywords are words that stand for no variable.
var keywords = []string{"and", "else", "if", "in", "is", "not", "or"}

func (p *parser) primary() expr {
	t := p.current()
	switch t.kind {
	case nameToken:
		if slices.Contains(keywords, t.text) {
			break
		}
		p.next()
		switch t.text {
		case "true", "True":
			return &constant{true}
		case "false", "False":
			return &constant{false}
		case "none", "None":
			return &constant{nil}
		case "loop":
			p.loops++
		}
		p.reading(t)
		return &name{t.at, t.text}
	case stringToken:
		var b strings.Builder
		for p.current().kind == stringToken {
			b.WriteString(p.next().text)
		}
		return &constant{b.String()}
	case integerToken:
		return p.integer()
	case floatToken:
		p.next()
		f, err := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
		if err != nil || math.IsInf(f, 0) {
			p.fail(t.at, "the number %s is too large", t.text)
		}
		return &constant{f}
	case operatorToken:
		switch t.text {
		case "(":
			return p.parentheses()
		case "[":
			p.next()
			return &sequence{items: p.elements("]")}
		case "{":
			return p.mapping()
		}
	default:
	}
	p.unexpected("expected either a number, string, keyword or identifier")
	return nil
}

// reading notes that a name is read.
func (p *parser) reading(t token) {
	p.within.load(t.text)
	p.reads = append(p.reads, read{Ref: Ref{Name: t.text, Line: t.at.Line, Column: t.at.Column}})
}

// lastRead is the name of an operand that was parsed last, where that is nothing but a name and
// constant keys below it, with these.
func (p *parser) lastRead(x expr) (r *read, keys []string) {
	keys, ok := keysOf(x)
	if !ok {
		return nil, nil
	}
	return &p.reads[len(p.reads)-1], keys
}

func keysOf(x expr) (keys []string, ok bool) {
	var of expr
	var key any
	switch x := x.(type) {
	case *name:
		return nil, true
	case *attribute:
		of, key = x.of, x.name
	case *item:
		c, constant := x.key.(*constant)
		if !constant {
			return nil, false
		}
		of, key = x.of, c.value
	}
	last, isText := key.(string)
	if !isText {
		return nil, false
	}
	keys, ok = keysOf(of)
	return append(keys, last), ok
}

// optional notes that the operand, if it is a name, may be undefined. A name was
// the last one to be read then.
func (p *parser) optional(x expr, tested bool) {
	r, keys := p.lastRead(x)
	if r == nil {
		return
	}
	if r.copes = true; len(keys) == 0 {
		r.Optional, r.tested = true, tested
	}
}

func (p *parser) integer() expr {
	t := p.next()
	i, err := strconv.ParseInt(strings.ReplaceAll(t.text, "_", ""), 0, 64)
	if err != nil {
		p.fail(t.at, "the number %s is too large for a whole number", t.text)
	}
	return &constant{i}
}

func (p *parser) parentheses() expr {
	p.next()
	if p.skip(")") {
		return &sequence{tuple: true}
	}
	x := p.several(true)
	p.expect(")")
	return x
}

// separated reports whether another element follows, after the comma that has
// to stand between two; the end is taken.
func (p *parser) separated(first bool, end string) bool {
	if p.skip(end) {
		return false
	}
	if !first {
		if !p.skip(",") {
			p.unexpected(`expected "," or "` + end + `"`)
		}
		return !p.skip(end)
	}
	return true
}

func (p *parser) elements(end string) []expr {
	var list []expr
	for p.separated(len(list) == 0, end) {
		list = append(list, p.expression(true))
	}
	return list
}

func (p *parser) mapping() expr {
	m := &mapping{at: p.next().at}
	for p.separated(len(m.keys) == 0, "}") {
		at := p.current().at
		key := p.expression(true)
		literal, isSequence := key.(*sequence)
		if _, isMapping := key.(*mapping); isMapping || isSequence && !literal.tuple {
			p.fail(at, "a list or a mapping cannot be a key")
		}
		p.expect(":")
		m.keys, m.values = append(m.keys, key), append(m.values, p.expression(true))
	}
	return m
}

func (p *parser) postfix(x expr) expr {
	for {
		at := p.current().at
		switch {
		case p.skip("."):
			switch p.current().kind {
			case nameToken:
				x = &attribute{at, x, p.next().text}
			case integerToken:
				x = &item{at, x, p.integer()}
			default:
				p.unexpected("expected a name or a number")
			}
		case p.skip("["):
			x = p.subscript(at, x)
		case p.current().is("("):
			x = p.call(x)
		default:
			p.keyed(x)
			return x
		}
	}
}

// keyed notes in which keys a name is read. It looks at all of them, so it is called once for
// all that are constant.
func (p *parser) keyed(x expr) {
	if r, keys := p.lastRead(x); r != nil {
		r.keys = keys
	}
}

func (p *parser) subscript(at python.Position, of expr) expr {
	if p.current().kind != stringToken {
		p.keyed(of)
	}
	s := &slice{at: at, of: of}
	colons := 0
	for i := range s.bounds {
		if !p.current().is(":") && !p.current().is("]") || i == 0 && p.current().is("]") {
			s.bounds[i] = p.expression(true)
		}
		if i == 2 || !p.skip(":") {
			break
		}
		colons++
	}
	p.expect("]")
	if colons == 0 {
		return &item{at, of, s.bounds[0]}
	}
	return s
}

func (p *parser) call(function expr) expr {
	at := p.current().at
	if r, keys := p.lastRead(function); r != nil && len(keys) > 0 {
		r.keys = keys[:len(keys)-1] // a method
	}
	return &call{at, function, p.arguments()}
}

func (p *parser) arguments() arguments {
	var a arguments
	p.next()
	for first := true; p.separated(first, ")"); first = false {
		t := p.current()
		switch {
		case t.is("*") || t.is("**"):
			p.fail(t.at, "a call cannot unpack %s; write the arguments one by one", t.text)
		case t.kind == nameToken && p.look(1).is("="):
			p.i += 2
			if slices.Contains(a.names, t.text) {
				p.fail(t.at, "the argument %q is there twice", t.text)
			}
			a.names, a.named = append(a.names, t.text), append(a.named, p.expression(true))
		case len(a.names) > 0:
			p.fail(t.at, "an argument without a name cannot follow one with a name")
		default:
			a.positional = append(a.positional, p.expression(true))
		}
	}
	return a
}
