package expression

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// method is what is called as value.name().
type method func(s *state, of any, a *args) any

// methods are those of Python's types, by type and name.
type methods struct {
	text, list, mapping map[string]method
}

func (m methods) of(v any, name string) method {
	switch v.(type) {
	case string:
		return m.text[name]
	case markup:
		return m.marked(name)
	case []any:
		return m.list[name]
	case tuple, *group:
		if name == "count" || name == "index" {
			return m.list[name]
		}
	case map[string]any, *dict:
		return m.mapping[name]
	}
	return nil
}

// pythons are what values have in Python besides the methods above. That such
// a thing is not here must not look as if it were not there.
func pythons(v any, name string) bool {
	if strings.HasPrefix(name, "__") {
		return true
	}
	var names string
	switch v.(type) {
	case string, markup:
		names = "center encode expandtabs format_map isascii isdecimal isidentifier isnumeric isprintable istitle maketrans swapcase translate escape unescape striptags"
	case map[string]any, *dict:
		names = "fromkeys"
	case int64, bool:
		names = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"
	case float64:
		names = "as_integer_ratio conjugate fromhex hex imag is_integer real"
	case *function, *loop, *templateBlocks:
		return true
	case *series:
		names = "start stop step count index isdisjoint mapping close send throw"
	}
	return slices.Contains(strings.Fields(names), name)
}

func builtinMethods() methods {
	m := methods{text: textMethods(), list: listMethods(), mapping: mappingMethods()}
	frozen := func(what string) method {
		return func(s *state, _ any, a *args) any {
			s.fail("%s() would change a %s, which an expression can not; make a new one instead", a.name, what)
			return nil
		}
	}
	for _, name := range []string{"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"} {
		m.list[name] = frozen("list")
	}
	for _, name := range []string{"update", "pop", "popitem", "setdefault", "clear"} {
		m.mapping[name] = frozen("mapping")
	}
	return m
}

func mappingMethods() map[string]method {
	return map[string]method{
		"keys": func(s *state, of any, a *args) any { a.bind(); keys, _, _ := s.pairs(of); return viewOf("keys", keys) },
		"values": func(s *state, of any, a *args) any {
			a.bind()
			_, values, _ := s.pairs(of)
			return viewOf("values", values)
		},
		"items": func(s *state, of any, a *args) any { a.bind(); return viewOf("items", itemList(s, of)) },
		"copy":  func(_ *state, of any, a *args) any { a.bind(); return of },
		"get": func(s *state, of any, a *args) any {
			v := a.bind("key", "default?")
			if !hashable(defined(v[0])) {
				s.fail("%s can not be a key", describe(v[0]))
			}
			if value, ok := lookup(of, defined(v[0])); ok {
				return value
			}
			return or(v[1], nil)
		},
	}
}

func listMethods() map[string]method {
	return map[string]method{
		"copy": func(_ *state, of any, a *args) any { a.bind(); return of },
		"count": func(s *state, of any, a *args) any {
			wanted := defined(a.bind("value")[0])
			n := int64(0)
			for _, item := range s.iterate(of) {
				if s.equal(item, wanted, 0) {
					n++
				}
			}
			return n
		},
		"index": func(s *state, of any, a *args) any {
			wanted := defined(a.bind("value")[0])
			for i, item := range s.iterate(of) {
				if s.equal(item, wanted, 0) {
					return int64(i)
				}
			}
			s.fail("%s is not in the list", shortRepr(wanted))
			return nil
		},
	}
}

