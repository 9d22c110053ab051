package expression

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/tokens"
)

// What gonja's parser does not know of Jinja2's grammar is expressed in what
// it knows, token by token, so that all positions stay what they were:
//
//	X if C else Y   anywhere       becomes  __if(C, X, Y)
//	'a' 'b'                        becomes  'ab'
//	{'a': 1,}  f(x,)               lose the last comma
//	{{ a, b }}  {% set x = a, b %} get parentheses
//	{% for a, b, c in x %}         unpacks in a {% set %} of its own
//
// and the escapes in text are resolved as Python does.

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
		inside = g.texts(inside)
		if t.Type == tokens.VariableBegin {
			out = append(out, g.value(inside)...)
		} else {
			out = append(out, g.tag(inside, g.at(end))...)
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
			resolved := *t
			text, ok := unescape(g.src[t.Pos+1 : t.Pos+g.width(t)-1])
			if !ok {
				throw(g.fail(t, "the text has a malformed escape"))
			}
			// The parser resolves doubled backslashes once more.
			resolved.Val = strings.ReplaceAll(text, `\`, `\\`)
			if n := len(out); n > 0 && out[n-1].Type == tokens.String {
				joined := *out[n-1]
				joined.Val += resolved.Val
				out[n-1] = &joined
				continue
			}
			t = &resolved
		}
		out = append(out, t)
	}
	return out
}

func made(like *tokens.Token, kind tokens.Type, val string) *tokens.Token {
	return &tokens.Token{Type: kind, Val: val, Pos: like.Pos, Line: like.Line, Col: like.Col}
}

// value corrects an expression that may be several with commas.
func (g *grammar) value(list []*tokens.Token) []*tokens.Token {
	parts, commas := split(list, tokens.Comma)
	if len(commas) == 0 {
		return g.condition(list)
	}
	out := []*tokens.Token{made(list[0], tokens.LeftParenthesis, "(")}
	for i, part := range parts {
		out = append(out, g.condition(part)...)
		if i < len(commas) {
			out = append(out, commas[i])
		}
	}
	return append(out, made(list[len(list)-1], tokens.RightParenthesis, ")"))
}

// condition turns an inline if into a call, after what is within brackets.
func (g *grammar) condition(list []*tokens.Token) []*tokens.Token {
	list = g.groups(list)
	i := index(list, "if")
	if i <= 0 {
		return list
	}
	then, rest := list[:i], list[i+1:]
	test, otherwise := rest, []*tokens.Token(nil)
	if j := index(rest, "else"); j >= 0 {
		test, otherwise = rest[:j], rest[j+1:]
		if len(otherwise) == 0 {
			throw(g.fail(rest[j], "expected an expression after \"else\""))
		}
	}
	if len(test) == 0 {
		throw(g.fail(list[i], "expected a condition after \"if\""))
	}
	comma := made(list[i], tokens.Comma, ",")
	out := []*tokens.Token{made(list[i], tokens.Name, "__if"), made(list[i], tokens.LeftParenthesis, "(")}
	out = append(append(append(out, test...), comma), then...)
	if otherwise != nil {
		out = append(append(out, comma), g.condition(otherwise)...)
	}
	return append(out, made(list[i], tokens.RightParenthesis, ")"))
}

// index finds a word outside of brackets.
func index(list []*tokens.Token, word string) int {
	depth := 0
	for i, t := range list {
		switch {
		case isOpening(t.Type):
			depth++
		case isClosing(t.Type):
			depth--
		case depth == 0 && t.Type == tokens.Name && t.Val == word && (i == 0 || list[i-1].Type != tokens.Dot):
			return i
		}
	}
	return -1
}

// split cuts at separators outside of brackets.
func split(list []*tokens.Token, kinds ...tokens.Type) (parts [][]*tokens.Token, separators []*tokens.Token) {
	depth, from := 0, 0
	for i, t := range list {
		switch {
		case isOpening(t.Type):
			depth++
		case isClosing(t.Type):
			depth--
		case depth == 0 && slices.Contains(kinds, t.Type):
			parts, separators = append(parts, list[from:i]), append(separators, t)
			from = i + 1
		}
	}
	return append(parts, list[from:]), separators
}

// groups corrects what is within brackets.
func (g *grammar) groups(list []*tokens.Token) []*tokens.Token {
	var out []*tokens.Token
	for i := 0; i < len(list); i++ {
		t := list[i]
		out = append(out, t)
		if !isOpening(t.Type) {
			continue
		}
		depth, end := 1, i+1
		for ; end < len(list); end++ {
			if isOpening(list[end].Type) {
				depth++
			} else if isClosing(list[end].Type) {
				if depth--; depth == 0 {
					break
				}
			}
		}
		tupleAllowed := t.Type == tokens.LeftParenthesis && (i == 0 || !endsOperand(list[i-1]))
		parts, separators := split(list[i+1:min(end, len(list))], tokens.Comma, tokens.Colon, tokens.Assign)
		named := false
		for j, part := range parts {
			name := j < len(separators) && separators[j].Type == tokens.Assign
			value := j > 0 && separators[j-1].Type == tokens.Assign
			if named && !name && !value && len(part) > 0 {
				throw(g.fail(part[0], "an argument without a name can not follow one with a name"))
			}
			named = named || name
			out = append(out, g.condition(part)...)
			last := j == len(separators)-1 && len(parts[j+1]) == 0 && separators[j].Type == tokens.Comma
			if j < len(separators) && (!last || tupleAllowed || len(part) == 0) {
				out = append(out, separators[j])
			}
		}
		i = end - 1
	}
	return out
}

// endsOperand tells whether a parenthesis after t is a call.
func endsOperand(t *tokens.Token) bool {
	return isClosing(t.Type) || t.Type == tokens.Name && !slices.Contains([]string{"if", "else"}, t.Val)
}

// tag corrects the inside of a statement; end is the token after it.
func (g *grammar) tag(list []*tokens.Token, end *tokens.Token) []*tokens.Token {
	if len(list) == 0 {
		return nil
	}
	name := list[0].Val
	switch name {
	case "set", "with":
		var out []*tokens.Token
		parts, commas := split(list, tokens.Comma)
		if name == "set" {
			parts, commas = [][]*tokens.Token{list}, nil
		}
		for i, part := range parts {
			sides, assign := split(part, tokens.Assign)
			out = append(out, sides[0]...)
			if len(assign) > 0 {
				out = append(out, assign[0])
				out = append(out, g.value(slices.Concat(sides[1:]...))...)
			}
			if i < len(commas) {
				out = append(out, commas[i])
			}
		}
		return out
	case "for":
		return g.loop(list, end)
	case "include", "import", "from", "extends":
		return append(list[:1:1], g.condition(list[1:])...)
	default:
		return g.groups(list)
	}
}

// loop corrects a for tag with more targets than gonja knows of.
func (g *grammar) loop(list []*tokens.Token, end *tokens.Token) []*tokens.Token {
	in := slices.IndexFunc(list, func(t *tokens.Token) bool { return t.Type == tokens.In })
	if in < 0 {
		return list
	}
	targets := list[1:in]
	simple := len(targets) == 1 || len(targets) == 3 && targets[0].Type == tokens.Name && targets[1].Type == tokens.Comma
	out := append(list[:1:1], targets...)
	if !simple && len(targets) > 0 && index(list, "if") < 0 {
		item := made(targets[0], tokens.Name, "__item")
		out = append(list[:1:1], item)
		return g.unpacking(out, list[in:], targets, item, end)
	}
	return append(out, g.groups(list[in:])...)
}

func (g *grammar) unpacking(out, rest, targets []*tokens.Token, item, end *tokens.Token) []*tokens.Token {
	out = append(out, g.groups(rest)...)
	out = append(out, made(end, tokens.BlockEnd, "%}"), made(end, tokens.BlockBegin, "{%"), made(end, tokens.Name, "set"))
	out = append(out, targets...)
	return append(out, made(end, tokens.Assign, "="), item)
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
