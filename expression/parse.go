package expression

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// parser parses a template by Jinja2's grammar, whose rules its methods are
// named for.
type parser struct {
	e      *Evaluator
	file   string
	tokens []token
	i      int
	begin  position // of the tag that is parsed
	depth  int      // statements that are open
	within context
	blocks map[string]*block
	loops  int // how often the name loop was read so far
}

// context is what surrounds the statement that is parsed.
type context struct {
	top    bool // no statement but if
	inLoop bool // break and continue have a loop
	inFor  bool // a loop is around it, of which a macro may be a part
	muted  bool // after extends: nothing but its blocks is printed
	symbols
}

// parse parses a template. It throws a SyntaxError.
func (e *Evaluator) parse(file, src string) *template {
	p := &parser{e: e, file: file, tokens: lex(file, src), blocks: map[string]*block{}, within: context{top: true, symbols: newSymbols()}}
	nodes, _ := p.nodes()
	return &template{file: file, body: body{nodes, p.within.uses}, blocks: p.blocks}
}

func (p *parser) current() token { return p.look(0) }

func (p *parser) look(n int) token {
	return p.tokens[min(p.i+n, len(p.tokens)-1)]
}

func (p *parser) next() token {
	t := p.current()
	p.i++
	return t
}

// skip takes the operator or word if it is next.
func (p *parser) skip(text string) bool {
	if p.current().is(text) {
		p.i++
		return true
	}
	return false
}

// operator takes the next token if it is one of the operators or words.
func (p *parser) operator(texts ...string) (token, bool) {
	t := p.current()
	if (t.kind == operatorToken || t.kind == nameToken) && slices.Contains(texts, t.text) {
		p.i++
		return t, true
	}
	return t, false
}

func (p *parser) expect(text string) {
	if !p.skip(text) {
		p.unexpected("expected " + strconv.Quote(text))
	}
}

func (p *parser) name(what string) token {
	if p.current().kind != nameToken {
		p.unexpected("expected " + what)
	}
	return p.next()
}

func (p *parser) fail(at position, format string, args ...any) {
	throw(syntaxError(p.file, at, format, args...))
}

// unexpected throws a SyntaxError at the next token.
func (p *parser) unexpected(message string) {
	t := p.current()
	if t.kind == stringToken {
		p.fail(t.at, "%s, got a text", message)
	}
	p.fail(t.at, "%s, got %q", message, t.text)
}

// ends reports whether the tag ends here.
func (p *parser) ends() bool {
	return p.current().kind == printEnd || p.current().kind == tagEnd
}

// several parses what may be a tuple without parentheses.
func (p *parser) several(conditionals bool) expr {
	var parts []expr
	for {
		if len(parts) > 0 && (p.ends() || p.current().is(")") || !conditionals && p.current().is("recursive")) {
			return &sequence{parts, true}
		}
		parts = append(parts, p.expression(conditionals))
		if !p.skip(",") {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &sequence{parts, true}
}

func (p *parser) expression(conditionals bool) expr {
	x := p.or()
	for conditionals && p.current().is("if") {
		c := &conditional{at: p.next().at, then: x, test: p.or()}
		if p.skip("else") {
			c.otherwise = p.expression(true)
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skip("or") {
		x = &logic{or: true, left: x, right: p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skip("and") {
		x = &logic{left: x, right: p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if op, ok := p.operator("not"); ok {
		return &not{op.at, p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	left := p.sum()
	var steps []comparisonStep
	for {
		op, ok := p.operator("==", "!=", "<", "<=", ">", ">=", "in")
		if !ok && p.current().is("not") && p.look(1).is("in") {
			op = p.look(1)
			op.text, ok = "not in", true
			p.i += 2
		}
		if !ok {
			break
		}
		steps = append(steps, comparisonStep{op.at, op.text, p.sum()})
	}
	if steps == nil {
		return left
	}
	return &comparison{left, steps}
}

// binary parses operators of one precedence, which group to the left.
func (p *parser) binary(within func() expr, operators ...string) expr {
	x := within()
	for {
		op, ok := p.operator(operators...)
		if !ok {
			return x
		}
		x = &binary{op.at, op.text, x, within()}
	}
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	var x expr
	if op, ok := p.operator("-", "+"); ok {
		x = &unary{op.at, op.text, p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x)
	}
	return x
}

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
		p.within.load(t.text)
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
	}
	p.unexpected("expected either a number, string, keyword or identifier")
	return nil
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
			p.fail(at, "a list or a mapping can not be a key")
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
			return x
		}
	}
}

func (p *parser) subscript(at position, of expr) expr {
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
	return &call{at, function, p.arguments()}
}

func (p *parser) arguments() arguments {
	var a arguments
	p.next()
	for first := true; p.separated(first, ")"); first = false {
		t := p.current()
		switch {
		case t.is("*") || t.is("**"):
			p.fail(t.at, "a call can not unpack %s; write the arguments one by one", t.text)
		case t.kind == nameToken && p.look(1).is("="):
			p.i += 2
			if slices.Contains(a.names, t.text) {
				p.fail(t.at, "the argument %q is there twice", t.text)
			}
			a.names, a.named = append(a.names, t.text), append(a.named, p.expression(true))
		case len(a.names) > 0:
			p.fail(t.at, "an argument without a name can not follow one with a name")
		default:
			a.positional = append(a.positional, p.expression(true))
		}
	}
	return a
}

// filters parses filters and tests, which bind tighter than any operator.
func (p *parser) filters(x expr) expr {
	for {
		switch t := p.current(); {
		case t.is("|"):
			x = p.filter(x)
		case t.is("is"):
			x = p.test(x)
		case t.is("("):
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *parser) filter(x expr) expr {
	p.expect("|")
	t := p.name("the name of a filter")
	if _, ok := p.e.filters[t.text]; !ok {
		p.fail(t.at, "there is no filter %q", t.text)
	}
	f := &filtered{at: t.at, in: x, filter: t.text}
	if p.current().is("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(x expr) expr {
	p.next()
	negated, isNegated := p.operator("not")
	t := p.name("the name of a test")
	if _, ok := p.e.tests[t.text]; !ok {
		p.fail(t.at, "there is no test %q", t.text)
	}
	tested := &tested{at: t.at, in: x, test: t.text}
	switch follows := p.current(); {
	case follows.is("("):
		tested.args = p.arguments()
	case follows.is("else"), follows.is("and"), follows.is("or"):
	case follows.is("if"), follows.is("is"), follows.is("in"), follows.is("not"):
		p.fail(follows.at, "put parentheses around a test that %q follows", follows.text)
	case slices.Contains([]kind{nameToken, stringToken, integerToken, floatToken}, follows.kind), follows.is("["), follows.is("{"):
		tested.args.positional = []expr{p.postfix(p.primary())}
	}
	if isNegated {
		return &not{negated.at, tested}
	}
	return tested
}
