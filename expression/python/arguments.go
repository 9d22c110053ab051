package python

import (
	"math"
	"slices"
	"strings"
)

// Args are the evaluated arguments of a call.
type Args struct {
	State      *State
	Name       string // of what is called, for messages
	Positional []any
	Order      []string // of named
	Named      map[string]any
}

// Absent stands for an optional argument that was not given.
type Absent struct{}

// Bind matches the arguments with parameters. A parameter whose name ends in
// "?" may be left out and is absent then.
func (a *Args) Bind(params ...string) []any {
	values := make([]any, len(params))
	if len(a.Positional) > len(params) {
		a.State.Fail("%s takes at most %d arguments, not %d", a.Name, len(params), len(a.Positional))
	}
	used := 0
	for i, param := range params {
		name, optional := strings.CutSuffix(param, "?")
		named, given := a.Named[name]
		switch {
		case i < len(a.Positional) && given:
			a.State.Fail("%s gets the argument %q twice", a.Name, name)
		case i < len(a.Positional):
			values[i] = a.Positional[i]
		case given:
			values[i] = named
			used++
		case optional:
			values[i] = Absent{}
		default:
			a.State.Fail("%s needs the argument %q", a.Name, name)
		}
	}
	if used < len(a.Named) {
		for _, name := range a.Order {
			if !slices.Contains(params, name) && !slices.Contains(params, name+"?") {
				a.State.Fail("%s takes no argument %q", a.Name, name)
			}
		}
	}
	return values
}

// Or returns v, or standard when it is absent.
func Or(v, standard any) any {
	if _, ok := v.(Absent); ok {
		return standard
	}
	return v
}

// Integer tells what whole number v is, as Python's index() does.
func Integer(v any) (int64, bool) {
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

// Float tells what number v is.
func Float(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	i, ok := Integer(v)
	return float64(i), ok
}

// Integer is integer for arguments; who names what wants it.
func (s *State) Integer(v any, who string) int64 {
	i, ok := Integer(Defined(v))
	if !ok {
		s.Fail("%s a whole number, not %s", who, Describe(v))
	}
	return i
}

// Count returns a whole number argument; it is cut to what fits 32 bits, which
// is beyond all bounds, so that computing with it cannot overflow.
func (a *Args) Count(v any, standard int64) int64 {
	i := a.State.Integer(Or(v, standard), a.Name+" takes")
	return min(max(i, math.MinInt32), math.MaxInt32)
}

// String returns an argument that must be text.
func (a *Args) String(v any, standard string) string {
	text, ok := TextOf(Defined(Or(v, standard)))
	if !ok {
		a.State.Fail("%s takes text, not %s", a.Name, Describe(v))
	}
	return text
}

// Flag returns an argument of which only the truth matters.
func (a *Args) Flag(v any, standard bool) bool { return a.State.Truth(Or(v, standard)) }

// Boolean returns an argument that Python takes a number for.
func (a *Args) Boolean(v any, standard bool) bool {
	return a.State.Integer(Or(v, standard), a.Name+" takes") != 0
}
