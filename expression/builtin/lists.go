package builtin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// listFilters take lists.
func listFilters() map[string]python.Filter {
	return map[string]python.Filter{
		"list": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			return slices.Clone(s.Iterate(python.Defined(in)))
		},
		"first": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			if list := s.Iterate(python.Defined(in)); len(list) > 0 {
				return python.Norm(list[0])
			}
			return s.Nothing("first item")
		},
		"last": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			if v, ok := in.(*python.Series); ok && v.Kind == python.Generator {
				s.Refuse(v, "gone through from its end")
			}
			if list := s.Iterate(python.Defined(in)); len(list) > 0 {
				return python.Norm(list[len(list)-1])
			}
			return s.Nothing("last item")
		},
		"join": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("d?", "attribute?")
			separator, get := s.Text(python.Or(v[0], "")), getter(s, python.Or(v[1], nil), nil)
			var b strings.Builder
			for i, item := range s.Iterate(python.Defined(in)) {
				if i > 0 {
					s.Memory(len(separator))
					b.WriteString(separator)
				}
				text := s.Text(get(python.Norm(item)))
				s.Memory(len(text))
				b.WriteString(text)
			}
			return b.String()
		},
		"reverse": func(s *python.State, in any, a *python.Args) any {
			a.Bind()
			list := slices.Clone(s.Iterate(python.Defined(in)))
			slices.Reverse(list)
			if python.IsText(in) {
				return python.Like(in, concat(s, list))
			}
			if v, ok := in.(*python.Series); ok && v.Kind == python.Generator {
				return list
			}
			return python.Generated("reverse", list)
		},
		"sort": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("reverse?", "case_sensitive?", "attribute?")
			list := s.Iterate(python.Defined(in))
			get := multiGetter(s, python.Or(v[2], nil), a.Flag(v[1], false))
			return sortBy(s, list, get, a.Boolean(v[0], false))
		},
		"unique": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("case_sensitive?", "attribute?")
			get := folded(s, getter(s, python.Or(v[1], nil), nil), a.Flag(v[0], false))
			seen := python.NewDict()
			out := []any{}
			for _, item := range s.Iterate(python.Defined(in)) {
				key := python.Defined(get(python.Norm(item)))
				if !python.Hashable(key) {
					s.Fail("unique cannot tell %s apart", python.Describe(key))
				}
				if _, ok := seen.Items[python.Hashed(key)]; !ok {
					seen.Set(key, nil)
					out = append(out, item)
				}
			}
			return python.Generated("unique", out)
		},
		"min": func(s *python.State, in any, a *python.Args) any { return extreme(s, in, a, -1) },
		"max": func(s *python.State, in any, a *python.Args) any { return extreme(s, in, a, 1) },
		"sum": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("attribute?", "start?")
			get := getter(s, python.Or(v[0], nil), nil)
			total := python.Defined(python.Or(v[1], int64(0)))
			if python.IsText(total) {
				s.Fail("sum does not add text; the filter join does")
			}
			for _, item := range s.Iterate(python.Defined(in)) {
				total = s.Binary("+", python.Defined(total), python.Defined(get(python.Norm(item))))
			}
			return total
		},
		"dictsort": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("case_sensitive?", "by?", "reverse?")
			position := map[string]any{"key": int64(0), "value": int64(1)}[a.String(v[1], "key")]
			if position == nil {
				s.Fail(`dictsort takes by='key' or by='value'`)
			}
			get := folded(s, getter(s, position, nil), a.Flag(v[0], false))
			return sortBy(s, python.ItemList(s, in), get, a.Boolean(v[2], false))
		},
		"groupby": func(s *python.State, in any, a *python.Args) any {
			v := a.Bind("attribute", "default?", "case_sensitive?")
			get := getter(s, v[0], python.Or(v[1], nil))
			key := folded(s, get, a.Flag(v[2], false))
			out := []any{}
			var current any
			for _, item := range sortBy(s, s.Iterate(python.Defined(in)), key, false) {
				k := key(python.Norm(item))
				if n := len(out); n > 0 && s.Equal(current, k, 0) {
					out[n-1].(*python.Group).List = append(out[n-1].(*python.Group).List, item)
					continue
				}
				current = k
				s.Memory(64)
				out = append(out, &python.Group{Grouper: get(python.Norm(item)), List: []any{item}})
			}
			return out
		},
	}
}

func concat(s *python.State, list []any) string {
	var b strings.Builder
	for _, item := range list {
		text := s.Text(item)
		s.Memory(len(text))
		b.WriteString(text)
	}
	return b.String()
}

// getter makes a function that takes the attribute, such as "state.zones.0",
// of an item; without one it takes the item itself.
func getter(s *python.State, attribute, standard any) func(any) any {
	var parts []any
	switch attr := python.Defined(attribute).(type) {
	case nil:
		return func(item any) any { return item }
	case int64:
		parts = []any{attr}
	case string:
		for _, part := range strings.Split(attr, ".") {
			s.DigitsOnly(part)
			if strings.Trim(part, "0123456789") != "" || part == "" {
				parts = append(parts, part)
			} else if i, err := strconv.ParseInt(part, 10, 64); err == nil {
				parts = append(parts, i)
			} else {
				s.Fail("the index %s is too large", part)
			}
		}
	default:
		s.Fail("an attribute is text, not %s", python.Describe(attribute))
	}
	return func(item any) any {
		for _, part := range parts {
			s.Work(1)
			item = s.Item(item, part, nil)
			if _, missing := item.(*python.Undefined); missing && standard != nil {
				item = standard
			}
		}
		return item
	}
}

