package expression

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// sign evaluates -x and +x.
func (s *state) sign(op string, v any) any {
	switch n := v.(type) {
	case int64, bool:
		i, _ := integer(n)
		if op == "-" {
			if i == math.MinInt64 {
				s.fail("the result is too large for a whole number")
			}
			i = -i
		}
		return i
	case float64:
		if op == "-" {
			return -n
		}
		return n
	}
	s.fail("%s has no sign", describe(v))
	return nil
}

// binary evaluates an arithmetic operator.
func (s *state) binary(op string, x, y any) any {
	if text, ok := textOf(x); ok && op == "%" {
		return s.printf(x, text, y)
	}
	a, okA := integer(x)
	b, okB := integer(y)
	if okA && okB {
		return s.integers(op, a, b)
	}
	f, okF := float(x)
	g, okG := float(y)
	if okF && okG {
		return s.floats(op, f, g)
	}
	switch op {
	case "+":
		if result, ok := s.join(x, y); ok {
			return result
		}
	case "*":
		if okB {
			if result, ok := s.repeat(x, b); ok {
				return result
			}
		}
		if okA {
			if result, ok := s.repeat(y, a); ok {
				return result
			}
		}
	}
	hint := ""
	if op == "+" && (isText(x) || isText(y)) {
		hint = "; the operator ~ joins anything as text"
	}
	s.fail("can not compute %s %s %s%s", describe(x), op, describe(y), hint)
	return nil
}

func isText(v any) bool {
	_, ok := textOf(v)
	return ok
}

// join evaluates + of text and lists.
func (s *state) join(x, y any) (any, bool) {
	if a, ok := textOf(x); ok {
		b, ok := textOf(y)
		if !ok {
			return nil, false
		}
		_, markupX := x.(markup)
		_, markupY := y.(markup)
		s.memory(6 * (len(a) + len(b)))
		switch {
		case markupX && !markupY:
			return markup(a + escaped(b)), true
		case markupY && !markupX:
			return markup(escaped(a) + b), true
		case markupX:
			return markup(a + b), true
		}
		return a + b, true
	}
	a, okA := items(x)
	b, okB := items(y)
	_, tupleX := x.(tuple)
	_, tupleY := y.(tuple)
	if !okA || !okB || tupleX != tupleY {
		return nil, false
	}
	s.memory(16 * (len(a) + len(b)))
	list := append(append(make([]any, 0, len(a)+len(b)), a...), b...)
	if tupleX {
		return tuple(list), true
	}
	return list, true
}

// repeat evaluates * of text or a list with a number.
func (s *state) repeat(x any, n int64) (any, bool) {
	n = max(n, 0)
	if text, ok := textOf(x); ok {
		s.times(n, int64(len(text)))
		if text == "" {
			return x, true
		}
		return like(x, strings.Repeat(text, int(n))), true
	}
	list, ok := items(x)
	if !ok {
		return nil, false
	}
	s.times(n, 16*int64(len(list)))
	var out []any
	if len(list) > 0 {
		out = make([]any, 0, int(n)*len(list))
		for range n {
			out = append(out, list...)
		}
	}
	if _, ok := x.(tuple); ok {
		return tuple(out), true
	}
	if out == nil {
		out = []any{}
	}
	return out, true
}

func (s *state) integers(op string, a, b int64) any {
	overflow := false
	var result int64
	switch op {
	case "+":
		result = a + b
		overflow = (result > a) != (b > 0) && b != 0
	case "-":
		result = a - b
		overflow = (result < a) != (b > 0) && b != 0
	case "*":
		result = a * b
		overflow = a != 0 && (result/a != b || (a == -1 && b == math.MinInt64))
	case "**":
		if b < 0 {
			return s.floats(op, float64(a), float64(b))
		}
		result, overflow = power(a, b)
	case "/":
		if b == 0 {
			s.fail("can not divide by zero")
		}
		// Both may be too large for a float64 to hold, and the quotient is not.
		quotient, _ := big.NewRat(a, b).Float64()
		if quotient == 0 && b < 0 {
			return math.Copysign(0, -1) // as Python's 0 / -1
		}
		return quotient
	default:
		if b == 0 {
			s.fail("can not divide by zero")
		}
		if a == math.MinInt64 && b == -1 {
			overflow = op == "//"
			break
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient--
			rest += b
		}
		result = quotient
		if op == "%" {
			result = rest
		}
	}
	if overflow {
		s.fail("the result of %d %s %d is too large for a whole number", a, op, b)
	}
	return result
}

func power(base, exponent int64) (result int64, overflow bool) {
	result = 1
	switch base {
	case 0, 1, -1:
		exponent = min(exponent, 2+exponent%2)
	}
	for range min(exponent, 64) {
		next := result * base
		if base != 0 && next/base != result {
			return 0, true
		}
		result = next
	}
	return result, exponent > 64
}

