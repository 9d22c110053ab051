package expression

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// tagParser parses the expressions of one tag by Jinja2's grammar, whose rules
// its methods are named for. gonja's own binds "is" and "in" otherwise, forgets
// parentheses, and takes much for an expression that is none.
type tagParser struct {
	g    *grammar
	list []*tokens.Token // of the tag, without blanks
	i    int
	end  *tokens.Token // the end of the tag
}

// Nodes that gonja has no own ones for.
type (
	// conditional is "X if C else Y"; otherwise may be nil.
	conditional struct {
		at                    *tokens.Token
		test, then, otherwise nodes.Expression
	}

	// operand is one step of a comparison: a < b < c has two.
	operand struct {
		op    *tokens.Token
		right nodes.Expression
	}

	// comparison is a chain of comparisons.
	comparison struct {
		left nodes.Expression
		ops  []operand
	}
)

func (c *conditional) Position() *tokens.Token { return c.at }
func (c *conditional) String() string          { return "conditional" }
func (c *comparison) Position() *tokens.Token  { return c.ops[0].op }
func (c *comparison) String() string           { return "comparison" }

func (p *tagParser) current() *tokens.Token { return p.look(0) }

func (p *tagParser) look(n int) *tokens.Token {
	if p.i+n < len(p.list) {
		return p.list[p.i+n]
	}
	return p.end
}

// next takes a token.
func (p *tagParser) next() *tokens.Token {
	t := p.current()
	p.i++
	return t
}

// skip takes a token if it is of one of the kinds.
func (p *tagParser) skip(kinds ...tokens.Type) *tokens.Token {
	if p.i < len(p.list) && slices.Contains(kinds, p.current().Type) {
		return p.next()
	}
	return nil
}

// word tells whether the next token is the name.
func (p *tagParser) word(name string) bool {
	return p.current().Type == tokens.Name && p.current().Val == name
}

func (p *tagParser) done() bool { return p.i >= len(p.list) }

func (p *tagParser) expect(kind tokens.Type, what string) *tokens.Token {
	t := p.skip(kind)
	if t == nil {
		p.unexpected("expected " + what)
	}
	return t
}

// unexpected throws a SyntaxError at the next token.
func (p *tagParser) unexpected(message string) {
	t := p.current()
	if t.Type == tokens.EOF {
		throw(p.g.fail(p.g.lastTag(), "the tag is not closed"))
	}
	if t.Type == tokens.String {
		throw(p.g.fail(t, "%s, got a text", message))
	}
	throw(p.g.fail(t, "%s, got %q", message, t.Val))
}

