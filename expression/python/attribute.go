package python

import (
	"iter"
	"slices"
	"unicode/utf8"
)

// Attribute evaluates of.name: a method, else a key. at is nil or
// where that is asked.
func (s *State) Attribute(of any, name string, at site) any {
	switch v := s.Given(of).(type) {
	case object:
		if value := v.Attribute(s, name); value != nil {
			return value
		}
	case *Series:
		if name == "count" || name == "index" || name == "isdisjoint" {
			s.Refuse(v, "asked for "+name)
		}
	case *Namespace:
		if value, ok := v.Vars[name]; ok {
			return value
		}
	case *Group:
		switch name {
		case "grouper":
			return v.Grouper
		case "list":
			return v.List
		}
	}
	if m := s.methods.of(of, name); m != nil {
		return &Function{Name: name, Call: func(s *State, a *Args) any { return m(s, of, a) }}
	}
	if value, ok := Lookup(of, name); ok {
		return value
	}
	return s.Missing(of, name, at)
}

// site is where an attribute or an item is asked for.
type site interface {
	// path is how the template refers to what should have it, or "".
	Path() string
}

func pathOf(at site) string {
	if at == nil {
		return ""
	}
	return at.Path()
}

// Item evaluates of[key]: an element or a key, else a method.
func (s *State) Item(of, key any, at site) any {
	s.Given(of)
	if text, ok := key.(Markup); ok {
		key = string(text)
	}
	if v, ok := of.(*Series); ok && v.Kind == RangeKind {
		of = v.List
	}
	switch k := Defined(key).(type) {
	case string:
		if value, ok := Lookup(of, k); ok {
			return value
		}
		if _, isMap := of.(map[string]any); isMap {
			break
		}
		return s.Attribute(of, k, at)
	case int64, bool:
		i, _ := Integer(k)
		if text, ok := TextOf(of); ok {
			s.Work(len(text) / 64)
			n := int64(utf8.RuneCountInString(text))
			if i < 0 {
				i += n
			}
			if i >= 0 && i < n {
				if n == int64(len(text)) {
					return Like(of, text[i:i+1])
				}
				return Like(of, string([]rune(text)[i]))
			}
			break
		}
		if list, ok := Items(of); ok {
			if i < 0 {
				i += int64(len(list))
			}
			if i >= 0 && i < int64(len(list)) {
				return Norm(list[i])
			}
			break
		}
		if value, ok := Lookup(of, key); ok {
			return value
		}
	default:
		if value, ok := Lookup(of, key); ok {
			return value
		}
	}
	return s.Missing(of, key, at)
}

// Missing is the undefined value of an attribute, key or index that is not
// there.
func (s *State) Missing(of, key any, at site) *Undefined {
	u := s.absent(of, key, at)
	if name, ok := key.(string); ok && (pythons(of, name) || s.methods.of(of, name) != nil) {
		u.Use() // Jinja2 finds what Python has by that name
	}
	return u
}

func (s *State) absent(of, key any, at site) *Undefined {
	return s.Undefined(func() *UndefinedError {
		e := &UndefinedError{Kind: Describe(of), Of: "the value"}
		if name, ok := key.(string); ok {
			e.Missing = name
		} else {
			e.Missing = ShortRepr(key)
		}
		e.Name = e.Missing
		if path := pathOf(at); path != "" {
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
			e.Defined = SortedKeys(v)
		case *Namespace:
			e.Defined = SortedKeys(v.Vars)
		case *Dict:
			keys = v.Keys
		}
		for _, k := range keys {
			if name, ok := k.(string); ok {
				e.Defined = append(e.Defined, name)
			} else {
				e.Defined = append(e.Defined, ShortRepr(k))
			}
		}
		slices.Sort(e.Defined)
		return e
	}, s.At)
}

// Slice evaluates of[from:to:step] as Python does; a bound that is left out is
// nil.
func (s *State) Slice(of any, bounds [3]*int64) any {
	series, _ := of.(*Series)
	if series != nil && series.Kind == RangeKind {
		of = series.List
	}
	if text, ok := TextOf(of); ok {
		s.Memory(4 * len(text))
		runes := []rune(text)
		var out []rune
		for i := range s.sliced(len(runes), bounds) {
			out = append(out, runes[i])
		}
		return Like(of, string(out))
	}
	list, ok := Items(of)
	if !ok {
		s.Fail("%s cannot be sliced", Describe(of))
	}
	picked := []any{}
	for i := range s.sliced(len(list), bounds) {
		picked = append(picked, Norm(list[i]))
	}
	if series != nil {
		return &Series{Kind: RangeKind, What: series.What, List: picked}
	}
	if _, ok := of.(Tuple); ok {
		return Tuple(picked)
	}
	return picked
}

// sliced are the indexes that a slice of n elements picks.
func (s *State) sliced(n int, bounds [3]*int64) iter.Seq[int64] {
	size, step := int64(n), int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	low, high, from, to := int64(0), size, int64(0), size
	switch {
	case step == 0:
		s.Fail("the step of a slice cannot be zero")
	case step < 0:
		low, high, from, to = -1, size-1, size-1, -1
	}
	for i, bound := range []*int64{&from, &to} {
		if bounds[i] == nil {
			continue
		}
		if *bound = *bounds[i]; *bound < 0 {
			*bound += size
		}
		*bound = min(max(*bound, low), high)
	}
	s.Memory(n)
	return func(yield func(int64) bool) {
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			if !yield(i) || step > size || step < -size {
				return
			}
		}
	}
}

// Filter applies a filter by name.
func (s *State) Filter(name string, in any, a *Args) any {
	return named(s, "filter", s.Filters, name, in, a)(s, in, a)
}

// Test applies a test by name.
func (s *State) Test(name string, in any, a *Args) bool {
	return named(s, "test", s.Tests, name, in, a)(s, in, a)
}

// named is the filter or the test that is about to be applied. Scanning large
// inputs costs steps.
func named[F any](s *State, kind string, known map[string]F, name string, in any, a *Args) F {
	a.Name = "the " + kind + " " + name
	s.Work(1 + weight(in)/16)
	f, ok := known[name]
	if !ok {
		s.Fail("there is no %s %q", kind, name)
	}
	return f
}

func weight(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case Markup:
		return len(v)
	case []any:
		return len(v)
	default:
		return 0
	}
}
