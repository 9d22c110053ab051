package python

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// method is what is called as value.name().
type method func(s *State, of any, a *Args) any

// methods are those of Python's types, by type and name.
type methods struct {
	text, list, mapping map[string]method
}

func (m methods) of(v any, name string) method {
	switch v.(type) {
	case string:
		return m.text[name]
	case Markup:
		return m.marked(name)
	case []any:
		return m.list[name]
	case Tuple, *Group:
		if name == "count" || name == "index" {
			return m.list[name]
		}
	case map[string]any, *Dict:
		return m.mapping[name]
	}
	return nil
}

// pythons are what values have in Python in addition to the methods above. That such
// a thing is not here must not look as if it were not there.
func pythons(v any, name string) bool {
	if strings.HasPrefix(name, "__") {
		return true
	}
	var names string
	switch v.(type) {
	case string, Markup:
		names = "center encode expandtabs format_map isascii isdecimal isidentifier isnumeric isprintable istitle maketrans swapcase translate escape unescape striptags"
	case map[string]any, *Dict:
		names = "fromkeys"
	case int64, bool:
		names = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes"
	case float64:
		names = "as_integer_ratio conjugate fromhex hex imag is_integer real"
	case *Function, object:
		return true
	case *Series:
		names = "start stop step count index isdisjoint mapping close send throw"
	}
	return slices.Contains(strings.Fields(names), name)
}

func builtinMethods() methods {
	m := methods{text: textMethods(), list: listMethods(), mapping: mappingMethods()}
	frozen := func(what string) method {
		return func(s *State, _ any, a *Args) any {
			s.Fail("%s() would change a %s, which an expression cannot; make a new one instead", a.Name, what)
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
		"keys": func(s *State, of any, a *Args) any { a.Bind(); keys, _, _ := s.Pairs(of); return viewOf("keys", keys) },
		"values": func(s *State, of any, a *Args) any {
			a.Bind()
			_, values, _ := s.Pairs(of)
			return viewOf("values", values)
		},
		"items": func(s *State, of any, a *Args) any { a.Bind(); return viewOf("items", ItemList(s, of)) },
		"copy":  func(_ *State, of any, a *Args) any { a.Bind(); return of },
		"get": func(s *State, of any, a *Args) any {
			v := a.Bind("key", "default?")
			if !Hashable(Defined(v[0])) {
				s.Fail("%s cannot be a key", Describe(v[0]))
			}
			if value, ok := Lookup(of, Defined(v[0])); ok {
				return value
			}
			return Or(v[1], nil)
		},
	}
}

func listMethods() map[string]method {
	return map[string]method{
		"copy": func(_ *State, of any, a *Args) any { a.Bind(); return of },
		"count": func(s *State, of any, a *Args) any {
			wanted := Defined(a.Bind("value")[0])
			n := int64(0)
			for _, item := range s.Iterate(of) {
				if s.Equal(item, wanted, 0) {
					n++
				}
			}
			return n
		},
		"index": func(s *State, of any, a *Args) any {
			wanted := Defined(a.Bind("value")[0])
			for i, item := range s.Iterate(of) {
				if s.Equal(item, wanted, 0) {
					return int64(i)
				}
			}
			s.Fail("%s is not in the list", ShortRepr(wanted))
			return nil
		},
	}
}

func textMethods() map[string]method {
	// on makes a method without arguments.
	on := func(f func(string) any) method {
		return func(s *State, of any, a *Args) any {
			a.Bind()
			text := of.(string)
			s.Work(len(text) / 16)
			s.Memory(3 * len(text))
			return f(text)
		}
	}
	all := func(is func(rune) bool) method {
		return on(func(text string) any {
			return text != "" && strings.IndexFunc(text, func(r rune) bool { return !is(r) }) < 0
		})
	}
	cut := func(left, right bool) method {
		return func(_ *State, of any, a *Args) any {
			return Trim(of.(string), Or(a.Bind("chars?")[0], nil), a, left, right)
		}
	}
	pad := func(alignment string) method {
		return func(s *State, of any, a *Args) any {
			v := a.Bind("width", "fillchar?")
			return s.pad(of.(string), a.Count(v[0], 0), a.String(v[1], " "), alignment)
		}
	}
	find := func(last, must bool) method {
		return func(s *State, of any, a *Args) any {
			text, part := of.(string), a.String(a.Bind("sub")[0], "")
			s.Work(len(text) / 16)
			i := strings.Index(text, part)
			if last {
				i = strings.LastIndex(text, part)
			}
			if i < 0 && must {
				s.Fail("%s is not in the text", ShortRepr(part))
			}
			if i < 0 {
				return int64(-1)
			}
			return int64(utf8.RuneCountInString(text[:i]))
		}
	}
	affix := func(has func(text, affix string) bool) method {
		return func(s *State, of any, a *Args) any {
			affixes, ok := Defined(a.Bind("affix")[0]).(Tuple)
			if !ok {
				affixes = Tuple{a.Positional[0]}
			}
			return slices.ContainsFunc(affixes, func(v any) bool { return has(of.(string), a.String(v, "")) })
		}
	}
	partition := func(last bool) method {
		return func(s *State, of any, a *Args) any {
			text, sep := of.(string), a.String(a.Bind("sep")[0], "")
			if sep == "" {
				s.Fail("%s needs a separator that is not empty", a.Name)
			}
			i := strings.Index(text, sep)
			if last {
				i = strings.LastIndex(text, sep)
			}
			switch {
			case i >= 0:
				return Tuple{text[:i], sep, text[i+len(sep):]}
			case last:
				return Tuple{"", "", text}
			default:
				return Tuple{text, "", ""}
			}
		}
	}
	return map[string]method{
		"upper":      on(func(text string) any { return Upper(text) }),
		"lower":      on(func(text string) any { return Lower(text) }),
		"casefold":   on(func(text string) any { return cases.Fold().String(text) }),
		"capitalize": on(func(text string) any { return Capitalize(text) }),
		"title":      on(func(text string) any { return titleLetters(text) }),
		"isdigit":    isDigitMethod,
		"isalpha":    all(unicode.IsLetter),
		"isalnum":    all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":    all(IsSpace),
		"islower":    on(func(text string) any { return IsCase(text, unicode.IsLower, unicode.IsUpper) }),
		"isupper":    on(func(text string) any { return IsCase(text, unicode.IsUpper, unicode.IsLower) }),
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
		"split":      func(s *State, of any, a *Args) any { return s.split(of.(string), a, false) },
		"rsplit":     func(s *State, of any, a *Args) any { return s.split(of.(string), a, true) },
		"splitlines": func(s *State, of any, a *Args) any {
			keep := a.Boolean(a.Bind("keepends?")[0], false)
			return s.texts(SplitLines(of.(string), keep))
		},
		"join": func(s *State, of any, a *Args) any {
			separator := of.(string)
			var b strings.Builder
			for i, item := range s.Iterate(Defined(a.Bind("iterable")[0])) {
				text, ok := TextOf(Defined(item))
				if !ok {
					s.Fail("join takes texts, not %s; the filter join takes anything", Describe(item))
				}
				s.Memory(len(text) + len(separator))
				if i > 0 {
					b.WriteString(separator)
				}
				b.WriteString(text)
			}
			return b.String()
		},
		"replace": func(s *State, of any, a *Args) any {
			v := a.Bind("old", "new", "count?")
			return s.Replace(of.(string), a.String(v[0], ""), a.String(v[1], ""), a.Count(v[2], -1))
		},
		"count": func(s *State, of any, a *Args) any {
			text := of.(string)
			s.Work(len(text) / 16)
			return int64(strings.Count(text, a.String(a.Bind("sub")[0], "")))
		},
		"zfill": func(s *State, of any, a *Args) any {
			text, sign := of.(string), ""
			width := a.Count(a.Bind("width")[0], 0)
			if text != "" && (text[0] == '-' || text[0] == '+') {
				text, sign = text[1:], text[:1]
				width--
			}
			return sign + s.pad(text, width, "0", ">")
		},
		"removeprefix": func(_ *State, of any, a *Args) any {
			return strings.TrimPrefix(of.(string), a.String(a.Bind("prefix")[0], ""))
		},
		"removesuffix": func(_ *State, of any, a *Args) any {
			return strings.TrimSuffix(of.(string), a.String(a.Bind("suffix")[0], ""))
		},
		"format": func(s *State, of any, a *Args) any { return s.format(of.(string), a) },
	}
}

// isDigitMethod knows the decimal digits of all scripts, but not which of the
// other signs for numbers Python counts.
func isDigitMethod(s *State, of any, a *Args) any {
	a.Bind()
	text := of.(string)
	s.Work(len(text))
	for _, r := range text {
		if unicode.IsNumber(r) && !unicode.IsDigit(r) {
			s.Fail("isdigit() does not know %s", ShortRepr(string(r)))
		}
	}
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsDigit(r) }) < 0
}