// multiGetter is a getter for several attributes with commas between them.
func multiGetter(s *python.State, attribute any, caseSensitive bool) func(any) any {
	text, ok := attribute.(string)
	if !ok || !strings.Contains(text, ",") {
		return folded(s, getter(s, attribute, nil), caseSensitive)
	}
	var gets []func(any) any
	for _, part := range strings.Split(text, ",") {
		gets = append(gets, folded(s, getter(s, part, nil), caseSensitive))
	}
	return func(item any) any {
		s.Memory(16 * len(gets))
		key := make(python.Tuple, len(gets))
		for i, get := range gets {
			key[i] = get(item)
		}
		return key
	}
}

// folded makes a getter ignore case unless it is caseSensitive.
func folded(s *python.State, get func(any) any, caseSensitive bool) func(any) any {
	if caseSensitive {
		return get
	}
	return func(item any) any {
		v := get(item)
		if text, ok := python.TextOf(v); ok {
			s.Memory(len(text))
			return python.Lower(text)
		}
		return v
	}
}

func sortBy(s *python.State, list []any, get func(any) any, reverse bool) []any {
	keys := make([]any, len(list))
	for i, item := range list {
		keys[i] = python.Defined(get(python.Norm(item)))
	}
	order := s.Sorted(len(list), func(i, j int) int {
		n := s.Compare(keys[i], keys[j], 0)
		if reverse {
			return -n
		}
		return n
	})
	out := make([]any, len(list))
	for i, from := range order {
		out[i] = list[from]
	}
	return out
}

// extreme finds the smallest or the largest item.
func extreme(s *python.State, in any, a *python.Args, direction int) any {
	v := a.Bind("case_sensitive?", "attribute?")
	list := s.Iterate(python.Defined(in))
	if len(list) == 0 {
		return s.Nothing("items")
	}
	get := folded(s, getter(s, python.Or(v[1], nil), nil), a.Flag(v[0], false))
	best, key := python.Norm(list[0]), get(python.Norm(list[0]))
	for _, item := range list[1:] {
		if k := get(python.Norm(item)); s.Compare(k, key, 0)*direction > 0 {
			best, key = python.Norm(item), k
		}
	}
	return best
}

// selectFilters apply a filter or a test to every item.
func selectFilters() map[string]python.Filter {
	return map[string]python.Filter{
		"map": func(s *python.State, in any, a *python.Args) any {
			list := s.Iterate(python.Defined(in))
			var each func(item any) any
			if attribute, ok := a.Named["attribute"]; ok && len(a.Positional) == 0 {
				for _, name := range a.Order {
					if name != "attribute" && name != "default" {
						s.Fail("map takes no argument %q", name)
					}
				}
				each = getter(s, attribute, a.Named["default"])
			} else {
				name, rest := head(a, "a filter")
				each = func(item any) any { return s.Filter(name, item, rest()) }
			}
			s.Memory(16 * len(list))
			out := make([]any, len(list))
			for i, item := range list {
				out[i] = each(python.Norm(item))
			}
			return python.Generated("map", out)
		},
		"select":     func(s *python.State, in any, a *python.Args) any { return selected(s, in, a, false, true) },
		"reject":     func(s *python.State, in any, a *python.Args) any { return selected(s, in, a, false, false) },
		"selectattr": func(s *python.State, in any, a *python.Args) any { return selected(s, in, a, true, true) },
		"rejectattr": func(s *python.State, in any, a *python.Args) any { return selected(s, in, a, true, false) },
	}
}

// head splits a name off the arguments; rest makes the others anew for each
// call.
func head(a *python.Args, what string) (name string, rest func() *python.Args) {
	if len(a.Positional) == 0 {
		a.State.Fail("%s needs the name of %s", a.Name, what)
	}
	name = a.String(a.Positional[0], "")
	return name, func() *python.Args {
		return &python.Args{State: a.State, Positional: a.Positional[1:], Order: a.Order, Named: a.Named}
	}
}

func selected(s *python.State, in any, a *python.Args, byAttribute, keep bool) any {
	name := strings.TrimPrefix(a.Name, "the filter ")
	list := s.Iterate(python.Defined(in))
	get := getter(s, nil, nil)
	if byAttribute {
		if len(a.Positional) == 0 {
			s.Fail("%s needs the name of an attribute", a.Name)
		}
		get = getter(s, python.Defined(a.Positional[0]), nil)
		a.Positional = a.Positional[1:]
	}
	holds := s.Truth
	if len(a.Positional) > 0 {
		test, rest := head(a, "a test")
		holds = func(item any) bool { return s.Test(test, item, rest()) }
	}
	out := []any{}
	for _, item := range list {
		if holds(get(python.Norm(item))) == keep {
			out = append(out, item)
		}
	}
	s.Memory(16 * len(out))
	return python.Generated(name, out)
}
