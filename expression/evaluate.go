package expression

import (
	"math"

	"github.com/deployster-go/deployster/expression/python"
)

func (x *constant) eval(sc *scope) any {
	sc.Work(1)
	return x.value
}

func (x *name) eval(sc *scope) any {
	sc.Work(1)
	sc.At = x.at
	if v, ok := sc.lookup(x.name); ok {
		return python.Norm(v)
	}
	return sc.undefinedName(x.name)
}

func (x *sequence) eval(sc *scope) any {
	sc.Work(1)
	sc.Memory(16 * len(x.items))
	list := make([]any, len(x.items))
	for i, item := range x.items {
		list[i] = item.eval(sc)
	}
	if x.tuple {
		return python.Tuple(list)
	}
	return list
}

func (x *mapping) eval(sc *scope) any {
	sc.Work(1)
	sc.Memory(64 * len(x.keys))
	d := python.NewDict()
	for i := range x.keys {
		key, value := python.Defined(x.keys[i].eval(sc)), x.values[i].eval(sc)
		sc.At = x.at
		if !python.Hashable(key) {
			sc.Fail("%s cannot be a key", python.Describe(key))
		}
		d.Set(key, value)
	}
	return d
}

func (x *attribute) eval(sc *scope) any {
	of := x.of.eval(sc)
	sc.Work(1)
	sc.At = x.at
	return sc.Attribute(of, x.name, x)
}

func (x *item) eval(sc *scope) any {
	of, key := x.of.eval(sc), x.key.eval(sc)
	sc.Work(1)
	sc.At = x.at
	return sc.Item(of, key, x)
}

func (x *attribute) Path() string { return source(x.of) }

func (x *item) Path() string { return source(x.of) }

func (x *slice) eval(sc *scope) any {
	of := x.of.eval(sc)
	var bounds [3]*int64
	for i, bound := range x.bounds {
		if bound == nil {
			continue
		}
		v := python.Defined(bound.eval(sc))
		sc.At = x.at
		if v != nil {
			n := sc.Integer(v, "a slice takes")
			bounds[i] = &n
		}
	}
	sc.Work(1)
	sc.At = x.at
	return sc.Slice(python.Defined(of), bounds)
}

// eval evaluates the arguments of a call.
func (list *arguments) eval(sc *scope) *python.Args {
	a := &python.Args{State: sc.State}
	if len(list.positional) > 0 {
		a.Positional = make([]any, len(list.positional))
	}
	for i, x := range list.positional {
		a.Positional[i] = x.eval(sc)
	}
	if len(list.names) > 0 {
		a.Order, a.Named = list.names, make(map[string]any, len(list.names))
	}
	for i, name := range list.names {
		a.Named[name] = list.named[i].eval(sc)
	}
	return a
}

func (x *call) eval(sc *scope) any {
	f := x.function.eval(sc)
	a := x.args.eval(sc)
	sc.Work(2)
	sc.At = x.at
	var result any
	switch f := python.Defined(f).(type) {
	case *python.Function:
		a.Name = f.Name
		result = f.Call(sc.State, a)
	case *loop:
		result = f.Call(sc.State, a)
	default:
		name := source(x.function)
		if name == "" {
			name = "the value"
		}
		sc.Fail("%s is %s and cannot be called", name, python.Describe(f))
	}
	sc.At = x.at
	return result
}

func (x *applied) eval(sc *scope) any {
	in := x.in.eval(sc)
	a := x.args.eval(sc)
	sc.Work(1)
	sc.At = x.at
	if x.isTest {
		return sc.Test(x.name, in, a)
	}
	return python.Norm(sc.Filter(x.name, in, a))
}

func (x *operation) eval(sc *scope) any {
	sc.Work(1)
	var left any
	if x.left != nil {
		left = x.left.eval(sc)
	}
	switch x.op {
	case "and", "or":
		if sc.Truth(left) == (x.op == "or") {
			return left
		}
		return x.right.eval(sc)
	case "**":
		// Jinja2 takes (-1) ** x for -(1 ** x) when -1 is constant and x is not.
		if f, ok := python.Float(python.Defined(left)); ok && math.Signbit(f) && source(x.left) == "" && !isNumber(x.right) {
			sc.At = x.at
			sc.Fail("a power of a negative number that is no variable is not computed; give the number a name first")
		}
	}
	right := x.right.eval(sc)
	sc.At = x.at
	switch {
	case x.op == "not":
		return !sc.Truth(right)
	case x.left == nil:
		return sc.Sign(x.op, python.Defined(right))
	}
	return sc.Operator(x.op, left, right)
}

func isNumber(x expr) bool {
	if sign, ok := x.(*operation); ok && sign.left == nil {
		x = sign.right
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

func (x *comparison) eval(sc *scope) any {
	left := x.left.eval(sc)
	for _, step := range x.steps {
		right := step.right.eval(sc)
		sc.Work(1)
		sc.At = step.at
		if sc.Operator(step.op, left, right) == false {
			return false
		}
		left = right
	}
	return true
}

func (x *conditional) eval(sc *scope) any {
	test := x.test.eval(sc)
	sc.Work(1)
	sc.At = x.at
	switch {
	case sc.Truth(test):
		return x.then.eval(sc)
	case x.otherwise != nil:
		return x.otherwise.eval(sc)
	}
	return &python.Undefined{Lenient: true}
}