func textMethods() map[string]method {
	// on makes a method without arguments.
	on := func(f func(string) any) method {
		return func(s *state, of any, a *args) any {
			a.bind()
			text := of.(string)
			s.work(len(text) / 16)
			s.memory(3 * len(text))
			return f(text)
		}
	}
	all := func(is func(rune) bool) method {
		return on(func(text string) any {
			return text != "" && strings.IndexFunc(text, func(r rune) bool { return !is(r) }) < 0
		})
	}
	cut := func(left, right bool) method {
		return func(_ *state, of any, a *args) any {
			return trim(of.(string), or(a.bind("chars?")[0], nil), a, left, right)
		}
	}
	pad := func(alignment string) method {
		return func(s *state, of any, a *args) any {
			v := a.bind("width", "fillchar?")
			return s.pad(of.(string), a.count(v[0], 0), a.string(v[1], " "), alignment)
		}
	}
	find := func(last, must bool) method {
		return func(s *state, of any, a *args) any {
			text, part := of.(string), a.string(a.bind("sub")[0], "")
			s.work(len(text) / 16)
			i := strings.Index(text, part)
			if last {
				i = strings.LastIndex(text, part)
			}
			if i < 0 && must {
				s.fail("%s is not in the text", shortRepr(part))
			}
			if i < 0 {
				return int64(-1)
			}
			return int64(utf8.RuneCountInString(text[:i]))
		}
	}
	affix := func(has func(text, affix string) bool) method {
		return func(s *state, of any, a *args) any {
			affixes, ok := defined(a.bind("affix")[0]).(tuple)
			if !ok {
				affixes = tuple{a.positional[0]}
			}
			return slices.ContainsFunc(affixes, func(v any) bool { return has(of.(string), a.string(v, "")) })
		}
	}
	partition := func(last bool) method {
		return func(s *state, of any, a *args) any {
			text, sep := of.(string), a.string(a.bind("sep")[0], "")
			if sep == "" {
				s.fail("%s needs a separator that is not empty", a.name)
			}
			i := strings.Index(text, sep)
			if last {
				i = strings.LastIndex(text, sep)
			}
			switch {
			case i >= 0:
				return tuple{text[:i], sep, text[i+len(sep):]}
			case last:
				return tuple{"", "", text}
			default:
				return tuple{text, "", ""}
			}
		}
	}
	return map[string]method{
		"upper":      on(func(text string) any { return upper(text) }),
		"lower":      on(func(text string) any { return lower(text) }),
		"casefold":   on(func(text string) any { return cases.Fold().String(text) }),
		"capitalize": on(func(text string) any { return capitalize(text) }),
		"title":      on(func(text string) any { return titleLetters(text) }),
		"isdigit":    isDigitMethod,
		"isalpha":    all(unicode.IsLetter),
		"isalnum":    all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":    all(isSpace),
		"islower":    on(func(text string) any { return isCase(text, unicode.IsLower, unicode.IsUpper) }),
		"isupper":    on(func(text string) any { return isCase(text, unicode.IsUpper, unicode.IsLower) }),
		"strip":      cut(true, true),
		"lstrip":     cut(true, false),
		"rstrip":     cut(false, true),
		"ljust":      pad("<"),
		"rjust":      pad(">"),
		"find":       find(false, false),
		"rfind":      find(true, false),
		"index":      find(false, true),
		"rindex":     find(true, true),
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"partition":  partition(false),
		"rpartition": partition(true),
		"split":      func(s *state, of any, a *args) any { return s.split(of.(string), a, false) },
		"rsplit":     func(s *state, of any, a *args) any { return s.split(of.(string), a, true) },
		"splitlines": func(s *state, of any, a *args) any {
			keep := a.boolean(a.bind("keepends?")[0], false)
			return s.texts(splitLines(of.(string), keep))
		},
		"join": func(s *state, of any, a *args) any {
			separator := of.(string)
			var b strings.Builder
			for i, item := range s.iterate(defined(a.bind("iterable")[0])) {
				text, ok := textOf(defined(item))
				if !ok {
					s.fail("join takes texts, not %s; the filter join takes anything", describe(item))
				}
				s.memory(len(text) + len(separator))
				if i > 0 {
					b.WriteString(separator)
				}
				b.WriteString(text)
			}
			return b.String()
		},
		"replace": func(s *state, of any, a *args) any {
			v := a.bind("old", "new", "count?")
			return s.replace(of.(string), a.string(v[0], ""), a.string(v[1], ""), a.count(v[2], -1))
		},
		"count": func(s *state, of any, a *args) any {
			text := of.(string)
			s.work(len(text) / 16)
			return int64(strings.Count(text, a.string(a.bind("sub")[0], "")))
		},
		"zfill": func(s *state, of any, a *args) any {
			text, sign := of.(string), ""
			width := a.count(a.bind("width")[0], 0)
			if text != "" && (text[0] == '-' || text[0] == '+') {
				text, sign = text[1:], text[:1]
				width--
			}
			return sign + s.pad(text, width, "0", ">")
		},
		"removeprefix": func(_ *state, of any, a *args) any {
			return strings.TrimPrefix(of.(string), a.string(a.bind("prefix")[0], ""))
		},
		"removesuffix": func(_ *state, of any, a *args) any {
			return strings.TrimSuffix(of.(string), a.string(a.bind("suffix")[0], ""))
		},
		"format": func(s *state, of any, a *args) any { return s.format(of.(string), a) },
	}
}

