package expression

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// parsed are the expressions of a template. gonja's parser sees a name in the
// place of each; by that token it is found again.
type parsed map[*tokens.Token]nodes.Expression

// of returns the expression that a node of gonja's stands for.
func (p parsed) of(x nodes.Expression) nodes.Expression {
	if name, ok := x.(*nodes.Name); ok {
		if expression, ok := p[name.Name]; ok {
			return rewrite(expression)
		}
	}
	return rewrite(x)
}

// corrected are the tokens that gonja's parser is given. Each expression is
// parsed here and replaced by a name, and a loop with several targets that
// gonja does not know unpacks them in a {% set %} of its own.
func (g *grammar) corrected() []*tokens.Token {
	out := make([]*tokens.Token, 0, len(g.tokens))
	for i := 0; i < len(g.tokens); i++ {
		t := g.tokens[i]
		out = append(out, t)
		if t.Type != tokens.VariableBegin && t.Type != tokens.BlockBegin {
			continue
		}
		end := i + 1
		for end < len(g.tokens) && g.tokens[end].Type != tokens.VariableEnd && g.tokens[end].Type != tokens.BlockEnd && g.tokens[end].Type != tokens.EOF {
			end++
		}
		inside := slices.DeleteFunc(slices.Clone(g.tokens[i+1:end]), func(t *tokens.Token) bool { return t.Type == tokens.Whitespace })
		p := &tagParser{g: g, list: g.texts(inside), end: g.at(end)}
		if t.Type == tokens.VariableBegin {
			out = append(out, g.several(p, true))
			if !p.done() {
				p.unexpected("'}}' expected here")
			}
		} else {
			out = append(out, g.tag(p)...)
		}
		i = end - 1
	}
	return out
}

// texts resolves escapes and joins adjacent texts.
func (g *grammar) texts(list []*tokens.Token) []*tokens.Token {
	var out []*tokens.Token
	for _, t := range list {
		if t.Type == tokens.String {
			text, ok := unescape(g.src[t.Pos+1 : t.Pos+g.width(t)-1])
			if !ok {
				throw(g.fail(t, "the text has a malformed escape"))
			}
			if n := len(out); n > 0 && out[n-1].Type == tokens.String {
				out[n-1] = made(out[n-1], tokens.String, out[n-1].Val+text)
				continue
			}
			t = made(t, tokens.String, text)
		}
		out = append(out, t)
	}
	return out
}

func made(like *tokens.Token, kind tokens.Type, val string) *tokens.Token {
	return &tokens.Token{Type: kind, Val: val, Pos: like.Pos, Line: like.Line, Col: like.Col}
}

// keep makes the name that stands for an expression.
func (g *grammar) keep(at *tokens.Token, x nodes.Expression) *tokens.Token {
	name := made(at, tokens.Name, "__expression")
	g.expressions[name] = x
	return name
}

// one and several parse an expression and return the name in its place.
func (g *grammar) one(p *tagParser) *tokens.Token {
	at := p.current()
	return g.keep(at, p.expression(true))
}

func (g *grammar) several(p *tagParser, conditionals bool) *tokens.Token {
	at := p.current()
	return g.keep(at, p.several(conditionals))
}

// tag corrects the inside of a statement. What follows its expressions is left
// to gonja, which knows whether it belongs there.
func (g *grammar) tag(p *tagParser) []*tokens.Token {
	if p.done() {
		return nil
	}
	name := p.next()
	out := []*tokens.Token{name}
	switch name.Val {
	case "if", "elif":
		out = append(out, g.several(p, false))
	case "set":
		out = append(out, g.set(p)...)
	case "with":
		for !p.done() && p.look(1).Type == tokens.Assign {
			out = append(out, p.next(), p.next(), g.one(p))
			if comma := p.skip(tokens.Comma); comma != nil {
				out = append(out, comma)
			}
		}
	case "macro":
		for !p.done() {
			t := p.next()
			out = append(out, t)
			if t.Type == tokens.Assign {
				out = append(out, g.one(p))
			}
		}
	case "for":
		return g.loop(p, out)
	case "include", "import", "from":
		out = append(out, g.one(p))
	}
	return append(out, p.rest()...)
}

// rest takes the tokens that are left.
func (p *tagParser) rest() []*tokens.Token {
	rest := p.list[min(p.i, len(p.list)):]
	p.i = len(p.list)
	return rest
}

// set corrects the inside of a set: of a value, or of a body through filters,
// which are applied to the name of the body.
func (g *grammar) set(p *tagParser) []*tokens.Token {
	var out []*tokens.Token
	for !p.done() {
		at := p.current()
		if at.Type == tokens.Assign {
			return append(out, p.next(), g.several(p, true))
		}
		if at.Type == tokens.Pipe {
			var x nodes.Expression = &nodes.Name{Name: made(at, tokens.Name, "__body")}
			for p.current().Type == tokens.Pipe && !p.done() {
				x = p.filter(x)
			}
			return append(out, at, g.keep(at, x))
		}
		out = append(out, p.next())
	}
	return out
}

// loop corrects a for tag.
func (g *grammar) loop(p *tagParser, out []*tokens.Token) []*tokens.Token {
	in := slices.IndexFunc(p.list, func(t *tokens.Token) bool { return t.Type == tokens.In })
	if in < 0 {
		return append(out, p.rest()...)
	}
	targets := p.list[1:in]
	simple := len(targets) <= 1 || len(targets) == 3 && targets[0].Type == tokens.Name && targets[1].Type == tokens.Comma
	p.i = in + 1
	iterable := g.several(p, false)
	var condition []*tokens.Token
	if p.word("if") {
		condition = []*tokens.Token{p.next(), g.one(p)}
	}
	rest := slices.Concat([]*tokens.Token{p.list[in], iterable}, condition, p.rest())
	if simple || condition != nil {
		return slices.Concat(out, targets, rest)
	}
	item := made(targets[0], tokens.Name, "__item")
	unpack := slices.Concat([]*tokens.Token{made(p.end, tokens.BlockEnd, "%}"), made(p.end, tokens.BlockBegin, "{%"), made(p.end, tokens.Name, "set")}, targets)
	value := g.keep(item, &nodes.Name{Name: item})
	return slices.Concat(out, []*tokens.Token{item}, rest, unpack, []*tokens.Token{made(p.end, tokens.Assign, "="), value})
}

// unescape resolves the escapes of a Python text literal.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	simple := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v'}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if plain, ok := simple[c]; ok {
			b.WriteByte(plain)
			continue
		}
		width, base, from := 0, 16, i+1
		switch {
		case c == '\n':
			continue
		case c == 'x':
			width = 2
		case c == 'u':
			width = 4
		case c == 'U':
			width = 8
		case c >= '0' && c <= '7':
			base, from = 8, i
			for width < 3 && i+width < len(s) && s[i+width] >= '0' && s[i+width] <= '7' {
				width++
			}
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		if from+width > len(s) {
			return "", false
		}
		code, err := strconv.ParseUint(s[from:from+width], base, 32)
		if err != nil || code > unicode.MaxRune {
			return "", false
		}
		b.WriteRune(rune(code))
		i = from + width - 1
	}
	return b.String(), true
}
