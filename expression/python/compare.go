package python

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
)

// Operator evaluates a binary operator but the lazy ones.
func (s *State) Operator(op string, left, right any) any {
	switch op {
	case "~":
		a, b := s.Text(left), s.Text(right)
		s.Memory(len(a) + len(b))
		return a + b
	case "==", "!=", "<", "<=", ">", ">=", "in", "not in":
		return s.Compares(op, Defined(left), Defined(right))
	}
	return s.Binary(op, Defined(left), Defined(right))
}

// Compares evaluates a comparison, or "in", of two defined values.
func (s *State) Compares(op string, x, y any) bool {
	switch op {
	case "==":
		return s.Equal(x, y, 0)
	case "!=":
		return !s.Equal(x, y, 0)
	case "in":
		return s.Contains(y, x)
	case "not in":
		return !s.Contains(y, x)
	}
	n := s.Compare(x, y, 0)
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	default:
		return n >= 0
	}
}

// compareNumbers orders numbers by their exact values: a float64 cannot hold
// every whole number.
func compareNumbers(x, y any) (order int, ok bool) {
	a, intA := Integer(x)
	b, intB := Integer(y)
	if intA && intB {
		return cmp.Compare(a, b), true
	}
	f, okF := Float(x)
	g, okG := Float(y)
	switch {
	case !okF || !okG:
		return 0, false
	case intA:
		return new(big.Float).SetInt64(a).Cmp(big.NewFloat(g)), true
	case intB:
		return big.NewFloat(f).Cmp(new(big.Float).SetInt64(b)), true
	}
	return cmp.Compare(f, g), true
}

// Equal is Python's ==.
func (s *State) Equal(x, y any, deep int) bool {
	s.Work(1)
	s.deep(deep)
	x, y = Defined(Norm(x)), Defined(Norm(y))
	for _, v := range []any{x, y} {
		switch v := v.(type) {
		case *Series:
			s.Refuse(v, "compared")
		case *Undefined:
			s.Given(v)
		}
	}
	if a, ok := TextOf(x); ok {
		b, ok := TextOf(y)
		return ok && a == b
	}
	if _, ok := Float(x); ok {
		order, ok := compareNumbers(x, y)
		return ok && order == 0
	}
	if x == nil || y == nil {
		return x == nil && y == nil
	}
	if a, ok := Items(x); ok {
		b, ok := Items(y)
		_, listX := x.([]any)
		_, listY := y.([]any)
		return ok && listX == listY && slices.EqualFunc(a, b, func(x, y any) bool { return s.Equal(x, y, deep+1) })
	}
	switch x.(type) {
	case map[string]any, *Dict:
		return s.equalMappings(x, y, deep)
	case *Function:
		if _, ok := y.(*Function); ok && x != y {
			s.Fail("cannot compare functions")
		}
		return x == y
	case *Namespace:
		return x == y
	case object:
		s.Fail("cannot compare %s", Describe(x))
	}
	return false
}

func (s *State) equalMappings(x, y any, deep int) bool {
	keys, values, _ := s.Pairs(x)
	if others, _, ok := s.Pairs(y); !ok || len(others) != len(keys) {
		return false
	}
	for i, key := range keys {
		other, ok := Lookup(y, key)
		if !ok || !s.Equal(values[i], other, deep+1) {
			return false
		}
	}
	return true
}

// Compare orders numbers, texts and lists, as Python's < does.
func (s *State) Compare(x, y any, deep int) int {
	s.Work(1)
	s.deep(deep)
	x, y = Defined(Norm(x)), Defined(Norm(y))
	if order, ok := compareNumbers(x, y); ok {
		return order
	}
	if a, ok := TextOf(x); ok {
		if b, ok := TextOf(y); ok {
			return strings.Compare(a, b)
		}
	}
	a, okA := Items(x)
	b, okB := Items(y)
	_, listX := x.([]any)
	_, listY := y.([]any)
	if okA && okB && listX == listY {
		for i := range min(len(a), len(b)) {
			if !s.Equal(a[i], b[i], deep+1) {
				return s.Compare(a[i], b[i], deep+1)
			}
		}
		return cmp.Compare(len(a), len(b))
	}
	s.Fail("cannot compare %s with %s", Describe(x), Describe(y))
	return 0
}

// Contains evaluates item in of.
func (s *State) Contains(of, item any) bool {
	if text, ok := TextOf(of); ok {
		part, ok := TextOf(item)
		if !ok {
			s.Fail("cannot look for %s in text", Describe(item))
		}
		s.Work(len(text) / 16)
		return strings.Contains(text, part)
	}
	if list, ok := Items(of); ok {
		for _, element := range list {
			if s.Equal(element, item, 0) {
				return true
			}
		}
		return false
	}
	switch of := of.(type) {
	case *Series:
		if of.Kind == view && !Hashable(item) {
			s.Fail("cannot look for %s in %s", Describe(item), of.What)
		}
		return s.Contains(s.take(of), item)
	case map[string]any, *Dict:
		if !Hashable(item) {
			s.Fail("%s cannot be a key", Describe(item))
		}
		_, ok := Lookup(of, item)
		return ok
	case *Undefined:
		return false
	}
	s.Fail("cannot look for anything in %s", Describe(of))
	return false
}
