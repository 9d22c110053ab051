package expression

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is Python's str.format.
func (s *state) format(text string, a *args) string {
	var b strings.Builder
	auto := 0
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
			s.fail("the format has a } without a {")
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			s.fail("the format has a { without a }")
		}
		end += i
		out := s.field(text[i+1:end], a, &auto)
		s.memory(len(out))
		b.WriteString(out)
		i = end + 1
	}
	s.memory(len(text))
	return b.String()
}

// field formats what stands between the braces of a format.
func (s *state) field(field string, a *args, auto *int) string {
	name, format, _ := strings.Cut(field, ":")
	if strings.ContainsAny(name, ".[!") || strings.Contains(format, "{") {
		s.fail("the format has {%s}; what is in braces is a number or a name, and how to format it", field)
	}
	if v, ok := a.named[name]; ok {
		return s.formatted(s.parseSpec(format), defined(v))
	}
	i, err := strconv.Atoi(name)
	switch {
	case name == "":
		i = *auto
		*auto++
	case err != nil:
		s.fail("the format needs the value %q", name)
	}
	if i < 0 || i >= len(a.positional) {
		s.fail("the format needs more than %d values", len(a.positional))
	}
	return s.formatted(s.parseSpec(format), defined(a.positional[i]))
}

func (s *state) parseSpec(text string) spec {
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
		s.fail("the format specification ends in %q", text)
	}
	if text != "" {
		f.verb = text[0]
	}
	return f
}

// formatted formats a value as str.format does.
func (s *state) formatted(f spec, v any) string {
	align := func(standard byte) {
		if f.align == 0 {
			f.align = standard
		}
	}
	_, isBool := v.(bool)
	switch n := v.(type) {
	case int64, bool:
		if isBool && f.verb == 0 {
			break
		}
		align('>')
		if f.verb == 0 || f.verb == 'n' {
			f.verb = 'd'
		}
		if strings.IndexByte("dxXobc", f.verb) >= 0 {
			return s.number(f, n)
		}
		if strings.IndexByte("eEfFgG%", f.verb) >= 0 {
			return s.number(f, n)
		}
		s.fail("a number has no format %q", string(f.verb))
	case float64:
		align('>')
		if f.verb == 0 || strings.IndexByte("eEfFgGn%", f.verb) >= 0 {
			return s.number(f, n)
		}
		s.fail("a number with decimals has no format %q", string(f.verb))
	}
	if f.verb != 0 && f.verb != 's' {
		s.fail("%s has no format %q", describe(v), string(f.verb))
	}
	align('<')
	f.zero = false
	return s.aligned(f, "", s.cut(s.text(v), f.precision))
}
