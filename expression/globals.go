package expression

import "slices"

// builtinGlobals are the functions that every template has.
func builtinGlobals() map[string]any {
	globals := map[string]any{}
	for name, call := range map[string]func(s *state, a *args) any{
		"range":     rangeFunction,
		"dict":      dictFunction,
		"namespace": namespaceFunction,
		"cycler":    cyclerFunction,
		"joiner":    joinerFunction,
	} {
		globals[name] = &function{name: name, call: call}
	}
	return globals
}

func rangeFunction(s *state, a *args) any {
	var from, to int64
	step := int64(1)
	if len(a.positional) == 1 {
		to = s.integer(a.bind("stop")[0], "range takes")
	} else {
		v := a.bind("start", "stop", "step?")
		from, to = s.integer(v[0], "range takes"), s.integer(v[1], "range takes")
		step = s.integer(or(v[2], int64(1)), "range takes")
	}
	if step == 0 {
		s.fail("the step of range can not be zero")
	}
	list := []any{}
	for i := from; (step > 0 && i < to) || (step < 0 && i > to); {
		if len(list) == maxRange {
			throw(&LimitError{Message: "range() has more than 100000 numbers"})
		}
		list = append(list, i)
		next := i + step
		if (step > 0) != (next > i) {
			break
		}
		i = next
	}
	s.work(len(list))
	s.memory(16 * len(list))
	return list
}

func dictFunction(s *state, a *args) any {
	d := newDict()
	if len(a.positional) > 1 {
		s.fail("dict takes at most one mapping")
	}
	if len(a.positional) == 1 {
		from := defined(a.positional[0])
		keys, values, ok := s.pairs(from)
		if !ok {
			for _, item := range s.iterate(from) {
				pair := s.iterate(defined(item))
				if len(pair) != 2 {
					s.fail("dict takes a mapping or a list of pairs")
				}
				keys, values = append(keys, pair[0]), append(values, pair[1])
			}
		}
		for i, key := range keys {
			if !hashable(defined(key)) {
				s.fail("%s can not be a key", describe(key))
			}
			d.set(key, values[i])
		}
	}
	for _, name := range a.order {
		d.set(name, a.named[name])
	}
	s.memory(64 * len(d.keys))
	return d
}

func namespaceFunction(s *state, a *args) any {
	ns := &namespace{vars: map[string]any{}}
	d := dictFunction(s, a).(*dict)
	for _, key := range d.keys {
		ns.vars[s.text(key)] = d.items[key]
	}
	return ns
}

// cyclerFunction makes an object that goes around its arguments.
func cyclerFunction(s *state, a *args) any {
	list := slices.Clone(a.positional)
	if len(list) == 0 {
		s.fail("cycler needs what to cycle through")
	}
	i := 0
	object := &function{name: "cycler", attr: map[string]any{"current": list[0]}, call: func(s *state, _ *args) any {
		s.fail("a cycler has .next(), .reset() and .current")
		return nil
	}}
	move := func(name string, to func() int) {
		object.attr[name] = &function{name: name, call: func(_ *state, a *args) any {
			a.bind()
			was := list[i]
			i = to()
			object.attr["current"] = list[i]
			return was
		}}
	}
	move("next", func() int { return (i + 1) % len(list) })
	move("reset", func() int { return 0 })
	return object
}

// joinerFunction makes a function that is empty when called first and the
// separator from then on.
func joinerFunction(_ *state, a *args) any {
	separator := or(a.bind("sep?")[0], ", ")
	used := false
	return &function{name: "joiner", call: func(_ *state, a *args) any {
		a.bind()
		if !used {
			used = true
			return ""
		}
		return separator
	}}
}
