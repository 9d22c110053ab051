package python

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is Python's str.format.
func (s *State) format(text string, a *Args) string {
	var b strings.Builder
	auto := 0 // -1 once values are numbered
	for i := 0; i < len(text); {
		j := strings.IndexAny(text[i:], "{}")
		if j < 0 {
			b.WriteString(text[i:])
			break
		}
		b.WriteString(text[i : i+j])
		i += j
		if i+1 < len(text) && text[i+1] == text[i] {
			b.WriteByte(text[i])
			i += 2
			continue
		}
		if text[i] == '}' {
			s.Fail("the format has a } without a {")
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			s.Fail("the format has a { without a }")
		}
		end += i
		out := s.field(text[i+1:end], a, &auto)
		s.Memory(len(out))
		b.WriteString(out)
		i = end + 1
	}
	s.Memory(len(text))
	return b.String()
}

// field formats what stands between the braces of a format.
func (s *State) field(field string, a *Args, auto *int) string {
	name, format, _ := strings.Cut(field, ":")
	if strings.ContainsAny(name, ".[!") || strings.Contains(format, "{") {
		s.Fail("the format has {%s}; what is in braces is a number or a name, and how to format it", field)
	}
	var v any
	if named, ok := a.Named[name]; ok && strings.Trim(name, "0123456789") != "" {
		v = Defined(named)
	} else {
		v = Defined(a.Positional[s.fieldIndex(name, a, auto)])
	}
	if format == "" {
		return s.Text(v)
	}
	return s.formatted(s.parseSpec(format), v)
}

// fieldIndex is which value a field without a name takes.
func (s *State) fieldIndex(name string, a *Args, auto *int) int {
	i, err := strconv.Atoi(name)
	switch {
	case name != "" && (err != nil || strings.Trim(name, "0123456789") != ""):
		s.Fail("the format needs the value %q", name)
	case (name == "") != (*auto >= 0) && *auto != 0:
		s.Fail("the format has values with a number and without")
	case name == "":
		i = *auto
		*auto++
	default:
		*auto = -1
	}
	if i < 0 || i >= len(a.Positional) {
		s.Fail("the format needs more than %d values", len(a.Positional))
	}
	return i
}

func (s *State) parseSpec(text string) spec {
	f := spec{fill: " ", precision: -1}
	if r, n := utf8.DecodeRuneInString(text); n > 0 && len(text) > n && strings.IndexByte("<>^=", text[n]) >= 0 {
		f.fill, f.align = string(r), text[n]
		text = text[n+1:]
	} else if text != "" && strings.IndexByte("<>^=", text[0]) >= 0 {
		f.align = text[0]
		text = text[1:]
	}
	if text != "" && strings.IndexByte("+- ", text[0]) >= 0 {
		if text[0] != '-' {
			f.sign = text[0]
		}
		text = text[1:]
	}
	if strings.HasPrefix(text, "#") {
		f.alternate = true
		text = text[1:]
	}
	if strings.HasPrefix(text, "0") {
		f.zero = f.align == 0
		text = text[1:]
	}
	i := 0
	f.width, i = s.digits(text, 0)
	text = text[i:]
	if text != "" && (text[0] == ',' || text[0] == '_') {
		f.grouping = text[:1]
		text = text[1:]
	}
	if strings.HasPrefix(text, ".") {
		f.precision, i = s.digits(text, 1)
		text = text[i:]
	}
	if len(text) > 1 {
		s.Fail("the format specification ends in %q", text)
	}
	if text != "" {
		f.verb = text[0]
	}
	return f
}

// formatted formats a value as str.format does.
func (s *State) formatted(f spec, v any) string {
	if f.grouping != "" && (f.zero || f.align == '=') {
		s.Fail("a format with a %s and zeros before the digits is not provided", f.grouping)
	}
	standard := byte('>')
	if IsText(v) {
		standard = '<'
	}
	numeric := f.sign != 0 || f.alternate || f.zero || f.grouping != "" || f.align == '='
	if f.align == 0 {
		f.align = standard
	}
	what := Describe(v)
	switch v.(type) {
	case int64, bool:
		return s.formattedWhole(f, v)
	case float64:
		if strings.IndexByte("eEfFgGn%", f.verb) >= 0 || f.verb == 0 && !f.alternate {
			return s.number(f, v)
		}
		what = "a number with decimals"
	case string, Markup:
		if (f.verb == 0 || f.verb == 's') && !numeric {
			return s.aligned(f, "", s.cut(s.Text(v), f.precision))
		}
	}
	s.Fail("%s has no such format", what)
	return ""
}

func (s *State) formattedWhole(f spec, v any) string {
	if f.verb == 0 || f.verb == 'n' {
		f.verb = 'd'
	}
	switch {
	case f.verb == 'c' && f.sign == 0 && !f.alternate && f.grouping == "":
		return s.aligned(f, "", s.character(v))
	case strings.IndexByte("dxXob", f.verb) >= 0 && f.precision < 0 && (f.grouping == "" || f.verb == 'd'),
		strings.IndexByte("eEfFgG%", f.verb) >= 0:
		return s.number(f, v)
	}
	s.Fail("a whole number has no such format")
	return ""
}
