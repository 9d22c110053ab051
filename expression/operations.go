package expression

import (
	"math"
	"sort"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// operation is what rewritten nodes evaluate to: in is the value it is applied
// to, a its arguments.
type operation func(s *state, in any, a *args, scope *exec.Context) any

// operations are the filters that gonja is given; what a template calls a
// filter is applied by the operation of that name.
func operations() map[string]operation {
	return map[string]operation{
		"name": func(s *state, _ any, a *args, scope *exec.Context) any {
			return s.name(a.positional[0].(string), scope)
		},
		"list":     func(s *state, _ any, a *args, _ *exec.Context) any { return s.list(a.positional) },
		"tuple":    func(s *state, _ any, a *args, _ *exec.Context) any { return tuple(s.list(a.positional)) },
		"dict":     dictOperation,
		"item":     itemOperation,
		"slice":    sliceOperation,
		"call":     callOperation,
		"argument": argumentOperation,
		"attribute": func(s *state, in any, a *args, _ *exec.Context) any {
			return s.attribute(in, a.positional[0].(string), a.positional[1].(string))
		},
		"filter": func(s *state, in any, a *args, _ *exec.Context) any {
			return s.filter(a.first(), in, a)
		},
		"test": func(s *state, in any, a *args, _ *exec.Context) any {
			return s.test(a.first(), in, a)
		},
		"binary": func(s *state, in any, a *args, _ *exec.Context) any {
			return s.operator(a.positional[0].(string), in, a.positional[1])
		},
		"sign": func(s *state, in any, a *args, _ *exec.Context) any {
			return s.sign(a.positional[0].(string), defined(in))
		},
		// Jinja2 takes (-1) ** x for -(1 ** x) when -1 is constant and x is not.
		"base": func(s *state, in any, _ *args, _ *exec.Context) any {
			if f, ok := float(defined(in)); ok && math.Signbit(f) {
				s.fail("a power of a negative number that is no variable is not computed; give the number a name first")
			}
			return in
		},
		"not":     func(s *state, in any, _ *args, _ *exec.Context) any { return !s.truth(in) },
		"truth":   func(s *state, in any, _ *args, _ *exec.Context) any { return s.truth(in) },
		"lenient": func(_ *state, _ any, _ *args, _ *exec.Context) any { return &undefined{lenient: true} },
		"only":    func(_ *state, in any, _ *args, _ *exec.Context) any { return in.([]any)[0] },
		"defined": func(_ *state, in any, _ *args, _ *exec.Context) any { return defined(in) },
		"checked": func(s *state, in any, _ *args, _ *exec.Context) any {
			// gonja decides by the Go value whether it is true.
			switch v := defined(in).(type) {
			case *dict:
				if len(v.keys) == 0 {
					return map[string]any{}
				}
			case *series:
				if !s.truth(v) {
					s.refuse(v, "false and used again")
				}
			case *undefined:
				return ""
			}
			return in
		},
		"each": eachOperation,
		"out": func(s *state, in any, _ *args, _ *exec.Context) any {
			text := s.text(in)
			s.memory(len(text))
			return text
		},
	}
}

// operate adapts an operation to gonja.
func (s *state) operate(op operation) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
		s.work(1)
		a := &args{s: s}
		for _, arg := range params.Args[1:] {
			a.positional = append(a.positional, unwrap(arg))
		}
		where := params.Args[0].Integer()
		for name := range params.KwArgs {
			a.order = append(a.order, name)
		}
		sort.Strings(a.order)
		for _, name := range a.order {
			if a.named == nil {
				a.named = map[string]any{}
			}
			a.named[name] = unwrap(params.KwArgs[name])
		}
		s.at = position{where >> columnBits, where & (1<<columnBits - 1)}
		return exec.AsValue(op(s, unwrap(in), a, e.Environment.Context))
	}
}

