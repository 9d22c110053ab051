package python

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// spec is a format specification: of printf style after "%", or of
// str.format after ":".
type spec struct {
	fill      string
	align     byte // '<', '>', '^', '=' or 0
	sign      byte // '+', ' ' or 0
	alternate bool
	zero      bool
	width     int64
	grouping  string
	precision int64 // -1 is none
	verb      byte  // 0 is none
}

// formatWidth bounds widths and precisions.
const formatWidth = 1 << 20

// Printf is Python's % operator on text.
func (s *State) Printf(of any, text string, v any) string {
	if _, ok := of.(Markup); ok {
		s.Fail("a format is not known for escaped text; make it plain text first with ~ ''")
	}
	if g, ok := v.(*Group); ok {
		v = Tuple{g.Grouper, g.List}
	}
	args, isTuple := v.(Tuple)
	if !isTuple {
		args = Tuple{v}
	}
	next, keyed := 0, false
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "%")
		b.WriteString(before)
		if text = rest; !found {
			break
		}
		key, hasKey := s.printfKey(&text)
		f := s.printfSpec(&text, hasKey)
		if f.verb == '%' {
			b.WriteByte('%')
			continue
		}
		var value any
		switch {
		case hasKey:
			keyed = true
			var ok bool
			if value, ok = Lookup(v, key); !ok {
				value = s.Missing(v, key, nil)
			}
		case next < len(args):
			value = args[next]
			next++
		default:
			s.Fail("the format needs more than %d values", len(args))
		}
		out := s.convert(f, Defined(value))
		s.Memory(len(out))
		b.WriteString(out)
	}
	switch v.(type) {
	case map[string]any, *Dict:
	default:
		if !keyed && next < len(args) {
			s.Fail("the format uses only %d of %d values", next, len(args))
		}
	}
	s.Memory(b.Len())
	return b.String()
}

// printfKey takes a key in parentheses off a format.
func (s *State) printfKey(text *string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(*text, "(")
	if !ok {
		return "", false
	}
	if key, *text, ok = strings.Cut(rest, ")"); !ok {
		s.Fail("the format has an unclosed %%(")
	}
	return key, true
}

// printfSpec takes flags, width, precision and verb off a format.
func (s *State) printfSpec(text *string, hasKey bool) spec {
	verb := strings.TrimLeft(*text, "-+ #0")
	flags := (*text)[:len(*text)-len(verb)]
	has := func(flag string) bool { return strings.Contains(flags, flag) }
	f := spec{fill: " ", precision: -1, align: '>', alternate: has("#"), zero: has("0")}
	if has("-") {
		f.align = '<'
	}
	if has("+") {
		f.sign = '+'
	} else if has(" ") {
		f.sign = ' '
	}
	i := 0
	f.width, i = s.digits(verb, 0)
	if i < len(verb) && verb[i] == '.' {
		f.precision, i = s.digits(verb, i+1)
	}
	if i >= len(verb) {
		s.Fail("the format ends within a %%")
	}
	f.verb = verb[i]
	if f.verb == '%' && (i > 0 || flags != "" || hasKey) {
		s.Fail("the format has a %%%% with something between")
	}
	*text = verb[i+1:]
	return f
}

func (s *State) digits(text string, i int) (int64, int) {
	n := int64(0)
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if n = n*10 + int64(text[i]-'0'); n > formatWidth {
			Throw(&LimitError{Message: "the width of a format is larger than " + strconv.Itoa(formatWidth)})
		}
	}
	return n, i
}

// convert formats one value in printf style.
func (s *State) convert(f spec, v any) string {
	switch f.verb {
	case 's', 'r', 'a':
		text := s.Text(v)
		if f.verb != 's' {
			text = s.repr(v)
		}
		if f.verb == 'a' && strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
			s.Fail("%%a is not known for text beyond ASCII")
		}
		f.zero = false
		return s.aligned(f, "", s.cut(text, f.precision))
	case 'c':
		f.zero = false
		return s.aligned(f, "", s.character(v))
	case 'd', 'i', 'u':
		n, ok := Float(v)
		if !ok {
			s.Fail("%%%c takes a number, not %s", f.verb, Describe(v))
		}
		if _, isFloat := v.(float64); isFloat {
			v = s.Truncate(n)
		}
		f.verb = 'd'
		return s.number(f, v)
	case 'x', 'X', 'o':
		s.Integer(v, "%"+string(f.verb)+" takes")
		return s.number(f, v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if _, ok := Float(v); !ok {
			s.Fail("%%%c takes a number, not %s", f.verb, Describe(v))
		}
		return s.number(f, v)
	}
	s.Fail("the format has an unknown %%%c", f.verb)
	return ""
}

