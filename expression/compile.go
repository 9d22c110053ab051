package expression

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// parse turns a template into a tree: gonja's lexer, the checks and corrections
// of the tokens, which parse the expressions (see grammar), gonja's parser for
// the statements, and the rewriting of every expression (see rewrite). It throws
// a SyntaxError.
func (s *state) parse(file, src string) *nodes.Template {
	g := s.lex(file, src)
	s.reads++
	if s.reads > maxFiles {
		throw(&LimitError{Message: fmt.Sprintf("more than %d files are included; is one including itself?", maxFiles)})
	}
	cfg := settings()
	p := parser.NewParser(file, tokens.NewStream(g.corrected()), cfg, loader{}, s.env.ControlStructures)
	outer := s.parsing
	s.parsing = g
	defer func() { s.parsing = outer }()
	defer g.malformed(p)
	root, err := p.Parse()
	if err != nil {
		throw(g.syntaxError(err, g.near(p)))
	}
	rewriteTemplate(root, g.expressions)
	return root
}

// malformed ends a panic of gonja's parser, which meets some mistakes with a
// nil pointer or a nil expression.
func (g *grammar) malformed(p *parser.Parser) {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		throw(g.fail(g.near(p), "the expression is malformed"))
	case thrown:
		if errors.Is(r.err, errNoOperand) {
			throw(g.fail(g.lastTag(), "%s", r.err))
		}
		panic(r)
	default:
		panic(r)
	}
}

var errNoOperand = errors.New("an operand is missing")

func settings() *config.Config {
	cfg := config.New()
	cfg.StrictUndefined = true
	cfg.KeepTrailingNewline = true
	return cfg
}

// lex cuts a template into tokens and refuses what is out of bounds before
// anything recursive looks at it.
func (s *state) lex(file, src string) *grammar {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	g := &grammar{e: s.e, file: file, src: src, expressions: parsed{}}
	if len(src) > maxSource {
		throw(g.fail(nil, "the text is longer than %d MiB", maxSource>>20))
	}
	if !utf8.ValidString(src) {
		throw(g.fail(nil, "the text is not valid UTF-8"))
	}
	stream := tokens.LexAll(src, settings())
	inside, end := false, 0
	for {
		t := stream.Current()
		if inside {
			g.repair(t)
			g.gap(end, t)
			end = t.Pos + g.width(t)
		}
		if beginsTag(t.Type) {
			inside, end = true, t.Pos+len(t.Val)
		}
		inside = inside && !endsTag(t.Type)
		t.Line, t.Col = g.position(t.Pos)
		g.tokens = append(g.tokens, t)
		if stream.End() {
			break
		}
		stream.Next()
	}
	g.check()
	return g
}

// gap refuses what stands before a token: gonja skips what it does not know.
func (g *grammar) gap(from int, t *tokens.Token) {
	if t.Type == tokens.Error {
		return
	}
	for i, r := range g.src[min(from, t.Pos):t.Pos] {
		if !strings.ContainsRune(blanks, r) {
			t.Line, t.Col = g.position(from + i)
			throw(g.fail(t, "unexpected character %q", string(r)))
		}
	}
	if t.Type == tokens.EOF {
		return
	}
	r, _ := utf8.DecodeRuneInString(g.src[t.Pos:])
	if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("\"'+-*/%~<>=!.:|,()[]{}", r) {
		t.Line, t.Col = g.position(t.Pos)
		throw(g.fail(t, "unexpected character %q", string(r)))
	}
}

// width is how many bytes a token takes in the source.
func (g *grammar) width(t *tokens.Token) int {
	if t.Type != tokens.String {
		return len(t.Val)
	}
	raw := g.src[t.Pos:]
	n := 1
	for n < len(raw) && raw[n] != raw[0] {
		if raw[n] == '\\' {
			n++
		}
		n++
	}
	return min(n+1, len(raw))
}

const blanks = " \t\n\f\v"

