package expression

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/expression/python"
	"github.com/deployster-go/deployster/internal/pattern"
)

// kind is what a token is.
type kind int

const (
	textToken  kind = iota // what stands outside of tags
	printBegin             // {{
	printEnd               // }}
	tagBegin               // {%
	tagEnd                 // %}
	nameToken
	stringToken
	integerToken
	floatToken
	operatorToken
	endToken // the end of the template
)

// token is a piece of a template.
type token struct {
	kind kind
	text string // the value of a string, the source of anything else
	at   python.Position
	// tail marks text that no tag trimmed: it may be the line break that YAML
	// leaves after a single expression.
	tail bool
}

// is reports whether the token is the operator or the word.
func (t token) is(text string) bool {
	return t.text == text && (t.kind == operatorToken || t.kind == nameToken)
}

// lexer cuts a template into tokens by the rules of Jinja2's lexer.
type lexer struct {
	file   string
	src    string
	off    int
	tokens []token
	// brackets are the closing ones that are due in this tag.
	brackets []byte
	// The position that was computed last, and its offset.
	counted int
	at      python.Position
}

// start is where a template begins.
var start = python.Position{Line: 1, Column: 1}

func lex(file, src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{file: file, src: src, at: start}
	if len(src) > maxSource {
		l.fail(0, "the text is longer than %d MiB", maxSource>>20)
	}
	if !utf8.ValidString(src) {
		l.fail(0, "the text is not valid UTF-8")
	}
	trimmed := false
	for l.off < len(src) {
		begin := nextTag(src, l.off)
		l.text(l.src[l.off:begin], l.off, trimmed, begin+2 < len(src) && src[begin+2] == '-')
		if l.off = begin; begin == len(src) {
			break
		}
		trimmed = l.tag()
	}
	l.emit(endToken, "", len(src))
	return l.tokens
}

// nextTag is where the next tag or comment begins.
func nextTag(src string, from int) int {
	for {
		i := strings.IndexByte(src[from:], '{')
		if i < 0 || from+i+1 == len(src) {
			return len(src)
		}
		from += i
		if strings.IndexByte("{%#", src[from+1]) >= 0 {
			return from
		}
		from++
	}
}

// text emits what stands between two tags.
func (l *lexer) text(text string, off int, trimLeft, trimRight bool) {
	if text == "" {
		return
	}
	if trimLeft {
		text = strings.TrimLeftFunc(text, python.IsSpace)
	}
	if trimRight {
		text = strings.TrimRightFunc(text, python.IsSpace)
	}
	l.tokens = append(l.tokens, token{kind: textToken, text: text, at: l.position(off), tail: !trimLeft && !trimRight})
}

// tag reads what begins here, and reports whether the blanks after it are to be
// trimmed.
func (l *lexer) tag() (trim bool) {
	switch l.src[l.off+1] {
	case '#':
		return l.comment()
	case '{':
		return l.inside(printBegin, printEnd, "}}")
	}
	if begin := rawBegin().FindStringSubmatchIndex(l.src[l.off:]); begin != nil {
		return l.raw(begin)
	}
	return l.inside(tagBegin, tagEnd, "%}")
}

// comment leaves an empty text, so that an expression beside it is not alone.
func (l *lexer) comment() (trim bool) {
	begin := len(l.src) - len(withoutSign(l.src[l.off+2:]))
	n := strings.Index(l.src[begin:], "#}")
	if n < 0 {
		l.fail(l.off, "the comment is not closed; expected \"#}\"")
	}
	l.emit(textToken, "", l.off)
	l.off = begin + n + 2
	return n > 0 && l.src[begin+n-1] == '-'
}

func withoutSign(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[1:]
	}
	return s
}

var (
	rawBegin = pattern.Lazy(`^\{%[-+]?\s*raw\s*(-?)%\}`)
	rawEnd   = pattern.Lazy(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)
)

// raw emits the text between {% raw %} and {% endraw %}. begin is where what
// matches rawBegin does.
func (l *lexer) raw(begin []int) (trim bool) {
	from := l.off + begin[1]
	end := rawEnd().FindStringSubmatchIndex(l.src[from:])
	if end == nil {
		l.fail(l.off, "the raw text is not closed; expected {%% endraw %%}")
	}
	text := l.src[from : from+end[0]]
	if begin[2] < begin[3] {
		text = strings.TrimLeftFunc(text, python.IsSpace)
	}
	if l.src[from+end[2]] == '-' {
		text = strings.TrimRightFunc(text, python.IsSpace)
	}
	l.emit(textToken, text, from)
	l.off = from + end[1]
	return l.src[from+end[4]] == '-'
}

// inside reads the tokens of a tag up to its end.
func (l *lexer) inside(begin, end kind, closing string) (trim bool) {
	opened := l.off
	l.emit(begin, l.src[l.off:l.off+2], l.off)
	l.off += len(l.src[l.off:]) - len(withoutSign(l.src[l.off+2:]))
	l.brackets = l.brackets[:0]
	for first := len(l.tokens); ; {
		r, n := utf8.DecodeRuneInString(l.src[l.off:])
		switch {
		case n == 0:
			l.fail(opened, "the tag is not closed")
		case python.IsSpace(r):
			l.off += n
			continue
		}
		if len(l.brackets) == 0 {
			rest := l.src[l.off:]
			signed := strings.HasPrefix(rest, "-") || end == tagEnd && strings.HasPrefix(rest, "+")
			if signed && strings.HasPrefix(rest[1:], closing) || strings.HasPrefix(rest, closing) {
				length := 2
				if signed {
					length = 3
				}
				l.emit(end, rest[:length], l.off)
				l.off += length
				return rest[0] == '-'
			}
		}
		l.token(r)
		if len(l.tokens)-first > maxTokens {
			l.fail(l.off, "the expression is longer than %d tokens", maxTokens)
		}
	}
}

