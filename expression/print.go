package expression

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is Python's str(): how a value is put into text.
func (s *state) text(v any) string {
	switch v := defined(v).(type) {
	case string:
		return v
	case markup:
		return string(v)
	case *undefined:
		return ""
	default:
		return s.repr(v)
	}
}

// repr is Python's repr(): how a value is put into the text of a list.
func (s *state) repr(v any) string {
	p := printer{s: s}
	p.value(v, 0)
	return p.String()
}

// shortRepr is repr for messages.
func shortRepr(v any) string {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		text := (&state{steps: 1, bytes: math.MaxInt}).repr(v)
		if utf8.RuneCountInString(text) > 40 {
			text = string([]rune(text)[:40]) + "…"
		}
		return text
	default:
		return describe(v)
	}
}

// printer writes values as Python does, within the bounds of the evaluation.
type printer struct {
	s     *state
	lines bool // JSON in several lines
	strings.Builder
}

func (p *printer) write(text string) {
	p.s.memory(len(text))
	p.WriteString(text)
}

func (p *printer) value(v any, deep int) {
	p.s.work(1)
	p.s.deep(deep)
	switch v := defined(norm(v)).(type) {
	case nil:
		p.write("None")
	case bool:
		if v {
			p.write("True")
		} else {
			p.write("False")
		}
	case int64:
		p.write(strconv.FormatInt(v, 10))
	case float64:
		p.write(floatText(v))
	case string:
		p.write(quote(v))
	case markup:
		p.write("Markup(" + quote(string(v)) + ")")
	case *series:
		p.s.refuse(v, "written as text")
	case []any:
		p.list(v, "[", "]", deep)
	case tuple:
		closing := ")"
		if len(v) == 1 {
			closing = ",)"
		}
		p.list(v, "(", closing, deep)
	case *group:
		p.list([]any{v.grouper, v.list}, "(", ")", deep)
	case *function, *namespace, *loop, *templateBlocks:
		p.s.fail("%s has no text", describe(v))
	case *undefined:
		p.write("Undefined")
	default:
		keys, values, _ := p.s.pairs(v)
		p.write("{")
		for i, key := range keys {
			if i > 0 {
				p.write(", ")
			}
			p.value(key, deep+1)
			p.write(": ")
			p.value(values[i], deep+1)
		}
		p.write("}")
	}
}

func (p *printer) list(list []any, opening, closing string, deep int) {
	p.write(opening)
	for i, item := range list {
		if i > 0 {
			p.write(", ")
		}
		p.value(item, deep+1)
	}
	p.write(closing)
}

// floatText is the shortest text that reads back as the same float, in
// Python's form.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quote writes text as a Python literal.
func quote(text string) string {
	mark := byte('\'')
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte(mark)
	for _, r := range text {
		switch {
		case r == rune(mark) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f || (r > 0x7f && r <= 0xff && !unicode.IsPrint(r)):
			b.WriteString(`\x` + hex(r, 2))
		case !unicode.IsPrint(r) && r <= 0xffff:
			b.WriteString(`\u` + hex(r, 4))
		case !unicode.IsPrint(r):
			b.WriteString(`\U` + hex(r, 8))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(mark)
	return b.String()
}

func hex(r rune, width int) string {
	text := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(text)) + text
}

// json writes a value as Python's json.dumps(sort_keys=True) does, with the
// characters that matter in HTML escaped, as the tojson filter has it.
func (p *printer) json(v any, indent string, deep int) {
	p.s.work(1)
	p.s.deep(deep)
	separator, colon := ", ", ": "
	open := func(bracket string) { p.write(bracket) }
	closing := func(bracket string) { p.write(bracket) }
	if p.lines {
		separator = ",\n" + strings.Repeat(indent, deep+1)
		open = func(bracket string) { p.write(bracket + "\n" + strings.Repeat(indent, deep+1)) }
		closing = func(bracket string) { p.write("\n" + strings.Repeat(indent, deep) + bracket) }
	}
	switch v := defined(norm(v)).(type) {
	case nil:
		p.write("null")
	case bool:
		p.write(strconv.FormatBool(v))
	case int64, float64:
		p.value(v, deep)
	case string:
		p.jsonText(v)
	case markup:
		p.jsonText(string(v))
	default:
		if list, ok := items(v); ok {
			if len(list) == 0 {
				p.write("[]")
				return
			}
			open("[")
			for i, item := range list {
				if i > 0 {
					p.write(separator)
				}
				p.json(item, indent, deep+1)
			}
			closing("]")
			return
		}
		keys, values, ok := p.s.pairs(v)
		if !ok {
			p.s.fail("%s has no JSON form", describe(v))
		}
		if len(keys) == 0 {
			p.write("{}")
			return
		}
		open("{")
		for n, i := range p.s.ordered(keys) {
			if n > 0 {
				p.write(separator)
			}
			switch key := keys[i].(type) {
			case string:
				p.jsonText(key)
			case markup:
				p.jsonText(string(key))
			case nil:
				p.write(`"null"`)
			case bool:
				p.write(strconv.Quote(strconv.FormatBool(key)))
			default:
				p.write(`"`)
				p.value(key, deep)
				p.write(`"`)
			}
			p.write(colon)
			p.json(values[i], indent, deep+1)
		}
		closing("}")
	}
}

func (p *printer) jsonText(text string) {
	p.s.memory(6 * len(text))
	p.WriteByte('"')
	for _, r := range text {
		switch r {
		case '"', '\\':
			p.WriteByte('\\')
			p.WriteRune(r)
		case '\n':
			p.WriteString(`\n`)
		case '\r':
			p.WriteString(`\r`)
		case '\t':
			p.WriteString(`\t`)
		case '\b':
			p.WriteString(`\b`)
		case '\f':
			p.WriteString(`\f`)
		default:
			switch {
			case r > 0xffff:
				r -= 0x10000
				p.WriteString(`\u` + hex(0xd800+r>>10, 4) + `\u` + hex(0xdc00+r&0x3ff, 4))
			case r < 0x20 || r >= 0x7f || strings.ContainsRune("<>&'", r):
				p.WriteString(`\u` + hex(r, 4))
			default:
				p.WriteRune(r)
			}
		}
	}
	p.WriteByte('"')
}
