package expression

import (
	"github.com/deployster-go/deployster/expression/python"
)

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
	sc.At = n.at
	n.over(sc, sc.Iterate(python.Defined(list)), 1)
	return goesOn
}

// over runs the loop over a list.
func (n *loopNode) over(sc *scope, list []any, depth int) {
	sc.Work(4 * len(list)) // a turn costs more than a step
	sc.Times(int64(len(list)), 16)
	if n.test != nil {
		list = n.tested(sc, list)
	}
	l := &loop{list: list, depth: depth, mentioned: n.mentions}
	if n.recursive {
		l.recurse = func(list []any) string {
			sub := *sc
			sub.out = &output{}
			sub.Within(sc.File, func() { n.over(&sub, list, depth+1) })
			return sub.out.String()
		}
	}
	// As in Jinja2, the else is run unless the body once came to its end.
	ended := false
	for i, v := range list {
		l.index = i
		inner := sc.inner(&n.body)
		sc.At = n.at
		n.target.assign(inner, python.Norm(v))
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
		n.target.assign(inner, python.Norm(v))
		if sc.Truth(n.test.eval(inner)) {
			out = append(out, v)
		}
	}
	return out
}

func (l *loop) Describe() string { return "a loop" }

// Attribute evaluates loop.name.
func (l *loop) Attribute(s *python.State, name string) any {
	number := func(n int) any { return int64(n) }
	neighbor := func(i int) any {
		if i < 0 || i >= len(l.list) {
			return s.Nothing(name)
		}
		return python.Norm(l.list[i])
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
		return &python.Function{Name: name, Call: func(s *python.State, a *python.Args) any {
			if len(a.Positional) == 0 || len(a.Named) > 0 {
				s.Fail("loop.cycle takes the values, without names")
			}
			return a.Positional[l.index%len(a.Positional)]
		}}
	case "changed":
		return &python.Function{Name: name, Call: func(s *python.State, a *python.Args) any {
			if len(a.Named) > 0 {
				s.Fail("loop.changed takes values without names")
			}
			before, now := l.changed, python.Tuple(a.Positional)
			l.changed = now
			return before == nil || !s.Equal(before, now, 0)
		}}
	}
	return nil
}

// Call evaluates loop(list), the loop over another list.
func (l *loop) Call(s *python.State, a *python.Args) any {
	a.Name = "loop"
	list := a.Bind("iterable")[0]
	if l.recurse == nil {
		s.Fail("only a loop that is marked as recursive can be called")
	}
	return l.recurse(s.Iterate(python.Defined(list)))
}
