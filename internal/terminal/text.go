// Package terminal makes texts of others safe to print on a terminal, and tables as wide
// as that.
package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText bounds one piece of foreign text, in bytes: nobody reads more of one
// line, and a line without end must not stop the display.
const MaxText = 8 << 10

// Line makes foreign text safe to print on one line: without escape
// sequences, control characters and direction overrides, as valid UTF-8. Of
// text that overwrites itself with carriage returns, as progress bars do, the
// last version remains.
func Line(s string) string {
	cut := false
	if len(s) > MaxText {
		s, cut = s[:MaxText], true
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size == 1 {
			s = s[:len(s)-1]
		}
	}
	s = Scrub(s)
	if cut {
		s += "…"
	}
	return s
}

// Scrub is Line for text of any length.
func Scrub(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.TrimRight(s, "\r\n")
	s = withoutSequences(s)
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r):
			return -1
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case unicode.Is(unicode.Mc, r):
			return -1 // terminals do not agree on how wide these marks are
		}
		return r
	}, s)
}

func withoutSequences(s string) string {
	var kept strings.Builder
	from := 0
	Sequences([]byte(s), false, func(start, end int) {
		kept.WriteString(s[from:start])
		from = end
	})
	if from == 0 {
		return s
	}
	kept.WriteString(s[from:])
	return kept.String()
}

// Lines is Line for text of several lines; empty lines at its end go.
func Lines(s string) []string {
	s = strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Line(line)
	}
	return lines
}
