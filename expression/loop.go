package expression

// loop is what the name loop stands for within a {% for %}.
type loop struct {
	list      []any
	index     int
	depth     int
	mentioned bool
	changed   any // what changed() was asked for last; a tuple
	recurse   func(list []any) string
}

func (n *loopNode) run(sc *scope) signal {
	list := n.list.eval(sc)
	sc.at = n.at
	n.over(sc, sc.iterate(defined(list)), 1)
	return goesOn
}

// over runs the loop over a list.
func (n *loopNode) over(sc *scope, list []any, depth int) {
	sc.work(4 * len(list)) // a turn costs more than a step
	sc.times(int64(len(list)), 16)
	if n.test != nil {
		list = n.tested(sc, list)
	}
	l := &loop{list: list, depth: depth, mentioned: n.mentions}
	if n.recursive {
		l.recurse = func(list []any) string {
			sub := *sc
			sub.out = &output{}
			sub.within(sc.file, func() { n.over(&sub, list, depth+1) })
			return sub.out.String()
		}
	}
	// As in Jinja2, the else is run unless the body once came to its end.
	ended := false
	for i, v := range list {
		l.index = i
		inner := sc.inner(&n.body)
		sc.at = n.at
		n.target.assign(inner, norm(v))
		inner.set("loop", l)
		s := inner.run(n.body.nodes)
		ended = ended || s == goesOn
		if s == breaks {
			break
		}
	}
	if n.otherwise != nil && !ended {
		inner := sc.inner(n.otherwise)
		inner.run(n.otherwise.nodes)
	}
}

// tested are the elements that the test of the loop is true for.
func (n *loopNode) tested(sc *scope, list []any) []any {
	var out []any
	for _, v := range list {
		inner := sc.inner(&body{})
		n.target.assign(inner, norm(v))
		if sc.truth(n.test.eval(inner)) {
			out = append(out, v)
		}
	}
	return out
}

// attribute evaluates loop.name.
func (l *loop) attribute(s *state, name string) any {
	number := func(n int) any { return int64(n) }
	neighbor := func(i int) any {
		if i < 0 || i >= len(l.list) {
			return s.nothing(name)
		}
		return norm(l.list[i])
	}
	switch name {
	case "index":
		return number(l.index + 1)
	case "index0":
		return number(l.index)
	case "revindex":
		return number(len(l.list) - l.index)
	case "revindex0":
		return number(len(l.list) - l.index - 1)
	case "length":
		return number(len(l.list))
	case "depth":
		return number(l.depth)
	case "depth0":
		return number(l.depth - 1)
	case "first":
		return l.index == 0
	case "last":
		return l.index == len(l.list)-1
	case "previtem":
		return neighbor(l.index - 1)
	case "nextitem":
		return neighbor(l.index + 1)
	case "cycle":
		return &function{name: name, call: func(s *state, a *args) any {
			if len(a.positional) == 0 || len(a.named) > 0 {
				s.fail("loop.cycle takes the values, without names")
			}
			return a.positional[l.index%len(a.positional)]
		}}
	case "changed":
		return &function{name: name, call: func(s *state, a *args) any {
			if len(a.named) > 0 {
				s.fail("loop.changed takes values without names")
			}
			before, now := l.changed, tuple(a.positional)
			l.changed = now
			return before == nil || !s.equal(before, now, 0)
		}}
	}
	return nil
}

// call evaluates loop(list), the loop over another list.
func (l *loop) call(s *state, a *args) any {
	a.name = "loop"
	list := a.bind("iterable")[0]
	if l.recurse == nil {
		s.fail("only a loop that is marked as recursive can be called")
	}
	return l.recurse(s.iterate(defined(list)))
}
