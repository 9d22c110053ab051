package expression

// builtinGlobals are the functions that every template has.
func builtinGlobals() map[string]any {
	globals := map[string]any{}
	for name, call := range map[string]func(s *state, a *args) any{
		"range":     rangeFunction,
		"dict":      dictFunction,
		"namespace": namespaceFunction,
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
	return &series{kind: rangeKind, what: "what range() gives", list: list}
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
		ns.vars[s.text(key)] = d.items[hashed(key)]
	}
	return ns
}