// isDigitMethod knows the decimal digits of all scripts, but not which of the
// other signs for numbers Python counts.
func isDigitMethod(s *state, of any, a *args) any {
	a.bind()
	text := of.(string)
	s.work(len(text))
	for _, r := range text {
		if unicode.IsNumber(r) && !unicode.IsDigit(r) {
			s.fail("isdigit() does not know %s", shortRepr(string(r)))
		}
	}
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsDigit(r) }) < 0
}

// pad fills text to width.
func (s *state) pad(text string, width int64, fill, alignment string) string {
	if utf8.RuneCountInString(fill) != 1 {
		s.fail("the fill character is not one character")
	}
	missing := width - int64(utf8.RuneCountInString(text))
	if missing <= 0 {
		return text
	}
	s.times(missing, int64(len(fill)))
	s.memory(len(text))
	left := int64(0)
	switch alignment {
	case ">":
		left = missing
	case "^":
		left = missing / 2
	}
	return strings.Repeat(fill, int(left)) + text + strings.Repeat(fill, int(missing-left))
}

func (s *state) texts(list []string) []any {
	s.memory(32 * len(list))
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

func isNoSpace(r rune) bool { return !isSpace(r) }

// split is Python's split and rsplit.
func (s *state) split(text string, a *args, right bool) any {
	v := a.bind("sep?", "maxsplit?")
	limit := a.count(v[1], -1)
	s.work(len(text) / 8)
	separator := or(v[0], nil)
	if separator == nil {
		out := []string{}
		for limit != 0 {
			if right {
				text = strings.TrimRightFunc(text, isSpace)
				i := len(strings.TrimRightFunc(text, isNoSpace))
				if text == "" {
					break
				}
				out, text = append(out, text[i:]), text[:i]
			} else {
				text = strings.TrimLeftFunc(text, isSpace)
				i := len(text) - len(strings.TrimLeftFunc(text, isNoSpace))
				if text == "" {
					break
				}
				out, text = append(out, text[:i]), text[i:]
			}
			limit--
		}
		if right {
			if text = strings.TrimRightFunc(text, isSpace); text != "" {
				out = append(out, text)
			}
			slices.Reverse(out)
		} else if text = strings.TrimLeftFunc(text, isSpace); text != "" {
			out = append(out, text)
		}
		return s.texts(out)
	}
	sep := a.string(separator, "")
	if sep == "" {
		s.fail("split needs a separator that is not empty")
	}
	if !right || limit < 0 {
		if limit < 0 {
			limit = -2
		}
		return s.texts(strings.SplitN(text, sep, int(limit)+1))
	}
	out := []string{}
	for range min(limit, int64(len(text))) {
		i := strings.LastIndex(text, sep)
		if i < 0 {
			break
		}
		out = append(out, text[i+len(sep):])
		text = text[:i]
	}
	out = append(out, text)
	slices.Reverse(out)
	return s.texts(out)
}
