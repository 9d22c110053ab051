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
		end := i + 1
		for open := 1; ; end++ {
			if end >= len(text) {
				s.fail("the format has a { without a }")
			}
			switch text[end] {
			case '{':
				open++
			case '}':
				open--
			}
			if open == 0 {
				break
			}
		}
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
	name, conversion, _ := strings.Cut(name, "!")
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	var v any
	switch first, err := strconv.Atoi(name[:end]); {
	case name[:end] == "" || err == nil:
		if name[:end] == "" {
			first = *auto
			*auto++
		}
		if first < 0 || first >= len(a.positional) {
			s.fail("the format needs more than %d values", len(a.positional))
		}
		v = a.positional[first]
	default:
		var ok bool
		if v, ok = a.named[name[:end]]; !ok {
			s.fail("the format needs the value %q", name[:end])
		}
	}
	for rest := name[end:]; rest != ""; {
		if rest[0] == '[' {
			key, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				s.fail("the format has an unclosed [")
			}
			if i, err := strconv.ParseInt(key, 10, 64); err == nil {
				v = s.item(v, i, "")
			} else {
				v = s.item(v, key, "")
			}
			rest = after
			continue
		}
		next := strings.IndexAny(rest[1:], ".[")
		if next < 0 {
			next = len(rest) - 1
		}
		v = s.attribute(v, rest[1:next+1], "")
		rest = rest[next+1:]
	}
	v = defined(v)
	if strings.Contains(format, "{") {
		if strings.Count(format, "{") > 8 {
			s.fail("the format nests too much")
		}
		for {
			open := strings.IndexByte(format, '{')
			if open < 0 {
				break
			}
			closing := strings.IndexByte(format[open:], '}')
			inner := format[open+1 : open+closing]
			if strings.ContainsAny(inner, "{:") {
				s.fail("the format nests too much")
			}
			format = format[:open] + s.field(inner, a, auto) + format[open+closing+1:]
		}
	}
	switch conversion {
	case "":
	case "r", "a":
		v = s.repr(v)
	case "s":
		v = s.text(v)
	default:
		s.fail("the format has an unknown conversion !%s", conversion)
	}
	return s.formatted(s.parseSpec(format), v)
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