// unwrap takes a value out of gonja's wrapping. An error is not a value here:
// it ends the evaluation.
func unwrap(v any) any {
	for {
		wrapped, ok := v.(*exec.Value)
		if !ok {
			break
		}
		v = wrapped.Interface()
	}
	if err, ok := v.(error); ok {
		throw(&EvalError{Line: 1, Message: rootMessage(err)})
	}
	return norm(v)
}

// first takes the first argument, a name, off the others.
func (a *args) first() string {
	name := a.positional[0].(string)
	a.positional = a.positional[1:]
	return name
}

func (s *state) list(items []any) []any {
	s.memory(16 * len(items))
	return append(make([]any, 0, len(items)), items...)
}

func dictOperation(s *state, _ any, a *args, _ *exec.Context) any {
	s.memory(32 * len(a.positional))
	d := newDict()
	for i := 0; i+1 < len(a.positional); i += 2 {
		key := defined(a.positional[i])
		if !hashable(key) {
			s.fail("%s can not be a key", describe(key))
		}
		d.set(key, a.positional[i+1])
	}
	return d
}

func itemOperation(s *state, in any, a *args, _ *exec.Context) any {
	return s.item(in, a.positional[0], a.positional[1].(string))
}

func sliceOperation(s *state, in any, a *args, _ *exec.Context) any {
	var bounds [3]*int64
	for i := range bounds {
		if v := defined(a.positional[i]); v != nil {
			n := s.integer(v, "a slice takes")
			bounds[i] = &n
		}
	}
	return s.slice(defined(in), bounds[0], bounds[1], bounds[2])
}

func argumentOperation(s *state, _ any, a *args, _ *exec.Context) any {
	name := a.positional[1].(string)
	return s.undefined(func() *UndefinedError {
		return &UndefinedError{Name: name, Missing: name, Of: "the call of the macro " + a.positional[0].(string), Kind: "without that argument"}
	}, s.at)
}

// eachOperation is what a loop goes through: the list, or for several targets
// a list of lists of so many.
func eachOperation(s *state, in any, a *args, _ *exec.Context) any {
	list := s.iterate(defined(in))
	targets, data := a.positional[0].(int64), a.positional[1].(int64)
	s.work(8 * len(list)) // a round of gonja's costs more than a step
	s.times(int64(len(list)), data+16)
	if targets < 2 {
		return list
	}
	out := make([]any, len(list))
	for i, item := range list {
		parts := s.iterate(defined(item))
		if int64(len(parts)) != targets {
			s.fail("can not assign %d values to %d names", len(parts), targets)
		}
		out[i] = parts
	}
	return out
}

func callOperation(s *state, in any, a *args, _ *exec.Context) any {
	name := a.first()
	if name == "" {
		name = "the value"
	}
	s.work(1)
	at := s.at
	var result any
	switch f := defined(in).(type) {
	case *function:
		a.name = f.name
		result = f.call(s, a)
	case exec.Macro:
		result = s.callMacro(f, a, false)
	case func(*exec.VarArgs) *exec.Value:
		result = s.callMacro(f, a, true)
	case func() string:
		a.name = name
		a.bind()
		s.within(func() { result = f() })
	default:
		s.fail("%s is %s and can not be called", name, describe(f))
	}
	s.at = at
	return result
}

// callMacro calls something of gonja's that renders: a macro, or a recursive
// loop, which does not know this package's mappings.
func (s *state) callMacro(f func(*exec.VarArgs) *exec.Value, a *args, recursive bool) (result any) {
	va := exec.NewVarArgs()
	for _, v := range a.positional {
		switch mapping := v.(type) {
		case *dict:
			if recursive {
				v = mapping.keys
			}
		case *series:
			if recursive {
				v = s.take(mapping)
			}
		}
		va.Args = append(va.Args, exec.AsValue(v))
	}
	for name, v := range a.named {
		va.KwArgs[name] = exec.AsValue(v)
	}
	s.within(func() {
		out := f(va)
		if out.IsError() {
			s.fail("%s", rootMessage(out))
		}
		result = unwrap(out)
	})
	return result
}