// character is the text of one character, given as text or by its number.
func (s *State) character(v any) string {
	if text, ok := TextOf(v); ok && utf8.RuneCountInString(text) == 1 {
		return text
	}
	i, ok := Integer(v)
	if !ok || i < 0 || i > unicode.MaxRune || !utf8.ValidRune(rune(i)) {
		s.Fail("%%c takes one character, not %s", ShortRepr(v))
	}
	return string(rune(i))
}

func (s *State) cut(text string, precision int64) string {
	if precision < 0 || int64(len(text)) <= precision {
		return text
	}
	s.Memory(4 * len(text))
	runes := []rune(text)
	return string(runes[:min(precision, int64(len(runes)))])
}

// number formats a number by its verb.
func (s *State) number(f spec, v any) string {
	if f.precision > formatWidth || f.width > formatWidth {
		Throw(&LimitError{Message: "the width of a format is larger than " + strconv.Itoa(formatWidth)})
	}
	var digits, prefix string
	negative := false
	switch f.verb {
	case 'd', 'x', 'X', 'o', 'b', 'c':
		i, _ := Integer(v)
		negative = i < 0
		base := map[byte]int{'d': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2, 'c': 10}[f.verb]
		digits = strings.TrimPrefix(strconv.FormatInt(i, base), "-")
		if f.alternate && f.verb != 'd' {
			prefix = "0" + string(f.verb)
		}
		if f.verb == 'X' {
			digits = strings.ToUpper(digits)
		}
		if missing := f.precision - int64(len(digits)); missing > 0 {
			s.Times(missing, 1)
			digits = strings.Repeat("0", int(missing)) + digits
		}
	default:
		n, _ := Float(v)
		negative = math.Signbit(n)
		digits = s.floatDigits(f, math.Abs(n))
	}
	if f.grouping != "" {
		digits = group3(digits, f.grouping)
	}
	sign := ""
	switch {
	case negative:
		sign = "-"
	case f.sign != 0:
		sign = string(f.sign)
	}
	return s.aligned(f, sign+prefix, digits)
}

func (s *State) floatDigits(f spec, n float64) string {
	if f.verb == 0 && f.precision < 0 {
		return FloatText(n)
	}
	precision := f.precision
	if precision < 0 {
		precision = 6
	}
	s.Memory(int(precision) + 320)
	verb, after := string(f.verb), ""
	switch f.verb {
	case '%':
		if n, verb, after = n*100, "f", "%"; math.IsInf(n, 0) {
			s.Fail("the number is too large for a percentage")
		}
	case 'n', 0:
		verb = "g"
	}
	if f.alternate {
		verb = "#.*" + verb
	} else {
		verb = ".*" + verb
	}
	text := fmt.Sprintf("%"+verb, int(precision), n) + after
	if f.verb == 0 {
		// This one turns to exponents one digit earlier than g does, so that
		// there is room for a decimal.
		digits := strconv.FormatFloat(n, 'e', int(max(precision, 1))-1, 64)
		mantissa, exponent, _ := strings.Cut(digits, "e")
		if e, _ := strconv.Atoi(exponent); n != 0 && e == int(max(precision, 1))-1 {
			if strings.Contains(mantissa, ".") {
				mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
			}
			text = mantissa + "e" + exponent
		}
	}
	if f.verb == 0 && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func group3(digits, separator string) string {
	end := strings.IndexAny(digits, ".e%")
	if end < 0 {
		end = len(digits)
	}
	var b strings.Builder
	for i := range end {
		if i > 0 && (end-i)%3 == 0 {
			b.WriteString(separator)
		}
		b.WriteByte(digits[i])
	}
	return b.String() + digits[end:]
}

// aligned puts sign and digits into the width.
func (s *State) aligned(f spec, sign, text string) string {
	missing := f.width - int64(utf8.RuneCountInString(sign)+utf8.RuneCountInString(text))
	if missing <= 0 {
		return sign + text
	}
	if f.width > formatWidth {
		Throw(&LimitError{Message: "the width of a format is larger than " + strconv.Itoa(formatWidth)})
	}
	s.Times(missing, int64(len(f.fill)))
	if f.zero && f.align != '<' {
		return sign + strings.Repeat("0", int(missing)) + text
	}
	if f.align == '=' {
		return sign + strings.Repeat(f.fill, int(missing)) + text
	}
	return s.pad(sign+text, f.width, f.fill, string(f.align))
}
