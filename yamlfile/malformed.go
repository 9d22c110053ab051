package yamlfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Malformed says what is probably wrong with text that no YAML parser takes,
// where the parser's own words would not help: a tab in the indentation, a quote
// that is not closed, a statement of Jinja2 around parts of the file. line, from
// 1, is where the parser gave up. at is the byte where it begins; message is ""
// when it is none of those.
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
	quote := unclosed(data, start+len(text))
	switch tab := bytes.IndexByte(indentation, '\t'); {
	case quote.message != "" && quote.at <= start+len(indentation):
		return quote.at, quote.message
	case tab >= 0:
		return start + tab, "a tab is in the indentation; YAML is indented with spaces only"
	case bytes.HasPrefix(text[len(indentation):], []byte("{%")):
		return start + len(indentation), "a statement ({% … %}) can not stand around parts of a file, only within one value, which is then in quotes"
	}
	return quote.at, quote.message
}

// found is a quote that is not closed where it was meant to be.
type found struct {
	at      int
	message string
}

// unclosed looks for a quote that is not closed, or is closed by what was meant
// to open another: then that other's text follows at once. Text after end is
// only looked at for the end of what began before.
func unclosed(data []byte, end int) found {
	s := scanner{data: data}
	for s.at < len(data) && s.at < end {
		if !s.token() {
			continue
		}
		opened, quote := s.at, data[s.at]
		closed := s.quoted()
		name := fmt.Sprintf("the %s quote (%c) that opens here", map[byte]string{'"': "double", '\'': "single"}[quote], quote)
		if !closed {
			return found{opened, name + " is not closed"}
		}
		if over := 1 + bytes.Count(data[opened:s.at], []byte("\n")); over > 1 && s.at < len(data) && !strings.ContainsRune(" \t\r\n,:]}", rune(data[s.at])) {
			return found{opened, fmt.Sprintf("%s is not closed before line %d, where the next one ends it", name, 1+bytes.Count(data[:s.at], []byte("\n")))}
		}
	}
	return found{}
}

// scanner reads YAML as far as is needed to tell which quotes open a text.
type scanner struct {
	data   []byte
	at     int
	within bool // a plain text, in which quotes mean nothing
}

// token moves on by one character, or to the end of what has no quotes (a
// comment, a block of text). It returns true where a quote opens a text.
func (s *scanner) token() bool {
	c := s.data[s.at]
	switch {
	case c == '\n' || strings.IndexByte("[]{},", c) >= 0:
		s.within = false
	case c == ' ' || c == '\t' || c == '\r':
	case c == '#' && (s.at == 0 || strings.IndexByte(" \t\n", s.data[s.at-1]) >= 0):
		s.skipLine()
		return false
	case s.within:
		if c == ':' && s.followed(" \t\r\n") {
			s.within = false
		}
	case c == '"' || c == '\'':
		return true
	case c == '|' || c == '>':
		s.skipBlock()
		return false
	case (c == '-' || c == '?' || c == ':') && s.followed(" \t\r\n"):
	case c == '&' || c == '!': // an anchor or a tag before the value
		for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) < 0 {
			s.at++
		}
		return false
	default:
		s.within = true
	}
	_, size := utf8.DecodeRune(s.data[s.at:])
	s.at += size
	return false
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
