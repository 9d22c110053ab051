package python

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Text is Python's str(): how a value is put into text.
func (s *State) Text(v any) string {
	switch v := Defined(v).(type) {
	case string:
		return v
	case Markup:
		return string(v)
	case *Undefined:
		return ""
	default:
		return s.repr(v)
	}
}

// repr is Python's repr(): how a value is put into the text of a list.
func (s *State) repr(v any) string {
	p := printer{s: s}
	p.value(v, 0)
	return p.String()
}

// ShortRepr is repr for messages.
func ShortRepr(v any) string {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return phrase.Cut((&State{steps: 1, bytes: math.MaxInt}).repr(v), 40)
	default:
		return Describe(v)
	}
}

// printer writes values as Python does, within the bounds of the evaluation.
type printer struct {
	s     *State
	lines bool // JSON in several lines
	strings.Builder
}

func (p *printer) write(text string) {
	p.s.Memory(len(text))
	p.WriteString(text)
}

func (p *printer) value(v any, deep int) {
	p.s.Work(1)
	p.s.deep(deep)
	switch v := Defined(Norm(v)).(type) {
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
		p.write(FloatText(v))
	case string:
		p.write(Quote(v))
	case Markup:
		p.write("Markup(" + Quote(string(v)) + ")")
	case *Series:
		p.s.Refuse(v, "written as text")
	case []any:
		p.list(v, "[", "]", deep)
	case Tuple:
		closing := ")"
		if len(v) == 1 {
			closing = ",)"
		}
		p.list(v, "(", closing, deep)
	case *Group:
		p.list([]any{v.Grouper, v.List}, "(", ")", deep)
	case *Function, *Namespace, object:
		p.s.Fail("%s has no text", Describe(v))
	case *Undefined:
		p.write("Undefined")
	default:
		keys, values, _ := p.s.Pairs(v)
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

// FloatText is the shortest text that reads back as the same float, in
// Python's form.
func FloatText(f float64) string {
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

// Quote writes text as a Python literal.
func Quote(text string) string {
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

// JSON is the JSON of a value, in several lines or in one.
func (s *State) JSON(v any, indent string, lines bool) string {
	p := printer{s: s, lines: lines}
	p.json(v, indent, 0)
	return p.String()
}

// json writes a value as Python's json.dumps(sort_keys=True) does, with the
// characters that matter in HTML escaped, as the tojson filter has it.
func (p *printer) json(v any, indent string, deep int) {
	p.s.Work(1)
	p.s.deep(deep)
	separator, colon := ", ", ": "
	open := func(bracket string) { p.write(bracket) }
	closing := func(bracket string) { p.write(bracket) }
	if p.lines {
		separator = ",\n" + strings.Repeat(indent, deep+1)
		open = func(bracket string) { p.write(bracket + "\n" + strings.Repeat(indent, deep+1)) }
		closing = func(bracket string) { p.write("\n" + strings.Repeat(indent, deep) + bracket) }
	}
	switch v := Defined(Norm(v)).(type) {
	case nil:
		p.write("null")
	case bool:
		p.write(strconv.FormatBool(v))
	case int64, float64:
		p.value(v, deep)
	case string:
		p.jsonText(v)
	case Markup:
		p.jsonText(string(v))
	default:
		if list, ok := Items(v); ok {
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
		keys, values, ok := p.s.Pairs(v)
		if !ok {
			p.s.Fail("%s has no JSON form", Describe(v))
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
			case Markup:
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
	p.s.Memory(6 * len(text))
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
