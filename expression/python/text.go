package python

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Replace is Python's str.replace; a negative count replaces all.
func (s *State) Replace(text, old, with string, count int64) string {
	n := int64(strings.Count(text, old))
	if count >= 0 {
		n = min(n, count)
	}
	s.Work(len(text) / 16)
	s.Memory(len(text))
	s.Times(n, int64(len(with)))
	return strings.Replace(text, old, with, int(n))
}

// Trim is Python's strip, of blanks or, where they are given, of chars.
func Trim(text string, chars any, a *Args, left, right bool) string {
	cut := IsSpace
	if chars != nil {
		set := a.String(chars, "")
		cut = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	a.State.Work(len(text) / 16)
	if left {
		text = strings.TrimLeftFunc(text, cut)
	}
	if right {
		text = strings.TrimRightFunc(text, cut)
	}
	return text
}

// IsSpace is Python's isspace of a character.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// SplitLines is Python's str.splitlines.
func SplitLines(text string, keep bool) []string {
	lines := []string{}
	for text != "" {
		i := strings.IndexFunc(text, func(r rune) bool {
			return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r)
		})
		if i < 0 {
			return append(lines, text)
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		if strings.HasPrefix(text[i:], "\r\n") {
			n = 2
		}
		if keep {
			lines = append(lines, text[:i+n])
		} else {
			lines = append(lines, text[:i])
		}
		text = text[i+n:]
	}
	return lines
}
