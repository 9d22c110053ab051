package expression

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// test is what stands after "is".
type test func(s *state, in any, a *args) bool

func builtinTests() map[string]test {
	// unary makes a test without arguments of something defined.
	unary := func(f func(v any) bool) test {
		return func(s *state, in any, a *args) bool {
			a.bind()
			return f(s.given(in))
		}
	}
	compare := func(op string) test {
		return func(s *state, in any, a *args) bool {
			return s.compares(op, defined(in), defined(a.bind("other")[0]))
		}
	}
	isNumber := func(v any) bool {
		_, ok := float(v)
		return ok
	}
	// remainder tells whether a number leaves rest when divided by by.
	remainder := func(s *state, in, by, rest any) bool {
		if _, ok := float(defined(in)); !ok {
			s.fail("the test takes a number, not %s", describe(in))
		}
		return s.equal(s.binary("%", in, defined(by)), rest, 0)
	}
	tests := map[string]test{
		"defined": func(_ *state, in any, a *args) bool {
			a.bind()
			_, missing := in.(*undefined)
			return !missing
		},
		"undefined": func(_ *state, in any, a *args) bool {
			a.bind()
			_, missing := in.(*undefined)
			return missing
		},
		"none":    unary(func(v any) bool { return v == nil }),
		"boolean": unary(func(v any) bool { _, ok := v.(bool); return ok }),
		"true":    unary(func(v any) bool { return v == true }),
		"false":   unary(func(v any) bool { return v == false }),
		"integer": unary(func(v any) bool { _, ok := v.(int64); return ok }),
		"float":   unary(func(v any) bool { _, ok := v.(float64); return ok }),
		"number":  unary(isNumber),
		"string":  unary(isText),
		"mapping": unary(func(v any) bool {
			switch v.(type) {
			case map[string]any, *dict:
				return true
			}
			return false
		}),
		"sequence": unary(func(v any) bool {
			_, ok := length(v)
			set, isSeries := v.(*series)
			return ok && (!isSeries || set.kind == rangeKind)
		}),
		"iterable": unary(func(v any) bool {
			_, ok := length(v)
			_, isSeries := v.(*series)
			return ok || isSeries
		}),
		"callable": unary(func(v any) bool {
			switch v.(type) {
			case *function, *loop:
				return true
			}
			return false
		}),
		"lower": func(s *state, in any, a *args) bool {
			a.bind()
			return isCase(s.text(in), unicode.IsLower, unicode.IsUpper)
		},
		"upper": func(s *state, in any, a *args) bool {
			a.bind()
			return isCase(s.text(in), unicode.IsUpper, unicode.IsLower)
		},
		"odd":         func(s *state, in any, a *args) bool { a.bind(); return remainder(s, in, int64(2), int64(1)) },
		"even":        func(s *state, in any, a *args) bool { a.bind(); return remainder(s, in, int64(2), int64(0)) },
		"divisibleby": func(s *state, in any, a *args) bool { return remainder(s, in, a.bind("num")[0], int64(0)) },
		"in":          func(s *state, in any, a *args) bool { return s.contains(defined(a.bind("seq")[0]), defined(in)) },
		"sameas":      func(s *state, in any, a *args) bool { return s.same(s.given(in), s.given(a.bind("other")[0])) },
		"filter":      func(s *state, in any, a *args) bool { a.bind(); return known(s, in, "filter", s.e.filters) },
		"test":        func(s *state, in any, a *args) bool { a.bind(); return known(s, in, "test", s.e.tests) },
	}
	for op, names := range map[string]string{
		"==": "eq equalto", "!=": "ne", "<": "lt lessthan", "<=": "le", ">": "gt greaterthan", ">=": "ge",
	} {
		for _, name := range append(strings.Fields(names), op) {
			tests[name] = compare(op)
		}
	}
	return tests
}

// known tells whether there is a filter or test of the name.
func known[T any](s *state, name any, what string, all map[string]T) bool {
	text, ok := textOf(defined(name))
	if !ok {
		s.fail("the name of a %s is text, not %s", what, describe(name))
	}
	_, ok = all[text]
	if !ok && slices.Contains(strings.Fields(notProvided), text) {
		s.fail("the %s %s is not provided", what, text)
	}
	return ok
}

// notProvided are the filters and tests of Jinja2 that are not here.
const notProvided = "batch center filesizeformat forceescape pprint random slice striptags urlize wordwrap xmlattr escaped"

// same tells whether two values are one object in Python. Equal numbers, texts
// and copies may or may not be.
func (s *state) same(x, y any) bool {
	if reflect.TypeOf(x) != reflect.TypeOf(y) {
		return false
	}
	switch x := x.(type) {
	case nil, bool:
		return x == y
	case *dict, *namespace, *function, *series, *group:
		return x == y
	case []any:
		if y := y.([]any); len(x) > 0 && len(x) == len(y) && &x[0] == &y[0] {
			return true
		}
	case map[string]any:
		if reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer() {
			return true
		}
	}
	if !s.equal(x, y, 0) {
		return false
	}
	s.fail("whether two equal values are the same is not known; compare them with ==")
	return false
}

// isCase is Python's islower and isupper: at least one letter of the case and
// none of the other.
func isCase(text string, is, other func(rune) bool) bool {
	return strings.IndexFunc(text, is) >= 0 && strings.IndexFunc(text, other) < 0
}
