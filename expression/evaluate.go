package expression

import (
	"math"
)

func (x *constant) eval(*scope) any { return x.value }

func (x *name) eval(sc *scope) any {
	sc.work(1)
	sc.at = x.at
	if v, ok := sc.lookup(x.name); ok {
		return norm(v)
	}
	return sc.undefinedName(x.name)
}

func (x *sequence) eval(sc *scope) any {
	sc.work(1)
	sc.memory(16 * len(x.items))
	list := make([]any, len(x.items))
	for i, item := range x.items {
		list[i] = item.eval(sc)
	}
	if x.tuple {
		return tuple(list)
	}
	return list
}

func (x *mapping) eval(sc *scope) any {
	sc.work(1)
	sc.memory(64 * len(x.keys))
	d := newDict()
	for i := range x.keys {
		key, value := defined(x.keys[i].eval(sc)), x.values[i].eval(sc)
		sc.at = x.at
		if !hashable(key) {
			sc.fail("%s can not be a key", describe(key))
		}
		d.set(key, value)
	}
	return d
}

func (x *attribute) eval(sc *scope) any {
	of := x.of.eval(sc)
	sc.work(1)
	sc.at = x.at
	return sc.attribute(of, x.name, x.of)
}

func (x *item) eval(sc *scope) any {
	of, key := x.of.eval(sc), x.key.eval(sc)
	sc.work(1)
	sc.at = x.at
	return sc.item(of, key, x.of)
}

func (x *slice) eval(sc *scope) any {
	of := x.of.eval(sc)
	var bounds [3]*int64
	for i, bound := range x.bounds {
		if bound == nil {
			continue
		}
		v := defined(bound.eval(sc))
		sc.at = x.at
		if v != nil {
			n := sc.integer(v, "a slice takes")
			bounds[i] = &n
		}
	}
	sc.work(1)
	sc.at = x.at
	return sc.slice(defined(of), bounds[0], bounds[1], bounds[2])
}

// eval evaluates the arguments of a call.
func (list *arguments) eval(sc *scope) *args {
	a := &args{s: sc.state}
	if len(list.positional) > 0 {
		a.positional = make([]any, len(list.positional))
	}
	for i, x := range list.positional {
		a.positional[i] = x.eval(sc)
	}
	if len(list.names) > 0 {
		a.order, a.named = list.names, make(map[string]any, len(list.names))
	}
	for i, name := range list.names {
		a.named[name] = list.named[i].eval(sc)
	}
	return a
}

func (x *call) eval(sc *scope) any {
	f := x.function.eval(sc)
	a := x.args.eval(sc)
	sc.work(2)
	sc.at = x.at
	var result any
	switch f := defined(f).(type) {
	case *function:
		a.name = f.name
		result = f.call(sc.state, a)
	case *loop:
		result = f.call(sc.state, a)
	default:
		name := source(x.function)
		if name == "" {
			name = "the value"
		}
		sc.fail("%s is %s and can not be called", name, describe(f))
	}
	sc.at = x.at
	return result
}

func (x *filtered) eval(sc *scope) any {
	in := x.in.eval(sc)
	a := x.args.eval(sc)
	sc.work(1)
	sc.at = x.at
	return norm(sc.filter(x.filter, in, a))
}

func (x *tested) eval(sc *scope) any {
	in := x.in.eval(sc)
	a := x.args.eval(sc)
	sc.work(1)
	sc.at = x.at
	return sc.test(x.test, in, a)
}

func (x *not) eval(sc *scope) any {
	v := x.x.eval(sc)
	sc.work(1)
	sc.at = x.at
	return !sc.truth(v)
}

func (x *unary) eval(sc *scope) any {
	v := x.x.eval(sc)
	sc.work(1)
	sc.at = x.at
	return sc.sign(x.op, defined(v))
}

func (x *binary) eval(sc *scope) any {
	left := x.left.eval(sc)
	if x.op == "**" && source(x.left) == "" && !isNumber(x.right) {
		// Jinja2 takes (-1) ** x for -(1 ** x) when -1 is constant and x is not.
		if f, ok := float(defined(left)); ok && math.Signbit(f) {
			sc.at = x.at
			sc.fail("a power of a negative number that is no variable is not computed; give the number a name first")
		}
	}
	right := x.right.eval(sc)
	sc.work(1)
	sc.at = x.at
	return sc.operator(x.op, left, right)
}

func isNumber(x expr) bool {
	if sign, ok := x.(*unary); ok {
		x = sign.x
	}
	c, ok := x.(*constant)
	if !ok {
		return false
	}
	switch c.value.(type) {
	case int64, float64:
		return true
	}
	return false
}

func (x *logic) eval(sc *scope) any {
	left := x.left.eval(sc)
	sc.work(1)
	if sc.truth(left) == x.or {
		return left
	}
	return x.right.eval(sc)
}

func (x *comparison) eval(sc *scope) any {
	left := x.left.eval(sc)
	for _, step := range x.steps {
		right := step.right.eval(sc)
		sc.work(1)
		sc.at = step.at
		if sc.operator(step.op, left, right) == false {
			return false
		}
		left = right
	}
	return true
}

func (x *conditional) eval(sc *scope) any {
	test := x.test.eval(sc)
	sc.work(1)
	sc.at = x.at
	switch {
	case sc.truth(test):
		return x.then.eval(sc)
	case x.otherwise != nil:
		return x.otherwise.eval(sc)
	}
	return &undefined{lenient: true}
}
