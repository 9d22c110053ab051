package expression

import (
	"slices"
	"strconv"

	"github.com/deployster-go/deployster/expression/python"
)

// parser parses a template by Jinja2's grammar, whose rules its methods are
// named for.
type parser struct {
	e      *Evaluator
	file   string
	tokens []token
	i      int
	begin  python.Position // of the tag that is parsed
	depth  int             // statements that are open
	within context
	blocks map[string]*block
	mentions
	loops int // how often the name loop was read so far
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
	p := &parser{
		e: e, file: file, tokens: lex(file, src), blocks: map[string]*block{}, mentions: mentions{bound: map[string]bool{}},
		within: context{top: true, symbols: newSymbols()},
	}
	nodes, _ := p.nodes()
	return &template{file: file, body: body{nodes, p.within.uses}, blocks: p.blocks, mentions: p.mentions, weight: weigh(src, len(p.tokens))}
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

func (p *parser) fail(at python.Position, format string, args ...any) {
	python.Throw(syntaxError(p.file, at, format, args...))
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

func (p *parser) or() expr  { return p.binary(p.and, "or") }
func (p *parser) and() expr { return p.binary(p.not, "and") }

func (p *parser) not() expr {
	if op, ok := p.operator("not"); ok {
		return &operation{at: op.at, op: op.text, right: p.not()}
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
		x = &operation{op.at, op.text, x, within()}
	}
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	var x expr
	if op, ok := p.operator("-", "+"); ok {
		x = &operation{at: op.at, op: op.text, right: p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x)
	}
	return x
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
	if _, ok := p.e.library.Filters[t.text]; !ok {
		p.fail(t.at, "there is no filter %q", t.text)
	}
	if t.text == "default" || t.text == "d" {
		p.optional(x, false)
	}
	f := &applied{at: t.at, in: x, name: t.text}
	if p.current().is("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(x expr) expr {
	p.next()
	negated, isNegated := p.operator("not")
	t := p.name("the name of a test")
	if _, ok := p.e.library.Tests[t.text]; !ok {
		p.fail(t.at, "there is no test %q", t.text)
	}
	if t.text == "defined" || t.text == "undefined" {
		p.optional(x, true)
	}
	tested := &applied{at: t.at, in: x, name: t.text, isTest: true}
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
		return &operation{at: negated.at, op: "not", right: tested}
	}
	return tested
}
