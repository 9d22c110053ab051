package expression

import (
	"maps"
	"math"
	"strings"
)

// filter is what stands after "|".
type filter func(s *state, in any, a *args) any

func builtinFilters() map[string]filter {
	filters := map[string]filter{}
	for _, group := range []map[string]filter{valueFilters(), textFilters(), listFilters(), selectFilters()} {
		maps.Copy(filters, group)
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
	return filters
}

// valueFilters take and give single values.
func valueFilters() map[string]filter {
	return map[string]filter{
		"default": func(s *state, in any, a *args) any {
			v := a.bind("default_value?", "boolean?")
			_, missing := in.(*undefined)
			if missing || (a.flag(v[1], false) && !s.truth(in)) {
				return or(v[0], "")
			}
			return in
		},
		"attr": func(s *state, in any, a *args) any {
			name := a.string(a.bind("name")[0], "")
			if _, ok := lookup(defined(in), name); ok {
				// Python's attr() sees attributes only, never keys.
				return s.missing(describe(in), name, nil)
			}
			return s.attribute(in, name, nil)
		},
		"length": func(s *state, in any, a *args) any {
			a.bind()
			n, ok := length(defined(in))
			if !ok {
				s.fail("%s has no length", describe(in))
			}
			return int64(n)
		},
		"string": func(s *state, in any, a *args) any { a.bind(); return like(in, s.text(in)) },
		"int":    intFilter,
		"float":  floatFilter,
		"abs": func(s *state, in any, a *args) any {
			a.bind()
			f, ok := float(defined(in))
			if !ok {
				s.fail("%s is not a number", describe(in))
			}
			if math.Signbit(f) {
				return s.sign("-", in)
			}
			return s.sign("+", in)
		},
		"round": roundFilter,
		"tojson": func(s *state, in any, a *args) any {
			v := a.bind("indent?")[0]
			p := printer{s: s}
			indent := ""
			switch n := defined(or(v, nil)).(type) {
			case nil:
			case string:
				p.lines, indent = true, n
			default:
				width := a.count(n, 0)
				if width > 16 {
					s.fail("tojson indents by at most 16")
				}
				p.lines, indent = true, strings.Repeat(" ", int(max(width, 0)))
			}
			if len(indent) > 16 {
				s.fail("tojson indents by at most 16")
			}
			p.json(in, indent, 0)
			return markup(p.String())
		},
		"safe": func(s *state, in any, a *args) any { a.bind(); return markup(s.text(in)) },
		"items": func(s *state, in any, a *args) any {
			a.bind()
			if _, missing := in.(*undefined); missing {
				return generated("items", nil)
			}
			return generated("items", itemList(s, in))
		},
	}
}

func itemList(s *state, in any) []any {
	keys, values, ok := s.pairs(defined(in))
	if !ok {
		s.fail("%s is not a mapping", describe(in))
	}
	s.memory(48 * len(keys))
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = tuple{key, values[i]}
	}
	return list
}
