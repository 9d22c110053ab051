package expression

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilters take text, or anything as text, and give text.
func textFilters() map[string]filter {
	plain := func(f func(string) string) filter {
		return func(s *state, in any, a *args) any {
			a.bind()
			text := s.text(in)
			s.memory(5 * len(text))
			return f(text)
		}
	}
	// same keeps escaped text escaped.
	same := func(f func(string) string) filter {
		plain := plain(f)
		return func(s *state, in any, a *args) any { return like(in, plain(s, in, a).(string)) }
	}
	return map[string]filter{
		"upper":      same(upper),
		"lower":      same(lower),
		"capitalize": same(capitalize),
		"title":      plain(titleWords),
		"escape": func(s *state, in any, a *args) any {
			if m, ok := in.(markup); ok {
				a.bind()
				return m
			}
			return markup(plain(escaped)(s, in, a).(string))
		},
		"trim": func(s *state, in any, a *args) any {
			chars := or(a.bind("chars?")[0], nil)
			s.unescaped(in, chars)
			return like(in, trim(s.text(in), chars, a, true, true))
		},
		"wordcount": func(s *state, in any, a *args) any {
			a.bind()
			return int64(len(strings.FieldsFunc(s.text(in), func(r rune) bool { return !isWord(r) })))
		},
		"replace": func(s *state, in any, a *args) any {
			v := a.bind("old", "new", "count?")
			if v[2] == nil {
				v[2] = absent{}
			}
			return s.replace(s.text(in), s.text(v[0]), s.text(v[1]), a.count(v[2], -1))
		},
		"truncate": truncateFilter,
		"indent":   indentFilter,
		"urlencode": func(s *state, in any, a *args) any {
			a.bind()
			if !isText(in) {
				if _, several := length(defined(in)); several {
					s.fail("urlencode takes text, not %s", describe(in))
				}
			}
			text := s.text(in)
			s.memory(3 * len(text))
			return urlEncode(text)
		},
		"format": func(s *state, in any, a *args) any {
			if len(a.named) > 0 && len(a.positional) > 0 {
				s.fail("format takes arguments with names or without, not both")
			}
			if len(a.named) > 0 {
				return s.printf(in, s.text(in), a.named)
			}
			return s.printf(in, s.text(in), tuple(a.positional))
		},
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// replace is Python's str.replace; a negative count replaces all.
func (s *state) replace(text, old, with string, count int64) string {
	n := int64(strings.Count(text, old))
	if count >= 0 {
		n = min(n, count)
	}
	s.work(len(text) / 16)
	s.memory(len(text))
	s.times(n, int64(len(with)))
	return strings.Replace(text, old, with, int(n))
}

func trim(text string, chars any, a *args, left, right bool) string {
	cut := isSpace
	if chars != nil {
		set := a.string(chars, "")
		cut = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	a.s.work(len(text) / 16)
	if left {
		text = strings.TrimLeftFunc(text, cut)
	}
	if right {
		text = strings.TrimRightFunc(text, cut)
	}
	return text
}

func truncateFilter(s *state, in any, a *args) any {
	v := a.bind("length?", "killwords?", "end?", "leeway?")
	if v[3] == nil {
		v[3] = absent{}
	}
	size, end, leeway := a.count(v[0], 255), a.string(v[2], "..."), a.count(v[3], 5)
	text := a.string(in, "")
	s.unescaped(in, end)
	s.memory(4 * len(text))
	runes := []rune(text)
	tail := int64(utf8.RuneCountInString(end))
	if size < tail || leeway < 0 {
		s.fail("truncate takes a length from that of its end, %d, and a leeway from 0", tail)
	}
	if int64(len(runes)) <= size+leeway {
		return in
	}
	cut := string(runes[:size-tail])
	if !a.flag(v[1], false) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return like(in, cut+end)
}

func indentFilter(s *state, in any, a *args) any {
	v := a.bind("width?", "first?", "blank?")
	prefix, ok := textOf(defined(or(v[0], int64(4))))
	if !ok {
		width := max(a.count(v[0], 4), 0)
		s.times(width, 1)
		prefix = strings.Repeat(" ", int(width))
	}
	first, blank := a.flag(v[1], false), a.flag(v[2], false)
	text := a.string(in, "")
	lines := splitLines(text+"\n", false)
	s.memory(len(text) + 16*len(lines))
	s.times(int64(len(lines)), int64(len(prefix)))
	for i := range lines {
		if (i == 0 && first) || (i > 0 && (blank || lines[i] != "")) {
			lines[i] = prefix + lines[i]
		}
	}
	return like(in, strings.Join(lines, "\n"))
}

// isSpace is Python's isspace of a character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// splitLines is Python's str.splitlines.
func splitLines(text string, keep bool) []string {
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

// urlEncode quotes text for the path of a URL.
func urlEncode(text string) string {
	return strings.NewReplacer("%7E", "~", "+", "%20", "%2F", "/").Replace(url.QueryEscape(text))
}
