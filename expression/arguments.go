package expression

import (
	"math"
	"slices"
	"strings"
)

// args are the evaluated arguments of a call.
type args struct {
	s          *state
	name       string // of what is called, for messages
	positional []any
	order      []string // of named
	named      map[string]any
}

// absent stands for an optional argument that was not given.
type absent struct{}

// bind matches the arguments with parameters. A parameter whose name ends in
// "?" may be left out and is absent then.
func (a *args) bind(params ...string) []any {
	values := make([]any, len(params))
	if len(a.positional) > len(params) {
		a.s.fail("%s takes at most %d arguments, not %d", a.name, len(params), len(a.positional))
	}
	used := 0
	for i, param := range params {
		name, optional := strings.CutSuffix(param, "?")
		named, given := a.named[name]
		switch {
		case i < len(a.positional) && given:
			a.s.fail("%s gets the argument %q twice", a.name, name)
		case i < len(a.positional):
			values[i] = a.positional[i]
		case given:
			values[i] = named
			used++
		case optional:
			values[i] = absent{}
		default:
			a.s.fail("%s needs the argument %q", a.name, name)
		}
	}
	if used < len(a.named) {
		for _, name := range a.order {
			if !slices.Contains(params, name) && !slices.Contains(params, name+"?") {
				a.s.fail("%s takes no argument %q", a.name, name)
			}
		}
	}
	return values
}

// or returns v, or standard when it is absent.
func or(v, standard any) any {
	if _, ok := v.(absent); ok {
		return standard
	}
	return v
}

// integer tells what whole number v is, as Python's index() does.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// float tells what number v is.
func float(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	i, ok := integer(v)
	return float64(i), ok
}

// integer is integer for arguments; who names what wants it.
func (s *state) integer(v any, who string) int64 {
	i, ok := integer(defined(v))
	if !ok {
		s.fail("%s a whole number, not %s", who, describe(v))
	}
	return i
}

// count returns a whole number argument; it is cut to what fits 32 bits, which
// is beyond all bounds, so that computing with it can not overflow.
func (a *args) count(v any, standard int64) int64 {
	i := a.s.integer(or(v, standard), a.name+" takes")
	return min(max(i, math.MinInt32), math.MaxInt32)
}

// string returns an argument that must be text.
func (a *args) string(v any, standard string) string {
	text, ok := textOf(defined(or(v, standard)))
	if !ok {
		a.s.fail("%s takes text, not %s", a.name, describe(v))
	}
	return text
}

func (a *args) flag(v any, standard bool) bool { return a.s.truth(or(v, standard)) }

// boolean returns an argument that Python takes a number for.
func (a *args) boolean(v any, standard bool) bool {
	return a.s.integer(or(v, standard), a.name+" takes") != 0
}