// several parses what may be a tuple without parentheses.
func (p *tagParser) several(conditionals bool) nodes.Expression {
	at := p.current()
	var parts []nodes.Expression
	for {
		if len(parts) > 0 && (p.done() || p.current().Type == tokens.RightParenthesis || !conditionals && p.word("recursive")) {
			return &nodes.Tuple{Location: at, Val: parts}
		}
		parts = append(parts, p.expression(conditionals))
		if p.skip(tokens.Comma) == nil {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &nodes.Tuple{Location: at, Val: parts}
}

func (p *tagParser) expression(conditionals bool) nodes.Expression {
	if !conditionals {
		return p.or()
	}
	x := p.or()
	for p.word("if") {
		at := p.next()
		c := &conditional{at: at, then: x, test: p.or()}
		if p.word("else") {
			p.next()
			c.otherwise = p.expression(true)
		}
		x = c
	}
	return x
}

// binary parses operators of one precedence, which group to the left.
func (p *tagParser) binary(within func() nodes.Expression, kinds ...tokens.Type) nodes.Expression {
	x := within()
	for {
		op := p.skip(kinds...)
		if op == nil {
			return x
		}
		x = &nodes.BinaryExpression{Left: x, Right: within(), Operator: &nodes.BinOperator{Token: op}}
	}
}

func (p *tagParser) or() nodes.Expression  { return p.binary(p.and, tokens.Or) }
func (p *tagParser) and() nodes.Expression { return p.binary(p.not, tokens.And) }

func (p *tagParser) not() nodes.Expression {
	if op := p.skip(tokens.Not); op != nil {
		return &nodes.Negation{Operator: op, Term: p.not()}
	}
	return p.compare()
}

func (p *tagParser) compare() nodes.Expression {
	c := &comparison{left: p.sum()}
	for {
		op := p.skip(tokens.Equals, tokens.Ne, tokens.LowerThan, tokens.LowerThanOrEqual, tokens.GreaterThan, tokens.GreaterThanOrEqual, tokens.In)
		if op == nil && p.current().Type == tokens.Not && p.look(1).Type == tokens.In {
			p.next()
			op = made(p.next(), tokens.In, "not in")
		}
		if op == nil {
			break
		}
		c.ops = append(c.ops, operand{op, p.sum()})
	}
	if len(c.ops) == 0 {
		return c.left
	}
	return c
}

func (p *tagParser) sum() nodes.Expression {
	return p.binary(p.concat, tokens.Addition, tokens.Subtraction)
}

func (p *tagParser) concat() nodes.Expression { return p.binary(p.product, tokens.Tilde) }

func (p *tagParser) product() nodes.Expression {
	return p.binary(p.power, tokens.Multiply, tokens.Division, tokens.FloorDivision, tokens.Modulo)
}

func (p *tagParser) power() nodes.Expression {
	return p.binary(func() nodes.Expression { return p.unary(true) }, tokens.Power)
}

func (p *tagParser) unary(filters bool) nodes.Expression {
	var x nodes.Expression
	if op := p.skip(tokens.Subtraction, tokens.Addition); op != nil {
		x = &nodes.UnaryExpression{Operator: op, Negative: op.Type == tokens.Subtraction, Term: p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x)
	}
	return x
}

func (p *tagParser) primary() nodes.Expression {
	t := p.current()
	switch {
	case p.done():
	case t.Type == tokens.Name:
		p.next()
		switch t.Val {
		case "true", "True":
			return &nodes.Bool{Location: t, Val: true}
		case "false", "False":
			return &nodes.Bool{Location: t, Val: false}
		case "none", "None":
			return &nodes.None{Location: t}
		case "if", "else":
			p.i--
			p.unexpected("expected a value")
		}
		return &nodes.Name{Name: t}
	case t.Type == tokens.String:
		p.next()
		return &nodes.String{Location: t, Val: t.Val}
	case t.Type == tokens.Integer:
		return p.integer()
	case t.Type == tokens.Float:
		p.next()
		f, err := strconv.ParseFloat(strings.ReplaceAll(t.Val, "_", ""), 64)
		if err != nil || math.IsInf(f, 0) {
			throw(p.g.fail(t, "the number %s is too large", t.Val))
		}
		return &nodes.Float{Location: t, Val: f}
	case t.Type == tokens.LeftParenthesis:
		return p.parentheses()
	case t.Type == tokens.LeftBracket:
		p.next()
		return &nodes.List{Location: t, Val: p.elements(tokens.RightBracket, "]")}
	case t.Type == tokens.LeftBrace:
		return p.dict()
	}
	p.unexpected("expected either a number, string, keyword or identifier")
	return nil
}

func (p *tagParser) integer() nodes.Expression {
	t := p.next()
	i, err := strconv.ParseInt(strings.ReplaceAll(t.Val, "_", ""), 0, strconv.IntSize)
	if err != nil {
		throw(p.g.fail(t, "the number %s is too large for a whole number", t.Val))
	}
	return &nodes.Integer{Location: t, Val: int(i)}
}

func (p *tagParser) parentheses() nodes.Expression {
	at := p.next()
	if p.skip(tokens.RightParenthesis) != nil {
		return &nodes.Tuple{Location: at, Val: []nodes.Expression{}}
	}
	x := p.several(true)
	p.expect(tokens.RightParenthesis, `")"`)
	return x
}

// elements parses the elements of a list up to its end.
func (p *tagParser) elements(end tokens.Type, what string) []nodes.Expression {
	list := []nodes.Expression{}
	for p.skip(end) == nil {
		if len(list) > 0 {
			p.expect(tokens.Comma, `"," or "`+what+`"`)
			if p.skip(end) != nil {
				break
			}
		}
		list = append(list, p.expression(true))
	}
	return list
}

func (p *tagParser) dict() nodes.Expression {
	d := &nodes.Dict{Token: p.next(), Pairs: []*nodes.Pair{}}
	for p.skip(tokens.RightBrace) == nil {
		if len(d.Pairs) > 0 {
			p.expect(tokens.Comma, `"," or "}"`)
			if p.skip(tokens.RightBrace) != nil {
				break
			}
		}
		at := p.current()
		key := p.expression(true)
		switch key.(type) {
		case *nodes.List, *nodes.Dict:
			throw(p.g.fail(at, "a list or a mapping can not be a key"))
		}
		p.expect(tokens.Colon, `":"`)
		d.Pairs = append(d.Pairs, &nodes.Pair{Key: key, Value: p.expression(true)})
	}
	return d
}

func (p *tagParser) postfix(x nodes.Expression) nodes.Expression {
	for {
		switch at := p.current(); {
		case p.skip(tokens.Dot) != nil:
			if name := p.skip(tokens.Name); name != nil {
				x = &nodes.GetAttribute{Location: at, Node: x, Attribute: name.Val}
			} else if p.current().Type == tokens.Integer && !p.done() {
				x = &nodes.GetItem{Location: at, Node: x, Arg: p.integer()}
			} else {
				p.unexpected("expected a name or a number")
			}
		case p.skip(tokens.LeftBracket) != nil:
			x = p.subscript(at, x)
		case p.current().Type == tokens.LeftParenthesis && !p.done():
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *tagParser) subscript(at *tokens.Token, x nodes.Expression) nodes.Expression {
	var start nodes.Expression
	if p.current().Type != tokens.Colon {
		start = p.expression(true)
	}
	if p.skip(tokens.Colon) == nil {
		p.expect(tokens.RightBracket, `"]"`)
		return &nodes.GetItem{Location: at, Node: x, Arg: start}
	}
	slice := &nodes.GetSlice{Location: at, Node: x}
	bound := func() nodes.Node {
		if p.current().Type == tokens.Colon || p.current().Type == tokens.RightBracket {
			return nil
		}
		return p.expression(true)
	}
	if start != nil {
		slice.Start = start
	}
	slice.End = bound()
	if p.skip(tokens.Colon) != nil {
		slice.Step = bound()
	}
	p.expect(tokens.RightBracket, `"]"`)
	return slice
}

func (p *tagParser) call(x nodes.Expression) nodes.Expression {
	c := &nodes.Call{Location: p.current(), Func: x}
	c.Args, c.Kwargs = p.arguments()
	return c
}

func (p *tagParser) arguments() ([]nodes.Expression, map[string]nodes.Expression) {
	p.next()
	args, named := []nodes.Expression{}, map[string]nodes.Expression{}
	for first := true; p.skip(tokens.RightParenthesis) == nil; first = false {
		if !first {
			p.expect(tokens.Comma, `"," or ")"`)
			if p.skip(tokens.RightParenthesis) != nil {
				break
			}
		}
		at := p.current()
		switch {
		case at.Type == tokens.Multiply || at.Type == tokens.Power:
			throw(p.g.fail(at, "a call can not unpack %s; write the arguments one by one", at.Val))
		case at.Type == tokens.Name && p.look(1).Type == tokens.Assign:
			p.i += 2
			if _, twice := named[at.Val]; twice {
				throw(p.g.fail(at, "the argument %q is there twice", at.Val))
			}
			named[at.Val] = p.expression(true)
		case len(named) > 0:
			throw(p.g.fail(at, "an argument without a name can not follow one with a name"))
		default:
			args = append(args, p.expression(true))
		}
	}
	return args, named
}

// filters parses filters and tests, which bind tighter than any operator.
func (p *tagParser) filters(x nodes.Expression) nodes.Expression {
	for {
		switch {
		case p.current().Type == tokens.Pipe && !p.done():
			x = p.filter(x)
		case p.current().Type == tokens.Is && !p.done():
			x = p.test(x)
		case p.current().Type == tokens.LeftParenthesis && !p.done():
			x = p.call(x)
		default:
			return x
		}
	}
}

func (p *tagParser) filter(x nodes.Expression) nodes.Expression {
	p.expect(tokens.Pipe, `"|"`)
	name := p.expect(tokens.Name, "the name of a filter")
	f := &nodes.FilterCall{Token: name, Name: name.Val}
	if p.current().Type == tokens.LeftParenthesis && !p.done() {
		f.Args, f.Kwargs = p.arguments()
	}
	return &nodes.FilteredExpression{Expression: x, Filters: []*nodes.FilterCall{f}}
}

func (p *tagParser) test(x nodes.Expression) nodes.Expression {
	p.next()
	negated := p.skip(tokens.Not)
	name := p.skip(tokens.Name, tokens.In)
	if name == nil {
		p.unexpected("expected the name of a test")
	}
	t := &nodes.TestCall{Token: name, Name: name.Val}
	switch at := p.current(); {
	case p.done():
	case at.Type == tokens.LeftParenthesis:
		t.Args, t.Kwargs = p.arguments()
	case at.Type == tokens.Name && at.Val == "else":
	case at.Type == tokens.Name && at.Val == "if":
		throw(p.g.fail(at, `put parentheses around a test that "if" follows`))
	case slices.Contains([]tokens.Type{tokens.Is, tokens.In, tokens.Not}, at.Type):
		throw(p.g.fail(at, "put parentheses around a test that %q follows", at.Val))
	case slices.Contains([]tokens.Type{tokens.Name, tokens.String, tokens.Integer, tokens.Float, tokens.LeftBracket, tokens.LeftBrace}, at.Type):
		t.Args = []nodes.Expression{p.postfix(p.primary())}
	}
	var test nodes.Expression = &nodes.TestExpression{Expression: x, Test: t}
	if negated != nil {
		test = &nodes.Negation{Operator: negated, Term: test}
	}
	return test
}