// token reads a token of an expression, which begins with r.
func (l *lexer) token(r rune) {
	from := l.off
	switch {
	case r == '"' || r == '\'':
		l.string(byte(r))
	case r >= '0' && r <= '9':
		l.number()
	case r == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(l.src[from:], func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(l.src) - from
		}
		name := l.src[from : from+n]
		if strings.HasPrefix(name, "__") && !l.tokens[len(l.tokens)-1].is(".") {
			l.fail(from, "names that start with __ are reserved")
		}
		l.emit(nameToken, name, from)
		l.off += n
	default:
		l.operator(r)
	}
}

func (l *lexer) operator(r rune) {
	rest := l.src[l.off:]
	n := 1
	if len(rest) > 1 {
		switch rest[:2] {
		case "//", "**", "==", "!=", "<=", ">=":
			n = 2
		}
	}
	if n == 1 && !strings.ContainsRune("+-/*%~[](){}><=.:|,", r) {
		l.fail(l.off, "unexpected character %q", string(r))
	}
	switch r {
	case '(', '[', '{':
		l.brackets = append(l.brackets, map[rune]byte{'(': ')', '[': ']', '{': '}'}[r])
		if len(l.brackets) > maxNesting {
			l.fail(l.off, "nested deeper than %d levels", maxNesting)
		}
	case ')', ']', '}':
		last := len(l.brackets) - 1
		if last < 0 {
			l.fail(l.off, "unexpected %q", string(r))
		}
		if rune(l.brackets[last]) != r {
			l.fail(l.off, "unexpected %q, expected %q", string(r), string(l.brackets[last]))
		}
		l.brackets = l.brackets[:last]
	}
	l.emit(operatorToken, rest[:n], l.off)
	l.off += n
}

var (
	floatPattern = pattern.Lazy(`^(?i)(?:[0-9]+_)*[0-9]+(?:(?:\.(?:[0-9]+_)*[0-9]+)?e[+-]?(?:[0-9]+_)*[0-9]+|\.(?:[0-9]+_)*[0-9]+)`)
	wholePattern = pattern.Lazy(`^(?i)(?:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
)

func (l *lexer) number() {
	rest := l.src[l.off:]
	dots, signs := 0, 0 // or each number of a long sum would look at all that follow
	if n := strings.IndexFunc(rest, func(r rune) bool {
		switch r {
		case '_':
			return false
		case '.':
			dots++
			return dots > 1
		case '+', '-':
			signs++
			return signs > 1
		}
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}); n >= 0 {
		rest = rest[:n]
	}
	of, number := floatToken, ""
	if l.src[l.off-1] != '.' {
		number = floatPattern().FindString(rest)
	}
	if number == "" {
		of, number = integerToken, wholePattern().FindString(rest)
		if digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789_"))]; number[0] == '0' && len(digits) > len(number) && strings.Trim(digits, "0_") != "" {
			l.fail(l.off, "the number %s starts with a zero", digits)
		}
	}
	l.emit(of, number, l.off)
	l.off += len(number)
}

func (l *lexer) string(mark byte) {
	for end := l.off + 1; end < len(l.src); end++ {
		switch l.src[end] {
		case '\\':
			end++
		case mark:
			text, ok := unescape(l.src[l.off+1 : end])
			if !ok {
				l.fail(l.off, "the text has a malformed escape")
			}
			l.emit(stringToken, text, l.off)
			l.off = end + 1
			return
		}
	}
	l.fail(l.off, "the text is not closed; expected %c", mark)
}

func (l *lexer) emit(k kind, text string, off int) {
	l.tokens = append(l.tokens, token{kind: k, text: text, at: l.position(off)})
}

// position counts the lines and characters before an offset.
func (l *lexer) position(off int) python.Position {
	if off < l.counted {
		l.counted, l.at = 0, start
	}
	for ; l.counted < off; l.counted++ {
		switch c := l.src[l.counted]; {
		case c == '\n':
			l.at = python.Position{Line: l.at.Line + 1, Column: 1}
		case utf8.RuneStart(c):
			l.at.Column++
		}
	}
	return l.at
}

func (l *lexer) fail(off int, format string, args ...any) {
	python.Throw(syntaxError(l.file, l.position(off), format, args...))
}

func syntaxError(file string, at python.Position, format string, args ...any) *python.SyntaxError {
	return &python.SyntaxError{File: file, Line: at.Line, Column: at.Column, Message: python.Message(format, args...)}
}

// unescape resolves the escapes of a Python text literal. What Python makes of
// characters by their names, or that are not ASCII, after a backslash is refused.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if s = rest; !found || s == "" {
			break
		}
		head := s[:min(3, len(s))]
		octal := len(head) - len(strings.TrimLeft(head, "01234567"))
		switch c := s[0]; {
		case c == '\n':
			s = s[1:]
		case c == '\'' || c == '"':
			b.WriteByte(c)
			s = s[1:]
		case octal > 0:
			code, _ := strconv.ParseUint(s[:octal], 8, 32)
			b.WriteRune(rune(code))
			s = s[octal:]
		case strings.IndexByte(`abfnrtvxuU\`, c) >= 0:
			r, _, tail, err := strconv.UnquoteChar(`\`+s, 0)
			if err != nil {
				return "", false
			}
			b.WriteRune(r)
			s = tail
		case c == 'N' || c >= utf8.RuneSelf:
			return "", false
		default:
			b.WriteByte('\\')
		}
	}
	return b.String(), true
}
