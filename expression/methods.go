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
	case []any, tuple:
		return m.list[name]
	case map[string]any, *dict:
		return m.mapping[name]
	}
	return nil
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
		"keys": func(s *state, of any, a *args) any { a.bind(); keys, _, _ := s.pairs(of); return slices.Clone(keys) },
		"values": func(s *state, of any, a *args) any {
			a.bind()
			_, values, _ := s.pairs(of)
			return values
		},
		"items": func(s *state, of any, a *args) any { a.bind(); return itemList(s, of) },
		"copy":  func(_ *state, of any, a *args) any { a.bind(); return of },
		"get": func(_ *state, of any, a *args) any {
			v := a.bind("key", "default?")
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
		"isdigit":    all(unicode.IsDigit),
		"isalpha":    all(unicode.IsLetter),
		"isalnum":    all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":    all(unicode.IsSpace),
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
			keep := a.flag(a.bind("keepends?")[0], false)
			return s.texts(splitLines(of.(string), keep))
		},
		"join": func(s *state, of any, a *args) any {
			separator := of.(string)
			var b strings.Builder
			for i, item := range s.iterate(defined(a.bind("iterable")[0])) {
				text, ok := defined(item).(string)
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

func isNoSpace(r rune) bool { return !unicode.IsSpace(r) }

// split is Python's split and rsplit.
func (s *state) split(text string, a *args, right bool) any {
	v := a.bind("sep?", "maxsplit?")
	limit := a.count(v[1], -1)
	s.work(len(text) / 8)
	separator := or(v[0], nil)
	if separator == nil {
		fields := strings.Fields(text)
		if n := int64(len(fields)); limit < 0 || n <= limit {
			return s.texts(fields)
		}
		out := []string{}
		for range limit {
			if right {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
				i := len(strings.TrimRightFunc(text, isNoSpace))
				out, text = append(out, text[i:]), text[:i]
			} else {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
				i := strings.IndexFunc(text, unicode.IsSpace)
				out, text = append(out, text[:i]), text[i:]
			}
		}
		if right {
			out = append(out, strings.TrimRightFunc(text, unicode.IsSpace))
			slices.Reverse(out)
		} else {
			out = append(out, strings.TrimLeftFunc(text, unicode.IsSpace))
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
