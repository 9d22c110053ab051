package yamlfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Malformed says what is probably wrong with text that no YAML parser takes,
// where the parser's own words would not help: a tab in the indentation, a quote
// that is not closed or closed too early, a statement of Jinja2 around parts of the
// file, a value that needs quotes. line, from 1, is where the parser gave up. at is
// the byte where it begins; message is "" when it is none of those.
func Malformed(data []byte, line int) (at int, message string) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return 0, ""
	}
	start := 0
	for _, l := range lines[:line-1] {
		start += len(l)
	}
	text := lines[line-1]
	indentation := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	mistake := firstMistake(data, start+len(text))
	switch tab := bytes.IndexByte(indentation, '\t'); {
	case mistake.message != "" && mistake.at <= start+len(indentation):
		return mistake.at, mistake.message
	case tab >= 0:
		return start + tab, "a tab is in the indentation; YAML is indented with spaces only"
	case bytes.HasPrefix(text[len(indentation):], []byte("{%")):
		return start + len(indentation), aroundParts
	}
	return mistake.at, mistake.message
}

const (
	aroundParts = "a statement ({% … %}) cannot stand around parts of a file, only within one value, which is then in quotes"
	unquoted    = "a value that begins with a statement ({% … %}) must be in quotes, all of it"
	secondColon = `a second colon with a space behind it; a value that has ": " in it must be in quotes, all of it`
)

// found is a mistake, and where.
type found struct {
	at      int
	message string
}

// firstMistake looks for what is never right in YAML. Text after end is only
// looked at for the end of what began before.
func firstMistake(data []byte, end int) found {
	s := scanner{data: data}
	for s.at < len(data) && s.at < end {
		if s.token() {
			if wrong := s.quote(); wrong.message != "" {
				return wrong
			}
		}
		if s.wrong.message != "" {
			return s.wrong
		}
	}
	return found{}
}

// quote moves behind the quoted text that opens here. It is wrong when it is not
// closed, or closed by what was meant to open another, or to be part of it: then
// other text follows.
func (s *scanner) quote() found {
	opened, quote := s.at, s.data[s.at]
	name := fmt.Sprintf("the %s quote (%c) that opens here", map[byte]string{'"': "double", '\'': "single"}[quote], quote)
	if !s.quoted() {
		return found{opened, name + " is not closed"}
	}
	next := bytes.TrimLeft(s.data[s.at:], " \t")
	apart := len(next) < len(s.data)-s.at
	if len(next) == 0 || bytes.IndexByte([]byte("\r\n,:]}"), next[0]) >= 0 || apart && next[0] == '#' {
		return found{}
	}
	if lines := bytes.Count(s.data[opened:s.at], []byte("\n")); lines > 0 {
		return found{opened, fmt.Sprintf("%s is not closed before line %d, where the next one ends it", name, 1+bytes.Count(s.data[:s.at], []byte("\n")))}
	}
	inside := map[byte]string{'"': `\"`, '\'': "''"}[quote]
	return found{opened, fmt.Sprintf("%s is closed before the end of the value; within the text it is written %s", name, inside)}
}

// scanner reads YAML as far as is needed to tell which quotes open a text.
type scanner struct {
	data   []byte
	at     int
	within bool // a plain text, in which quotes mean nothing
	depth  int  // of open brackets, between which commas and brackets end a plain text
	colon  bool // the entry has one on this line
	wrong  found
}

// token moves on by one character, or to the end of what has no quotes (a
// comment, a block of text). It returns true where a quote opens a text.
func (s *scanner) token() (quote bool) {
	c := s.data[s.at]
	switch {
	case c == '\n':
		s.within, s.colon = false, false
	case bytes.IndexByte([]byte("[]{},"), c) >= 0 && (s.depth > 0 || !s.within):
		s.bracket(c)
	case c == ' ' || c == '\t' || c == '\r':
	case c == '#' && (s.at == 0 || strings.IndexByte(" \t\n", s.data[s.at-1]) >= 0):
		s.skipLine()
		return false
	case c == ':' && s.followed(" \t\r\n"):
		if s.colon {
			s.wrong = found{s.at, secondColon}
		}
		s.within, s.colon = false, len(s.before()) > 0 // else it is of a key on lines of its own
	case !s.within:
		return s.begin(c)
	}
	s.next()
	return false
}

// begin looks at the first character of a value or key.
func (s *scanner) begin(c byte) (quote bool) {
	switch {
	case c == '"' || c == '\'':
		return true
	case c == '|' || c == '>':
		s.skipBlock()
	case (c == '-' || c == '?') && s.followed(" \t\r\n"):
		s.next()
	case c == '&' || c == '!': // an anchor or a tag before the value
		for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) < 0 {
			s.at++
		}
	default:
		s.within = true
		s.next()
	}
	return false
}

func (s *scanner) next() {
	_, size := utf8.DecodeRune(s.data[s.at:])
	s.at += size
}

// bracket takes note of what begins, divides or ends a list or mapping in brackets.
func (s *scanner) bracket(c byte) {
	s.within, s.colon = false, false
	switch c {
	case '[', '{':
		s.depth++
	case ']', '}':
		s.depth = max(0, s.depth-1)
	}
	if !bytes.HasPrefix(s.data[s.at:], []byte("{%")) {
		return
	}
	s.wrong = found{s.at, unquoted}
	if len(s.before()) == 0 {
		s.wrong.message = aroundParts
	}
}

// before is what stands on the line so far, without its indentation.
func (s *scanner) before() []byte {
	return bytes.TrimLeft(s.data[1+bytes.LastIndexByte(s.data[:s.at], '\n'):s.at], " \t")
}

func (s *scanner) followed(by string) bool {
	return s.at+1 >= len(s.data) || strings.IndexByte(by, s.data[s.at+1]) >= 0
}

func (s *scanner) skipLine() {
	if i := bytes.IndexByte(s.data[s.at:], '\n'); i >= 0 {
		s.at += i
		return
	}
	s.at = len(s.data)
}

// skipBlock leaves out a block of text: all lines that are indented deeper than
// the one on which it begins.
func (s *scanner) skipBlock() {
	begin := 1 + bytes.LastIndexByte(s.data[:s.at], '\n')
	deep := indented(s.data[begin:])
	for {
		s.skipLine()
		if s.at >= len(s.data) {
			return
		}
		next := s.data[s.at+1:]
		if i := bytes.IndexByte(next, '\n'); i >= 0 {
			next = next[:i]
		}
		if len(bytes.TrimSpace(next)) > 0 && indented(next) <= deep {
			return
		}
		s.at++
	}
}

func indented(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }

// quoted moves behind the quoted text that opens here, and reports whether it
// is closed.
func (s *scanner) quoted() bool {
	quote := s.data[s.at]
	for s.at++; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '\\' && quote == '"':
			s.at++
		case c == quote && quote == '\'' && s.at+1 < len(s.data) && s.data[s.at+1] == '\'':
			s.at++ // '' is one quote
		case c == quote:
			s.at++
			return true
		}
	}
	s.at = len(s.data)
	return false
}
