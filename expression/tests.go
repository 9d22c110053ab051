package expression

import (
	"strings"
	"unicode"
)

// test is what stands after "is".
type test func(s *state, in any, a *args) bool

func builtinTests() map[string]test {
	// unary makes a test without arguments of something defined.
	unary := func(f func(v any) bool) test {
		return func(_ *state, in any, a *args) bool {
			a.bind()
			return f(defined(in))
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
	isSequence := func(v any) bool {
		_, ok := length(v)
		return ok
	}
	whole := func(s *state, in any) int64 { return s.integer(in, "the test takes") }
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
		"sequence": unary(isSequence),
		"iterable": unary(isSequence),
		"callable": unary(func(v any) bool { _, ok := v.(*function); return ok }),
		"lower": func(s *state, in any, a *args) bool {
			a.bind()
			return isCase(s.text(in), unicode.IsLower, unicode.IsUpper)
		},
		"upper": func(s *state, in any, a *args) bool {
			a.bind()
			return isCase(s.text(in), unicode.IsUpper, unicode.IsLower)
		},
		"odd":  func(s *state, in any, a *args) bool { a.bind(); return whole(s, in)%2 != 0 },
		"even": func(s *state, in any, a *args) bool { a.bind(); return whole(s, in)%2 == 0 },
		"divisibleby": func(s *state, in any, a *args) bool {
			by := a.bind("num")[0]
			return s.equal(s.binary("%", defined(in), defined(by)), int64(0), 0)
		},
		"in": func(s *state, in any, a *args) bool { return s.contains(defined(a.bind("seq")[0]), defined(in)) },
		"sameas": func(s *state, in any, a *args) bool {
			other := defined(a.bind("other")[0])
			return describe(defined(in)) == describe(other) && s.equal(in, other, 0)
		},
		"filter": func(s *state, in any, a *args) bool { a.bind(); _, ok := s.e.filters[s.text(in)]; return ok },
		"test":   func(s *state, in any, a *args) bool { a.bind(); _, ok := s.e.tests[s.text(in)]; return ok },
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

// isCase is Python's islower and isupper: at least one letter of the case and
// none of the other.
func isCase(text string, is, other func(rune) bool) bool {
	return strings.IndexFunc(text, is) >= 0 && strings.IndexFunc(text, other) < 0
}
