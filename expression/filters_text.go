package expression

import (
	"html"
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
			s.memory(2 * len(text))
			return f(text)
		}
	}
	escape := plain(func(text string) string {
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(text)
	})
	return map[string]filter{
		"upper":       plain(strings.ToUpper),
		"lower":       plain(strings.ToLower),
		"capitalize":  plain(capitalize),
		"title":       plain(titleWords),
		"escape":      escape,
		"forceescape": escape,
		"striptags":   plain(stripTags),
		"trim": func(s *state, in any, a *args) any {
			return trim(s.text(in), or(a.bind("chars?")[0], nil), a, true, true)
		},
		"wordcount": func(s *state, in any, a *args) any {
			a.bind()
			return int64(len(strings.FieldsFunc(s.text(in), func(r rune) bool { return !isWord(r) })))
		},
		"replace": func(s *state, in any, a *args) any {
			v := a.bind("old", "new", "count?")
			return s.replace(s.text(in), s.text(v[0]), s.text(v[1]), a.count(v[2], -1))
		},
		"truncate": truncateFilter,
		"center": func(s *state, in any, a *args) any {
			return s.pad(s.text(in), a.count(a.bind("width?")[0], 80), " ", "center")
		},
		"indent":    indentFilter,
		"wordwrap":  wordwrapFilter,
		"urlencode": urlencodeFilter,
		"xmlattr":   func(s *state, in any, a *args) any { return xmlattr(s, in, a, escape) },
		"format": func(s *state, in any, a *args) any {
			if len(a.named) > 0 && len(a.positional) > 0 {
				s.fail("format takes arguments with names or without, not both")
			}
			if len(a.named) > 0 {
				return s.printf(s.text(in), a.named)
			}
			return s.printf(s.text(in), tuple(a.positional))
		},
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

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

func capitalize(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return ""
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(text[n:])
}

// titleWords capitalizes after spaces, dashes and opening brackets.
func titleWords(text string) string {
	var b strings.Builder
	start := true
	for _, r := range text {
		switch {
		case r == '-' || unicode.IsSpace(r) || strings.ContainsRune("({[<", r):
			start = true
			b.WriteRune(r)
		case start:
			start = false
			b.WriteRune(unicode.ToUpper(r))
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

func trim(text string, chars any, a *args, left, right bool) string {
	cut := unicode.IsSpace
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

func stripTags(text string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			break
		}
		end := ">"
		if strings.HasPrefix(text[i:], "<!--") {
			end = "-->"
		}
		j := strings.Index(text[i:], end)
		if j < 0 {
			break
		}
		b.WriteString(text[:i])
		text = text[i+j+len(end):]
	}
	b.WriteString(text)
	return html.UnescapeString(strings.Join(strings.Fields(b.String()), " "))
}

func truncateFilter(s *state, in any, a *args) any {
	v := a.bind("length?", "killwords?", "end?", "leeway?")
	size, end, leeway := a.count(v[0], 255), a.string(v[2], "..."), a.count(v[3], 5)
	text := s.text(in)
	s.memory(4 * len(text))
	runes := []rune(text)
	tail := int64(utf8.RuneCountInString(end))
	if size < tail || leeway < 0 {
		s.fail("truncate takes a length from that of its end, %d, and a leeway from 0", tail)
	}
	if int64(len(runes)) <= size+leeway {
		return text
	}
	cut := string(runes[:size-tail])
	if !a.flag(v[1], false) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end
}

func indentFilter(s *state, in any, a *args) any {
	v := a.bind("width?", "first?", "blank?")
	prefix, ok := or(v[0], int64(4)).(string)
	if !ok {
		width := max(a.count(v[0], 4), 0)
		s.times(width, 1)
		prefix = strings.Repeat(" ", int(width))
	}
	first, blank := a.flag(v[1], false), a.flag(v[2], false)
	text := s.text(in)
	lines := splitLines(text+"\n", false)
	s.memory(len(text) + 16*len(lines))
	s.times(int64(len(lines)), int64(len(prefix)))
	for i := range lines {
		if (i == 0 && first) || (i > 0 && (blank || lines[i] != "")) {
			lines[i] = prefix + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

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

func wordwrapFilter(s *state, in any, a *args) any {
	v := a.bind("width?", "break_long_words?", "wrapstring?", "break_on_hyphens?")
	width := int(a.count(v[0], 79))
	if width < 1 {
		s.fail("wordwrap takes a width from 1")
	}
	breakLong, hyphens := a.flag(v[1], true), a.flag(v[3], true)
	separator := "\n"
	if given := or(v[2], nil); given != nil {
		separator = a.string(given, "")
	}
	text := s.text(in)
	s.memory(40 * len(text))
	var lines []string
	for _, paragraph := range splitLines(text, false) {
		wrapped := wrap(paragraph, width, breakLong, hyphens)
		if len(wrapped) == 0 {
			wrapped = []string{""}
		}
		lines = append(lines, wrapped...)
	}
	s.times(int64(len(lines)), int64(len(separator)))
	return strings.Join(lines, separator)
}

// wrap breaks one paragraph as Python's textwrap does.
func wrap(text string, width int, breakLong, hyphens bool) []string {
	chunks := wrapChunks(text, hyphens)
	var lines []string
	for i := 0; i < len(chunks); {
		if len(lines) > 0 && strings.TrimSpace(chunks[i]) == "" {
			i++
			continue
		}
		line, n := "", 0
		for i < len(chunks) && n+utf8.RuneCountInString(chunks[i]) <= width {
			line += chunks[i]
			n += utf8.RuneCountInString(chunks[i])
			i++
		}
		if i < len(chunks) && utf8.RuneCountInString(chunks[i]) > width {
			runes := []rune(chunks[i])
			switch room := width - n; {
			case breakLong && room > 0:
				line += string(runes[:room])
				chunks[i] = string(runes[room:])
			case n == 0:
				line = chunks[i]
				i++
			}
		}
		if trimmed := strings.TrimRightFunc(line, unicode.IsSpace); trimmed != "" {
			lines = append(lines, trimmed)
		}
	}
	return lines
}

// wrapChunks splits text where a line may break: around whitespace and after
// the hyphens within words.
func wrapChunks(text string, hyphens bool) []string {
	var chunks []string
	runes := []rune(text)
	start := 0
	for i := 1; i <= len(runes); i++ {
		cut := i == len(runes) || unicode.IsSpace(runes[i]) != unicode.IsSpace(runes[i-1])
		if !cut && hyphens && runes[i-1] == '-' && i >= 3 {
			cut = unicode.IsLetter(runes[i]) && isWord(runes[i-2]) && isWord(runes[i-3])
		}
		if cut {
			chunks = append(chunks, string(runes[start:i]))
			start = i
		}
	}
	return chunks
}

func urlencodeFilter(s *state, in any, a *args) any {
	a.bind()
	quoted := func(v any, query bool) string {
		text := s.text(v)
		s.memory(3 * len(text))
		text = strings.ReplaceAll(url.QueryEscape(text), "%7E", "~")
		if !query {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "+", "%20"), "%2F", "/")
		}
		return text
	}
	if text, ok := defined(in).(string); ok {
		return quoted(text, false)
	}
	keys, values, ok := s.pairs(in)
	if !ok {
		list, isList := items(in)
		if !isList {
			return quoted(in, false)
		}
		for _, item := range list {
			pair := s.iterate(defined(item))
			if len(pair) != 2 {
				s.fail("urlencode takes text, a mapping or a list of pairs")
			}
			keys, values = append(keys, pair[0]), append(values, pair[1])
		}
	}
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = quoted(key, true) + "=" + quoted(values[i], true)
	}
	return strings.Join(parts, "&")
}

func xmlattr(s *state, in any, a *args, escape filter) any {
	space := a.flag(a.bind("autospace?")[0], true)
	keys, values, ok := s.pairs(defined(in))
	if !ok {
		s.fail("xmlattr takes a mapping, not %s", describe(in))
	}
	var parts []string
	for i, key := range keys {
		if _, missing := values[i].(*undefined); missing || values[i] == nil {
			continue
		}
		name := s.text(key)
		if strings.ContainsAny(name, " \t\n\f\r/>=") {
			s.fail("%q is not the name of an attribute", name)
		}
		parts = append(parts, s.text(escape(s, key, &args{s: s}))+`="`+s.text(escape(s, values[i], &args{s: s}))+`"`)
	}
	text := strings.Join(parts, " ")
	if space && text != "" {
		text = " " + text
	}
	return text
}