// repair corrects a token within a tag. gonja takes line breaks and characters
// it does not know as the beginning of the next token, and words such as "in"
// for names unless a space follows.
func (g *grammar) repair(t *tokens.Token) {
	end := min(t.Pos+len(t.Val), len(g.src))
	if t.Type == tokens.String || t.Type == tokens.Error {
		end = len(g.src)
	}
	for t.Pos < end && strings.IndexByte(blanks, g.src[t.Pos]) >= 0 {
		t.Pos++
	}
	if t.Type != tokens.String && t.Type != tokens.Error {
		t.Val = strings.TrimLeft(t.Val, blanks)
	}
	if before := g.at(len(g.tokens) - 1).Type; t.Type == tokens.Name && before != tokens.Dot && before != tokens.Pipe {
		if word, ok := map[string]tokens.Type{"in": tokens.In, "is": tokens.Is, "and": tokens.And, "or": tokens.Or, "not": tokens.Not}[t.Val]; ok {
			t.Type = word
		}
	}
}

// grammar is a template as tokens.
type grammar struct {
	e      *Evaluator
	file   string
	src    string
	tokens []*tokens.Token
	// what the tags hold
	expressions parsed
	// the position that g.position counted up to
	off, line, column int
}

// position counts lines and characters; gonja counts bytes.
func (g *grammar) position(off int) (line, column int) {
	off = min(off, len(g.src))
	if g.line == 0 || off < g.off {
		g.off, g.line, g.column = 0, 1, 1
	}
	for ; g.off < off; g.off++ {
		switch c := g.src[g.off]; {
		case c == '\n':
			g.line++
			g.column = 1
		case utf8.RuneStart(c):
			g.column++
		}
	}
	return g.line, g.column
}

