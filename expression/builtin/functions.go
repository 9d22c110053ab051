package builtin

import (
	"github.com/deployster-go/deployster/expression/python"
)

// Functions are the functions that every template has.
func Functions() map[string]any {
	globals := map[string]any{}
	for name, call := range map[string]func(s *python.State, a *python.Args) any{
		"range":     rangeFunction,
		"dict":      dictFunction,
		"namespace": namespaceFunction,
	} {
		globals[name] = &python.Function{Name: name, Call: call}
	}
	return globals
}

func rangeFunction(s *python.State, a *python.Args) any {
	var from, to int64
	step := int64(1)
	if len(a.Positional) == 1 {
		to = s.Integer(a.Bind("stop")[0], "range takes")
	} else {
		v := a.Bind("start", "stop", "step?")
		from, to = s.Integer(v[0], "range takes"), s.Integer(v[1], "range takes")
		step = s.Integer(python.Or(v[2], int64(1)), "range takes")
	}
	if step == 0 {
		s.Fail("the step of range cannot be zero")
	}
	list := []any{}
	for i := from; (step > 0 && i < to) || (step < 0 && i > to); {
		if len(list) == python.MaxRange {
			python.Throw(&python.LimitError{Message: "range() has more than 100000 numbers"})
		}
		list = append(list, i)
		next := i + step
		if (step > 0) != (next > i) {
			break
		}
		i = next
	}
	s.Work(len(list))
	s.Memory(16 * len(list))
	return &python.Series{Kind: python.RangeKind, What: "what range() gives", List: list}
}

func dictFunction(s *python.State, a *python.Args) any {
	d := python.NewDict()
	if len(a.Positional) > 1 {
		s.Fail("dict takes at most one mapping")
	}
	if len(a.Positional) == 1 {
		from := python.Defined(a.Positional[0])
		keys, values, ok := s.Pairs(from)
		if !ok {
			for _, item := range s.Iterate(from) {
				pair := s.Iterate(python.Defined(item))
				if len(pair) != 2 {
					s.Fail("dict takes a mapping or a list of pairs")
				}
				keys, values = append(keys, pair[0]), append(values, pair[1])
			}
		}
		for i, key := range keys {
			if !python.Hashable(python.Defined(key)) {
				s.Fail("%s cannot be a key", python.Describe(key))
			}
			d.Set(key, values[i])
		}
	}
	for _, name := range a.Order {
		d.Set(name, a.Named[name])
	}
	s.Memory(64 * len(d.Keys))
	return d
}

func namespaceFunction(s *python.State, a *python.Args) any {
	ns := &python.Namespace{Vars: map[string]any{}}
	d := dictFunction(s, a).(*python.Dict)
	for _, key := range d.Keys {
		ns.Vars[s.Text(key)] = d.Items[python.Hashed(key)]
	}
	return ns
}
