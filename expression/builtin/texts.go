package builtin

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/expression/python"
)

// textFilters take text, or anything as text, and give text.
func textFilters() map[string]python.Filter {
	plain := func(f func(string) string) python.Filter {
		return func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			text := s.Text(in)
			s.Memory(5 * len(text))
			return f(text)
		}
	}
	// same keeps escaped text escaped.
	same := func(f func(string) string) python.Filter {
		plain := plain(f)
		return func(s *python.State, in any, a *python.Args) any { return python.Like(in, plain(s, in, a).(string)) }
	}
	return map[string]python.Filter{
		"upper":      same(python.Upper),
		"lower":      same(python.Lower),
		"capitalize": same(python.Capitalize),
		"title":      plain(python.TitleWords),
		"escape": func(s *python.State, in any, a *python.Args) any {
			if m, ok := in.(python.Markup); ok {
				a.Bind()
				return m
			}
			return python.Markup(plain(python.Escaped)(s, in, a).(string))
		},
		"trim": func(s *python.State, in any, a *python.Args) any {
			chars := python.Or(a.Bind("chars?")[0], nil)
			s.Unescaped(in, chars)
			return python.Like(in, python.Trim(s.Text(in), chars, a, true, true))
		},
		"wordcount": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			return int64(len(strings.FieldsFunc(s.Text(in), func(r rune) bool { return !isWord(r) })))
		},
		"replace": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("old", "new", "count?")
			if v[2] == nil {
				v[2] = python.Absent{}
			}
			return s.Replace(s.Text(in), s.Text(v[0]), s.Text(v[1]), a.Count(v[2], -1))
		},
		"truncate": truncateFilter,
		"indent":   indentFilter,
		"urlencode": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			if !python.IsText(in) {
				if _, several := python.Length(python.Defined(in)); several {
					s.Fail("urlencode takes text, not %s", python.Describe(in))
				}
			}
			text := s.Text(in)
			s.Memory(3 * len(text))
			return urlEncode(text)
		},
		"format": func(s *python.State, in any, a *python.Args) any {
			if len(a.Named) > 0 && len(a.Positional) > 0 {
				s.Fail("format takes arguments with names or without, not both")
			}
			if len(a.Named) > 0 {
				return s.Printf(in, s.Text(in), a.Named)
			}
			return s.Printf(in, s.Text(in), python.Tuple(a.Positional))
		},
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func truncateFilter(s *python.State, in any, a *python.Args) any {
	v := a.Bind("length?", "killwords?", "end?", "leeway?")
	if v[3] == nil {
		v[3] = python.Absent{}
	}
	size, end, leeway := a.Count(v[0], 255), a.String(v[2], "..."), a.Count(v[3], 5)
	text := a.String(in, "")
	s.Unescaped(in, end)
	s.Memory(4 * len(text))
	runes := []rune(text)
	tail := int64(utf8.RuneCountInString(end))
	if size < tail || leeway < 0 {
		s.Fail("truncate takes a length from that of its end, %d, and a leeway from 0", tail)
	}
	if int64(len(runes)) <= size+leeway {
		return in
	}
	cut := string(runes[:size-tail])
	if !a.Flag(v[1], false) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return python.Like(in, cut+end)
}

func indentFilter(s *python.State, in any, a *python.Args) any {
	v := a.Bind("width?", "first?", "blank?")
	prefix, ok := python.TextOf(python.Defined(python.Or(v[0], int64(4))))
	if !ok {
		width := max(a.Count(v[0], 4), 0)
		s.Times(width, 1)
		prefix = strings.Repeat(" ", int(width))
	}
	first, blank := a.Flag(v[1], false), a.Flag(v[2], false)
	text := a.String(in, "")
	lines := python.SplitLines(text+"\n", false)
	s.Memory(len(text) + 16*len(lines))
	s.Times(int64(len(lines)), int64(len(prefix)))
	for i := range lines {
		if (i == 0 && first) || (i > 0 && (blank || lines[i] != "")) {
			lines[i] = prefix + lines[i]
		}
	}
	return python.Like(in, strings.Join(lines, "\n"))
}

// urlEncode quotes text for the path of a URL.
func urlEncode(text string) string {
	return strings.NewReplacer("%7E", "~", "+", "%20", "%2F", "/").Replace(url.QueryEscape(text))
}
