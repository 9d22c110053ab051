package expression

import (
	"slices"
	"strconv"
	"strings"
)

// listFilters take lists.
func listFilters() map[string]filter {
	return map[string]filter{
		"list": func(s *state, in any, a *args) any {
			a.bind()
			return slices.Clone(s.iterate(defined(in)))
		},
		"first": func(s *state, in any, a *args) any {
			a.bind()
			if list := s.iterate(defined(in)); len(list) > 0 {
				return norm(list[0])
			}
			return s.nothing("first item")
		},
		"last": func(s *state, in any, a *args) any {
			a.bind()
			if v, ok := in.(*series); ok && v.kind == generator {
				s.refuse(v, "gone through from its end")
			}
			if list := s.iterate(defined(in)); len(list) > 0 {
				return norm(list[len(list)-1])
			}
			return s.nothing("last item")
		},
		"join": func(s *state, in any, a *args) any {
			v := a.bind("d?", "attribute?")
			separator, get := s.text(or(v[0], "")), s.getter(or(v[1], nil), nil)
			var b strings.Builder
			for i, item := range s.iterate(defined(in)) {
				if i > 0 {
					s.memory(len(separator))
					b.WriteString(separator)
				}
				text := s.text(get(norm(item)))
				s.memory(len(text))
				b.WriteString(text)
			}
			return b.String()
		},
		"reverse": func(s *state, in any, a *args) any {
			a.bind()
			list := slices.Clone(s.iterate(defined(in)))
			slices.Reverse(list)
			if isText(in) {
				return like(in, s.concat(list))
			}
			if v, ok := in.(*series); ok && v.kind == generator {
				return list
			}
			return generated("reverse", list)
		},
		"sort": func(s *state, in any, a *args) any {
			v := a.bind("reverse?", "case_sensitive?", "attribute?")
			list := s.iterate(defined(in))
			get := s.multiGetter(or(v[2], nil), a.flag(v[1], false))
			return s.sortBy(list, get, a.boolean(v[0], false))
		},
		"unique": func(s *state, in any, a *args) any {
			v := a.bind("case_sensitive?", "attribute?")
			get := s.folded(s.getter(or(v[1], nil), nil), a.flag(v[0], false))
			seen := newDict()
			out := []any{}
			for _, item := range s.iterate(defined(in)) {
				key := defined(get(norm(item)))
				if !hashable(key) {
					s.fail("unique can not tell %s apart", describe(key))
				}
				if _, ok := seen.items[hashed(key)]; !ok {
					seen.set(key, nil)
					out = append(out, item)
				}
			}
			return generated("unique", out)
		},
		"min": func(s *state, in any, a *args) any { return s.extreme(in, a, -1) },
		"max": func(s *state, in any, a *args) any { return s.extreme(in, a, 1) },
		"sum": func(s *state, in any, a *args) any {
			v := a.bind("attribute?", "start?")
			get := s.getter(or(v[0], nil), nil)
			total := defined(or(v[1], int64(0)))
			if isText(total) {
				s.fail("sum does not add text; the filter join does")
			}
			for _, item := range s.iterate(defined(in)) {
				total = s.binary("+", defined(total), defined(get(norm(item))))
			}
			return total
		},
		"dictsort": func(s *state, in any, a *args) any {
			v := a.bind("case_sensitive?", "by?", "reverse?")
			position := map[string]any{"key": int64(0), "value": int64(1)}[a.string(v[1], "key")]
			if position == nil {
				s.fail(`dictsort takes by='key' or by='value'`)
			}
			get := s.folded(s.getter(position, nil), a.flag(v[0], false))
			return s.sortBy(itemList(s, in), get, a.boolean(v[2], false))
		},
		"groupby": func(s *state, in any, a *args) any {
			v := a.bind("attribute", "default?", "case_sensitive?")
			get := s.getter(v[0], or(v[1], nil))
			key := s.folded(get, a.flag(v[2], false))
			out := []any{}
			var current any
			for _, item := range s.sortBy(s.iterate(defined(in)), key, false) {
				k := key(norm(item))
				if n := len(out); n > 0 && s.equal(current, k, 0) {
					out[n-1].(*group).list = append(out[n-1].(*group).list, item)
					continue
				}
				current = k
				s.memory(64)
				out = append(out, &group{grouper: get(norm(item)), list: []any{item}})
			}
			return out
		},
	}
}

func (s *state) concat(list []any) string {
	var b strings.Builder
	for _, item := range list {
		text := s.text(item)
		s.memory(len(text))
		b.WriteString(text)
	}
	return b.String()
}

