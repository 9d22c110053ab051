package expression

import (
	"slices"
	"unicode/utf8"
)

// operator evaluates a binary operator but the lazy ones.
func (s *state) operator(op string, left, right any) any {
	switch op {
	case "~":
		a, b := s.text(left), s.text(right)
		s.memory(len(a) + len(b))
		return a + b
	case "==", "!=", "<", "<=", ">", ">=", "in", "not in":
		return s.compares(op, defined(left), defined(right))
	}
	return s.binary(op, defined(left), defined(right))
}

func (s *state) compares(op string, x, y any) bool {
	switch op {
	case "==":
		return s.equal(x, y, 0)
	case "!=":
		return !s.equal(x, y, 0)
	case "in":
		return s.contains(y, x)
	case "not in":
		return !s.contains(y, x)
	}
	n := s.compare(x, y, 0)
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	default:
		return n >= 0
	}
}

// attribute evaluates of.name: a method, else a key. via is how the template
// refers to of, or nil.
func (s *state) attribute(of any, name string, via expr) any {
	switch v := s.given(of).(type) {
	case *loop:
		if value := v.attribute(s, name); value != nil {
			return value
		}
	case *templateBlocks:
		if versions := v.env.blocks[name]; versions != nil {
			sc := &scope{state: s, env: v.env}
			return sc.blockFunction(name, versions)
		}
	case *series:
		if name == "count" || name == "index" || name == "isdisjoint" {
			s.refuse(v, "asked for "+name)
		}
	case *namespace:
		if value, ok := v.vars[name]; ok {
			return value
		}
	case *group:
		switch name {
		case "grouper":
			return v.grouper
		case "list":
			return v.list
		}
	}
	if m := s.e.methods.of(of, name); m != nil {
		return &function{name: name, call: func(s *state, a *args) any { return m(s, of, a) }}
	}
	if value, ok := lookup(of, name); ok {
		return value
	}
	return s.missing(of, name, via)
}

// item evaluates of[key]: an element or a key, else a method.
func (s *state) item(of, key any, via expr) any {
	s.given(of)
	if text, ok := key.(markup); ok {
		key = string(text)
	}
	if v, ok := of.(*series); ok && v.kind == rangeKind {
		of = v.list
	}
	switch k := defined(key).(type) {
	case string:
		if value, ok := lookup(of, k); ok {
			return value
		}
		if _, isMap := of.(map[string]any); isMap {
			break
		}
		return s.attribute(of, k, via)
	case int64, bool:
		i, _ := integer(k)
		if text, ok := textOf(of); ok {
			s.work(len(text) / 64)
			n := int64(utf8.RuneCountInString(text))
			if i < 0 {
				i += n
			}
			if i >= 0 && i < n {
				if n == int64(len(text)) {
					return like(of, text[i:i+1])
				}
				return like(of, string([]rune(text)[i]))
			}
			break
		}
		if list, ok := items(of); ok {
			if i < 0 {
				i += int64(len(list))
			}
			if i >= 0 && i < int64(len(list)) {
				return norm(list[i])
			}
			break
		}
		if value, ok := lookup(of, key); ok {
			return value
		}
	default:
		if value, ok := lookup(of, key); ok {
			return value
		}
	}
	return s.missing(of, key, via)
}

// missing is the undefined value of an attribute, key or index that is not
// there.
func (s *state) missing(of, key any, via expr) *undefined {
	u := s.absent(of, key, via)
	if name, ok := key.(string); ok && (pythons(of, name) || s.e.methods.of(of, name) != nil) {
		u.use() // Jinja2 finds what Python has by that name
	}
	return u
}

func (s *state) absent(of, key any, via expr) *undefined {
	return s.undefined(func() *UndefinedError {
		e := &UndefinedError{Kind: describe(of), Of: "the value"}
		if name, ok := key.(string); ok {
			e.Missing = name
		} else {
			e.Missing = shortRepr(key)
		}
		e.Name = e.Missing
		if path := source(via); path != "" {
			e.Of = path
			if _, isName := key.(string); isName {
				e.Name = path + "." + e.Missing
			} else {
				e.Name = path + "[" + e.Missing + "]"
			}
		}
		var keys []any
		switch v := of.(type) {
		case map[string]any:
			e.Defined = sortedKeys(v)
		case *namespace:
			e.Defined = sortedKeys(v.vars)
		case *dict:
			keys = v.keys
		}
		for _, k := range keys {
			if name, ok := k.(string); ok {
				e.Defined = append(e.Defined, name)
			} else {
				e.Defined = append(e.Defined, shortRepr(k))
			}
		}
		slices.Sort(e.Defined)
		return e
	}, s.at)
}

// slice evaluates of[from:to:step] as Python does.
func (s *state) slice(of any, givenFrom, givenTo, givenStep *int64) any {
	step := int64(1)
	if givenStep != nil {
		step = *givenStep
	}
	if step == 0 {
		s.fail("the step of a slice can not be zero")
	}
	text, isText := textOf(of)
	var runes []rune
	whole, isRange := of.(*series)
	if isRange && whole.kind == rangeKind {
		of = whole.list
	}
	list, isList := items(of)
	n := int64(len(list))
	if isText {
		s.memory(4 * len(text))
		runes = []rune(text)
		n = int64(len(runes))
	} else if !isList {
		s.fail("%s can not be sliced", describe(of))
	}
	low, high, start, stop := int64(0), n, int64(0), n
	if step < 0 {
		low, high, start, stop = -1, n-1, n-1, -1
	}
	clamp := func(given *int64, standard int64) int64 {
		if given == nil {
			return standard
		}
		v := *given
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	from, to := clamp(givenFrom, start), clamp(givenTo, stop)
	s.memory(int(n))
	var picked []any
	var out []rune
	for i := from; (step > 0 && i < to) || (step < 0 && i > to); {
		if isText {
			out = append(out, runes[i])
		} else {
			picked = append(picked, norm(list[i]))
		}
		if step > n || step < -n {
			break
		}
		i += step
	}
	if isText {
		return like(of, string(out))
	}
	if isRange {
		return &series{kind: rangeKind, what: whole.what, list: picked}
	}
	if _, ok := of.(tuple); ok {
		return tuple(picked)
	}
	if picked == nil {
		picked = []any{}
	}
	return picked
}

// filter applies a filter by name. Scanning large inputs costs steps.
func (s *state) filter(name string, in any, a *args) any {
	a.name = "the filter " + name
	s.work(1 + weight(in)/16)
	f, ok := s.e.filters[name]
	if !ok {
		s.fail("there is no filter %q", name)
	}
	return f(s, in, a)
}

func (s *state) test(name string, in any, a *args) bool {
	a.name = "the test " + name
	s.work(1 + weight(in)/16)
	t, ok := s.e.tests[name]
	if !ok {
		s.fail("there is no test %q", name)
	}
	return t(s, in, a)
}

func weight(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case markup:
		return len(v)
	case []any:
		return len(v)
	default:
		return 0
	}
}