func (s *state) floats(op string, a, b float64) any {
	var result float64
	switch op {
	case "+":
		result = a + b
	case "-":
		result = a - b
	case "*":
		result = a * b
	case "**":
		power, ok := floatPower(a, b)
		if !ok {
			s.fail("%s ** %s has no result that is a number of certain digits", floatText(a), floatText(b))
		}
		result = power
	case "/":
		if b == 0 {
			s.fail("can not divide by zero")
		}
		result = a / b
	default:
		if b == 0 {
			s.fail("can not divide by zero")
		}
		quotient, rest := floatDivision(a, b)
		if result = quotient; op == "%" {
			result = rest
		}
	}
	if math.IsInf(result, 0) || math.IsNaN(result) {
		s.fail("the result of %s %s %s is not a number", floatText(a), op, floatText(b))
	}
	return result
}

// floatDivision is Python's // and %, step by step, so that it rounds alike.
func floatDivision(a, b float64) (quotient, rest float64) {
	rest = math.Mod(a, b)
	quotient = (a - rest) / b
	if rest == 0 {
		rest = math.Copysign(0, b)
	} else if (b < 0) != (rest < 0) {
		rest += b
		quotient--
	}
	if quotient == 0 {
		return math.Copysign(0, a/b), rest
	}
	whole := math.Floor(quotient)
	if quotient-whole > 0.5 {
		whole++
	}
	return whole, rest
}

// equal is Python's ==.
func (s *state) equal(x, y any, deep int) bool {
	s.work(1)
	s.deep(deep)
	x, y = defined(norm(x)), defined(norm(y))
	for _, v := range []any{x, y} {
		switch v := v.(type) {
		case *series:
			s.refuse(v, "compared")
		case *undefined:
			s.given(v)
		}
	}
	if a, ok := textOf(x); ok {
		b, ok := textOf(y)
		return ok && a == b
	}
	if _, ok := float(x); ok {
		order, ok := compareNumbers(x, y)
		return ok && order == 0
	}
	if x == nil || y == nil {
		return x == nil && y == nil
	}
	if a, ok := items(x); ok {
		b, ok := items(y)
		_, listX := x.([]any)
		_, listY := y.([]any)
		if !ok || listX != listY || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !s.equal(a[i], b[i], deep+1) {
				return false
			}
		}
		return true
	}
	switch x.(type) {
	case map[string]any, *dict:
		keys, values, _ := s.pairs(x)
		if others, _, ok := s.pairs(y); !ok || len(others) != len(keys) {
			return false
		}
		for i, key := range keys {
			other, ok := lookup(y, key)
			if !ok || !s.equal(values[i], other, deep+1) {
				return false
			}
		}
		return true
	case *function:
		if _, ok := y.(*function); ok && x != y {
			s.fail("can not compare functions")
		}
		return x == y
	case *namespace:
		return x == y
	case *loop, *templateBlocks:
		s.fail("can not compare %s", describe(x))
	}
	return false
}

// compare orders numbers, texts and lists, as Python's < does.
func (s *state) compare(x, y any, deep int) int {
	s.work(1)
	s.deep(deep)
	x, y = defined(norm(x)), defined(norm(y))
	if order, ok := compareNumbers(x, y); ok {
		return order
	}
	if a, ok := textOf(x); ok {
		if b, ok := textOf(y); ok {
			return strings.Compare(a, b)
		}
	}
	a, okA := items(x)
	b, okB := items(y)
	_, listX := x.([]any)
	_, listY := y.([]any)
	if okA && okB && listX == listY {
		for i := range min(len(a), len(b)) {
			if !s.equal(a[i], b[i], deep+1) {
				return s.compare(a[i], b[i], deep+1)
			}
		}
		return cmp.Compare(len(a), len(b))
	}
	s.fail("can not compare %s with %s", describe(x), describe(y))
	return 0
}

// contains evaluates item in of.
func (s *state) contains(of, item any) bool {
	if text, ok := textOf(of); ok {
		part, ok := textOf(item)
		if !ok {
			s.fail("can not look for %s in text", describe(item))
		}
		s.work(len(text) / 16)
		return strings.Contains(text, part)
	}
	if list, ok := items(of); ok {
		for _, element := range list {
			if s.equal(element, item, 0) {
				return true
			}
		}
		return false
	}
	switch of := of.(type) {
	case *series:
		if of.kind == view && !hashable(item) {
			s.fail("can not look for %s in %s", describe(item), of.what)
		}
		return s.contains(s.take(of), item)
	case map[string]any, *dict:
		if !hashable(item) {
			s.fail("%s can not be a key", describe(item))
		}
		_, ok := lookup(of, item)
		return ok
	case *undefined:
		return false
	}
	s.fail("can not look for anything in %s", describe(of))
	return false
}