// pad fills text to width.
func (s *State) pad(text string, width int64, fill, alignment string) string {
	if utf8.RuneCountInString(fill) != 1 {
		s.Fail("the fill character is not one character")
	}
	missing := width - int64(utf8.RuneCountInString(text))
	if missing <= 0 {
		return text
	}
	s.Times(missing, int64(len(fill)))
	s.Memory(len(text))
	left := int64(0)
	switch alignment {
	case ">":
		left = missing
	case "^":
		left = missing / 2
	}
	return strings.Repeat(fill, int(left)) + text + strings.Repeat(fill, int(missing-left))
}

func (s *State) texts(list []string) []any {
	s.Memory(32 * len(list))
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

func isNoSpace(r rune) bool { return !IsSpace(r) }

// split is Python's split and rsplit.
func (s *State) split(text string, a *Args, right bool) any {
	v := a.Bind("sep?", "maxsplit?")
	limit := a.Count(v[1], -1)
	s.Work(len(text) / 8)
	separator := Or(v[0], nil)
	if separator == nil {
		out := []string{}
		for limit != 0 {
			if right {
				text = strings.TrimRightFunc(text, IsSpace)
				i := len(strings.TrimRightFunc(text, isNoSpace))
				if text == "" {
					break
				}
				out, text = append(out, text[i:]), text[:i]
			} else {
				text = strings.TrimLeftFunc(text, IsSpace)
				i := len(text) - len(strings.TrimLeftFunc(text, isNoSpace))
				if text == "" {
					break
				}
				out, text = append(out, text[:i]), text[i:]
			}
			limit--
		}
		if right {
			if text = strings.TrimRightFunc(text, IsSpace); text != "" {
				out = append(out, text)
			}
			slices.Reverse(out)
		} else if text = strings.TrimLeftFunc(text, IsSpace); text != "" {
			out = append(out, text)
		}
		return s.texts(out)
	}
	sep := a.String(separator, "")
	if sep == "" {
		s.Fail("split needs a separator that is not empty")
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