// fail makes a SyntaxError at a token, or at the start.
func (g *grammar) fail(t *tokens.Token, format string, args ...any) *SyntaxError {
	e := &SyntaxError{File: g.file, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	if t != nil {
		e.Line, e.Column = t.Line, t.Col
	}
	return e
}

// syntaxError translates an error of gonja's parser.
func (g *grammar) syntaxError(err error, at *tokens.Token) error {
	var ours *SyntaxError
	if errors.As(err, &ours) {
		return ours
	}
	var theirs *parser.SyntaxError
	if !errors.As(err, &theirs) || theirs.Line == 0 {
		return g.fail(at, "%s", strings.TrimSuffix(rootMessage(err), "."))
	}
	if strings.HasPrefix(theirs.Message, "ControlStructure") {
		return &SyntaxError{File: g.file, Line: theirs.Line, Column: theirs.Column, Message: fmt.Sprintf("unknown or unexpected tag %q", theirs.Raw)}
	}
	e := &SyntaxError{File: g.file, Line: theirs.Line, Column: theirs.Column, Message: strings.TrimSuffix(theirs.Message, ".")}
	if theirs.Raw == "" {
		e.Message += ", got the end of the text"
	} else {
		e.Message += fmt.Sprintf(", got %q", theirs.Raw)
	}
	return e
}

// near is where the parser stands, which is where to point when it does not
// say itself.
func (g *grammar) near(p *parser.Parser) *tokens.Token {
	if at := p.Current(); at != nil && at.Line > 0 {
		return at
	}
	return g.lastTag()
}

// rootMessage is what went wrong, without what gonja was doing meanwhile.
func rootMessage(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// lastTag is where to point when gonja does not say.
func (g *grammar) lastTag() *tokens.Token {
	for _, t := range slices.Backward(g.tokens) {
		if t.Type == tokens.BlockBegin || t.Type == tokens.VariableBegin {
			return t
		}
	}
	return nil
}

// opensBody tells which statements always have an end tag.
func opensBody(tag string) bool {
	return slices.Contains([]string{"if", "for", "macro", "with", "block"}, tag)
}

func beginsTag(t tokens.Type) bool { return t == tokens.VariableBegin || t == tokens.BlockBegin }

func endsTag(t tokens.Type) bool { return t == tokens.VariableEnd || t == tokens.BlockEnd }

func isOpening(t tokens.Type) bool {
	return t == tokens.LeftParenthesis || t == tokens.LeftBracket || t == tokens.LeftBrace
}

func isClosing(t tokens.Type) bool {
	return t == tokens.RightParenthesis || t == tokens.RightBracket || t == tokens.RightBrace
}

// check refuses what gonja does not: unknown filters, tests and tags, and what
// is nested or chained beyond what a recursive parser should be given.
func (g *grammar) check() {
	depth, chain := 0, 0
	var open []string // the statements that are not ended yet
	for i, t := range g.tokens {
		next, before := g.at(i+1), g.at(i-1)
		switch {
		case t.Type == tokens.Error:
			throw(g.lexError(i, t))
		case isOpening(t.Type):
			depth++
		case isClosing(t.Type):
			depth--
		case beginsTag(t.Type):
			depth, chain = 0, 0
		case t.Type == tokens.EOF && before != nil && g.inTag(i):
			throw(g.fail(g.lastTag(), "the tag is not closed"))
		case t.Type == tokens.Integer && len(t.Val) > 1 && t.Val[0] == '0' && strings.Trim(t.Val, "0_") != "" && t.Val[1] <= '9':
			throw(g.fail(t, "the number %s starts with a zero", t.Val))
		}
		if t.Type == tokens.Pipe && next.Type == tokens.Name {
			if _, ok := g.e.filters[next.Val]; !ok {
				throw(g.fail(next, "there is no filter %q", next.Val))
			}
		}
		if t.Type == tokens.Is {
			name := next
			if name.Type == tokens.Not {
				name = g.at(i + 2)
			}
			if _, ok := g.e.tests[name.Val]; !ok && (name.Type == tokens.Name || name.Type == tokens.In) {
				throw(g.fail(name, "there is no test %q", name.Val))
			}
		}
		if before.Type == tokens.BlockBegin {
			if t.Type != tokens.Name || t.Val == "" {
				throw(g.fail(t, "expected a tag such as \"if\""))
			}
			switch {
			case opensBody(t.Val), t.Val == "set" && !g.assigns(i):
				open = append(open, t.Val)
			case t.Val == "else" || t.Val == "elif":
				if n := len(open); n > 0 && open[n-1] == "else" {
					throw(g.fail(t, "%q after \"else\"", t.Val))
				} else if n > 0 && t.Val == "else" {
					open[n-1] = "else"
				}
			case strings.HasPrefix(t.Val, "end") && t.Val != "endraw" && len(open) > 0:
				open = open[:len(open)-1]
			}
		}
		if t.Type == tokens.Name && strings.HasPrefix(t.Val, "__") && before.Type != tokens.Dot {
			throw(g.fail(t, "names that start with __ are reserved"))
		}
		chain++
		if depth > maxNesting || len(open) > maxNesting {
			throw(g.fail(t, "nested deeper than %d levels", maxNesting))
		}
		if chain > maxTokens {
			throw(g.fail(t, "the expression is longer than %d tokens", maxTokens))
		}
	}
}

// assigns tells whether the tag at i has a "=", as a set without a body does.
func (g *grammar) assigns(i int) bool {
	for ; i < len(g.tokens) && g.tokens[i].Type != tokens.BlockEnd; i++ {
		if g.tokens[i].Type == tokens.Assign {
			return true
		}
	}
	return false
}

// at is a token by index; outside it is the end.
func (g *grammar) at(i int) *tokens.Token {
	if i < 0 || i >= len(g.tokens) {
		return &tokens.Token{Type: tokens.EOF, Line: 1, Col: 1}
	}
	return g.tokens[i]
}

// inTag tells whether token i comes after a tag that was opened and not closed.
func (g *grammar) inTag(i int) bool {
	for i--; i >= 0; i-- {
		t := g.tokens[i].Type
		if beginsTag(t) || t == tokens.CommentBegin {
			return true
		}
		if endsTag(t) || t == tokens.CommentEnd || t == tokens.Data {
			return false
		}
	}
	return false
}

// lexError says what the lexer stumbled over.
func (g *grammar) lexError(i int, t *tokens.Token) *SyntaxError {
	if i > 0 && g.inTag(i) && t.Pos > 0 && t.Pos >= len(g.src) {
		before := g.at(i - 1)
		rest := g.src[min(before.Pos+len(before.Val), len(g.src)):]
		if quote := strings.IndexAny(rest, `"'`); quote >= 0 && strings.TrimSpace(rest[:quote]) == "" {
			t.Line, t.Col = g.position(before.Pos + len(before.Val) + quote)
			return g.fail(t, "the text is not closed; expected %s", rest[quote:quote+1])
		}
		return g.fail(g.lastTag(), "the tag is not closed")
	}
	if strings.Contains(t.Val, "comment") {
		return g.fail(g.at(i-1), "the comment is not closed; expected \"#}\"")
	}
	return g.fail(t, "%s", strings.ToLower(t.Val[:min(1, len(t.Val))])+t.Val[min(1, len(t.Val)):])
}
