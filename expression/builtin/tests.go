package builtin

import (
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/expression/python"
)

// Tests are what stands after "is", by their names.
func Tests() map[string]python.Test {
	// unary makes a test without arguments of something defined.
	unary := func(f func(v any) bool) python.Test {
		return func(s *python.State, in any, a *python.Args) bool {
			a.Bind()
			return f(s.Given(in))
		}
	}
	compare := func(op string) python.Test {
		return func(s *python.State, in any, a *python.Args) bool {
			return s.Compares(op, python.Defined(in), python.Defined(a.Bind("other")[0]))
		}
	}
	isNumber := func(v any) bool {
		_, ok := python.Float(v)
		return ok
	}
	// remainder reports whether a number leaves rest when divided by by.
	remainder := func(s *python.State, in, by, rest any) bool {
		if _, ok := python.Float(python.Defined(in)); !ok {
			s.Fail("the test takes a number, not %s", python.Describe(in))
		}
		return s.Equal(s.Binary("%", in, python.Defined(by)), rest, 0)
	}
	tests := map[string]python.Test{
		"defined": func(_ *python.State, in any, a *python.Args) bool {
			a.Bind()
			_, missing := in.(*python.Undefined)
			return !missing
		},
		"undefined": func(_ *python.State, in any, a *python.Args) bool {
			a.Bind()
			_, missing := in.(*python.Undefined)
			return missing
		},
		"none":    unary(func(v any) bool { return v == nil }),
		"boolean": unary(func(v any) bool { _, ok := v.(bool); return ok }),
		"true":    unary(func(v any) bool { return v == true }),
		"false":   unary(func(v any) bool { return v == false }),
		"integer": unary(func(v any) bool { _, ok := v.(int64); return ok }),
		"float":   unary(func(v any) bool { _, ok := v.(float64); return ok }),
		"number":  unary(isNumber),
		"string":  unary(python.IsText),
		"mapping": unary(func(v any) bool {
			switch v.(type) {
			case map[string]any, *python.Dict:
				return true
			}
			return false
		}),
		"sequence": unary(func(v any) bool {
			_, ok := python.Length(v)
			set, isSeries := v.(*python.Series)
			return ok && (!isSeries || set.Kind == python.RangeKind)
		}),
		"iterable": unary(func(v any) bool {
			_, ok := python.Length(v)
			_, isSeries := v.(*python.Series)
			return ok || isSeries
		}),
		"callable": unary(func(v any) bool {
			switch v.(type) {
			case *python.Function, python.Callable:
				return true
			}
			return false
		}),
		"lower": func(s *python.State, in any, a *python.Args) bool {
			a.Bind()
			return python.IsCase(s.Text(in), unicode.IsLower, unicode.IsUpper)
		},
		"upper": func(s *python.State, in any, a *python.Args) bool {
			a.Bind()
			return python.IsCase(s.Text(in), unicode.IsUpper, unicode.IsLower)
		},
		"odd": func(s *python.State, in any, a *python.Args) bool {
			a.Bind()
			return remainder(s, in, int64(2), int64(1))
		},
		"even": func(s *python.State, in any, a *python.Args) bool {
			a.Bind()
			return remainder(s, in, int64(2), int64(0))
		},
		"divisibleby": func(s *python.State, in any, a *python.Args) bool {
			return remainder(s, in, a.Bind("num")[0], int64(0))
		},
		"in": func(s *python.State, in any, a *python.Args) bool {
			return s.Contains(python.Defined(a.Bind("seq")[0]), python.Defined(in))
		},
		"sameas": func(s *python.State, in any, a *python.Args) bool {
			return same(s, s.Given(in), s.Given(a.Bind("other")[0]))
		},
		"filter": func(s *python.State, in any, a *python.Args) bool { a.Bind(); return known(s, in, "filter", s.Filters) },
		"test":   func(s *python.State, in any, a *python.Args) bool { a.Bind(); return known(s, in, "test", s.Tests) },
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

// known reports whether there is a filter or test of the name.
func known[T any](s *python.State, name any, what string, all map[string]T) bool {
	text, ok := python.TextOf(python.Defined(name))
	if !ok {
		s.Fail("the name of a %s is text, not %s", what, python.Describe(name))
	}
	_, ok = all[text]
	if !ok && slices.Contains(strings.Fields(notProvided), text) {
		s.Fail("the %s %s is not provided", what, text)
	}
	return ok
}

// notProvided are the filters and tests of Jinja2 that are not here.
const notProvided = "batch center filesizeformat forceescape pprint random slice striptags urlize wordwrap xmlattr escaped"

// same reports whether two values are one object in Python. Equal numbers, texts
// and copies may or may not be.
func same(s *python.State, x, y any) bool {
	if reflect.TypeOf(x) != reflect.TypeOf(y) {
		return false
	}
	switch x := x.(type) {
	case nil, bool:
		return x == y
	case *python.Dict, *python.Namespace, *python.Function, *python.Series, *python.Group:
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
	if !s.Equal(x, y, 0) {
		return false
	}
	s.Fail("whether two equal values are the same is not known; compare them with ==")
	return false
}
