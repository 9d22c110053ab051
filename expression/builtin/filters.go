package builtin

import (
	"maps"
	"math"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// Filters are what stands after "|", by their names.
func Filters() map[string]python.Filter {
	filters := map[string]python.Filter{}
	for _, group := range []map[string]python.Filter{valueFilters(), textFilters(), listFilters(), selectFilters()} {
		maps.Copy(filters, group)
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
	return filters
}

// valueFilters take and give single values.
func valueFilters() map[string]python.Filter {
	return map[string]python.Filter{
		"default": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("default_value?", "boolean?")
			_, missing := in.(*python.Undefined)
			if missing || (a.Flag(v[1], false) && !s.Truth(in)) {
				return python.Or(v[0], "")
			}
			return in
		},
		"attr": func(s *python.State, in any, a *python.Args) any {
			name := a.String(a.Bind("name")[0], "")
			if _, ok := python.Lookup(python.Defined(in), name); ok {
				// Python's attr() sees attributes only, never keys.
				return s.Missing(python.Describe(in), name, nil)
			}
			return s.Attribute(in, name, nil)
		},
		"length": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			n, ok := python.Length(python.Defined(in))
			if !ok {
				s.Fail("%s has no length", python.Describe(in))
			}
			return int64(n)
		},
		"string": func(s *python.State, in any, a *python.Args) any { a.Bind(); return python.Like(in, s.Text(in)) },
		"int":    intFilter,
		"float":  floatFilter,
		"abs": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			f, ok := python.Float(python.Defined(in))
			if !ok {
				s.Fail("%s is not a number", python.Describe(in))
			}
			if math.Signbit(f) {
				return s.Sign("-", in)
			}
			return s.Sign("+", in)
		},
		"round": roundFilter,
		"tojson": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("indent?")[0]
			indent, lines := "", true
			switch n := python.Defined(python.Or(v, nil)).(type) {
			case nil:
				lines = false
			case string:
				indent = n
			default:
				width := a.Count(n, 0)
				if width > 16 {
					s.Fail("tojson indents by at most 16")
				}
				indent = strings.Repeat(" ", int(max(width, 0)))
			}
			if len(indent) > 16 {
				s.Fail("tojson indents by at most 16")
			}
			return python.Markup(s.JSON(in, indent, lines))
		},
		"safe": func(s *python.State, in any, a *python.Args) any { a.Bind(); return python.Markup(s.Text(in)) },
		"items": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			if _, missing := in.(*python.Undefined); missing {
				return python.Generated("items", nil)
			}
			return python.Generated("items", python.ItemList(s, in))
		},
	}
}