// getter makes a function that takes the attribute, such as "state.zones.0",
// of an item; without one it takes the item itself.
func (s *state) getter(attribute, standard any) func(any) any {
	var parts []any
	switch attr := defined(attribute).(type) {
	case nil:
		return func(item any) any { return item }
	case int64:
		parts = []any{attr}
	case string:
		for _, part := range strings.Split(attr, ".") {
			s.digitsOnly(part)
			if strings.Trim(part, "0123456789") != "" || part == "" {
				parts = append(parts, part)
			} else if i, err := strconv.ParseInt(part, 10, 64); err == nil {
				parts = append(parts, i)
			} else {
				s.fail("the index %s is too large", part)
			}
		}
	default:
		s.fail("an attribute is text, not %s", describe(attribute))
	}
	return func(item any) any {
		for _, part := range parts {
			s.work(1)
			item = s.item(item, part, nil)
			if _, missing := item.(*undefined); missing && standard != nil {
				item = standard
			}
		}
		return item
	}
}

// multiGetter is a getter for several attributes with commas between them.
func (s *state) multiGetter(attribute any, caseSensitive bool) func(any) any {
	text, ok := attribute.(string)
	if !ok || !strings.Contains(text, ",") {
		return s.folded(s.getter(attribute, nil), caseSensitive)
	}
	var gets []func(any) any
	for _, part := range strings.Split(text, ",") {
		gets = append(gets, s.folded(s.getter(part, nil), caseSensitive))
	}
	return func(item any) any {
		s.memory(16 * len(gets))
		key := make(tuple, len(gets))
		for i, get := range gets {
			key[i] = get(item)
		}
		return key
	}
}

// folded makes a getter ignore case unless it is caseSensitive.
func (s *state) folded(get func(any) any, caseSensitive bool) func(any) any {
	if caseSensitive {
		return get
	}
	return func(item any) any {
		v := get(item)
		if text, ok := textOf(v); ok {
			s.memory(len(text))
			return lower(text)
		}
		return v
	}
}

func (s *state) sortBy(list []any, get func(any) any, reverse bool) []any {
	keys := make([]any, len(list))
	for i, item := range list {
		keys[i] = defined(get(norm(item)))
	}
	order := s.sorted(len(list), func(i, j int) int {
		n := s.compare(keys[i], keys[j], 0)
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
func (s *state) extreme(in any, a *args, direction int) any {
	v := a.bind("case_sensitive?", "attribute?")
	list := s.iterate(defined(in))
	if len(list) == 0 {
		return s.nothing("items")
	}
	get := s.folded(s.getter(or(v[1], nil), nil), a.flag(v[0], false))
	best, key := norm(list[0]), get(norm(list[0]))
	for _, item := range list[1:] {
		if k := get(norm(item)); s.compare(k, key, 0)*direction > 0 {
			best, key = norm(item), k
		}
	}
	return best
}

// selectFilters apply a filter or a test to every item.
func selectFilters() map[string]filter {
	return map[string]filter{
		"map": func(s *state, in any, a *args) any {
			list := s.iterate(defined(in))
			var each func(item any) any
			if attribute, ok := a.named["attribute"]; ok && len(a.positional) == 0 {
				for _, name := range a.order {
					if name != "attribute" && name != "default" {
						s.fail("map takes no argument %q", name)
					}
				}
				each = s.getter(attribute, a.named["default"])
			} else {
				name, rest := a.head("a filter")
				each = func(item any) any { return s.filter(name, item, rest()) }
			}
			s.memory(16 * len(list))
			out := make([]any, len(list))
			for i, item := range list {
				out[i] = each(norm(item))
			}
			return generated("map", out)
		},
		"select":     func(s *state, in any, a *args) any { return s.selected(in, a, false, true) },
		"reject":     func(s *state, in any, a *args) any { return s.selected(in, a, false, false) },
		"selectattr": func(s *state, in any, a *args) any { return s.selected(in, a, true, true) },
		"rejectattr": func(s *state, in any, a *args) any { return s.selected(in, a, true, false) },
	}
}

// head splits a name off the arguments; rest makes the others anew for each
// call.
func (a *args) head(what string) (name string, rest func() *args) {
	if len(a.positional) == 0 {
		a.s.fail("%s needs the name of %s", a.name, what)
	}
	name = a.string(a.positional[0], "")
	return name, func() *args {
		return &args{s: a.s, positional: a.positional[1:], order: a.order, named: a.named}
	}
}

func (s *state) selected(in any, a *args, byAttribute, keep bool) any {
	name := strings.TrimPrefix(a.name, "the filter ")
	list := s.iterate(defined(in))
	get := s.getter(nil, nil)
	if byAttribute {
		if len(a.positional) == 0 {
			s.fail("%s needs the name of an attribute", a.name)
		}
		get = s.getter(defined(a.positional[0]), nil)
		a.positional = a.positional[1:]
	}
	holds := s.truth
	if len(a.positional) > 0 {
		test, rest := a.head("a test")
		holds = func(item any) bool { return s.test(test, item, rest()) }
	}
	out := []any{}
	for _, item := range list {
		if holds(get(norm(item))) == keep {
			out = append(out, item)
		}
	}
	s.memory(16 * len(out))
	return generated(name, out)
}
