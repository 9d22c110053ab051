package python

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// Sign evaluates -x and +x.
func (s *State) Sign(op string, v any) any {
	switch n := v.(type) {
	case int64, bool:
		i, _ := Integer(n)
		if op == "-" {
			if i == math.MinInt64 {
				s.Fail("the result is too large for a whole number")
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
	s.Fail("%s has no sign", Describe(v))
	return nil
}

// Binary evaluates an arithmetic operator.
func (s *State) Binary(op string, x, y any) any {
	if text, ok := TextOf(x); ok && op == "%" {
		return s.Printf(x, text, y)
	}
	a, okA := Integer(x)
	b, okB := Integer(y)
	if okA && okB {
		return s.integers(op, a, b)
	}
	f, okF := Float(x)
	g, okG := Float(y)
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
	if op == "+" && (IsText(x) || IsText(y)) {
		hint = "; the operator ~ joins anything as text"
	}
	s.Fail("cannot compute %s %s %s%s", Describe(x), op, Describe(y), hint)
	return nil
}

// IsText reports whether a value is text, escaped or not.
func IsText(v any) bool {
	_, ok := TextOf(v)
	return ok
}

// join evaluates + of text and lists.
func (s *State) join(x, y any) (any, bool) {
	if a, ok := TextOf(x); ok {
		b, ok := TextOf(y)
		if !ok {
			return nil, false
		}
		_, markupX := x.(Markup)
		_, markupY := y.(Markup)
		s.Memory(6 * (len(a) + len(b)))
		switch {
		case markupX && !markupY:
			return Markup(a + Escaped(b)), true
		case markupY && !markupX:
			return Markup(Escaped(a) + b), true
		case markupX:
			return Markup(a + b), true
		}
		return a + b, true
	}
	a, okA := Items(x)
	b, okB := Items(y)
	_, tupleX := x.(Tuple)
	_, tupleY := y.(Tuple)
	if !okA || !okB || tupleX != tupleY {
		return nil, false
	}
	s.Memory(16 * (len(a) + len(b)))
	list := append(append(make([]any, 0, len(a)+len(b)), a...), b...)
	if tupleX {
		return Tuple(list), true
	}
	return list, true
}

// repeat evaluates * of text or a list with a number.
func (s *State) repeat(x any, n int64) (any, bool) {
	n = max(n, 0)
	if text, ok := TextOf(x); ok {
		s.Times(n, int64(len(text)))
		if text == "" {
			return x, true
		}
		return Like(x, strings.Repeat(text, int(n))), true
	}
	list, ok := Items(x)
	if !ok {
		return nil, false
	}
	s.Times(n, 16*int64(len(list)))
	if len(list) == 0 {
		n = 0
	}
	out := slices.Repeat(list, int(n))
	if _, ok := x.(Tuple); ok {
		return Tuple(out), true
	}
	return out, true
}

func (s *State) integers(op string, a, b int64) any {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		s.Fail("cannot divide by zero")
	}
	x, y, result := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case "+":
		result.Add(x, y)
	case "-":
		result.Sub(x, y)
	case "*":
		result.Mul(x, y)
	case "**":
		switch {
		case b < 0:
			return s.floats(op, float64(a), float64(b))
		case a >= -1 && a <= 1:
			y.SetInt64(min(b, 2+b%2))
		default:
			y.SetInt64(min(b, 64)) // the 64th power of 2 is too large already
		}
		result.Exp(x, y, nil)
	case "/":
		// Both may be too large for a float64 to hold, and the quotient is not.
		quotient, _ := big.NewRat(a, b).Float64()
		if quotient == 0 && b < 0 {
			return math.Copysign(0, -1) // as Python's 0 / -1
		}
		return quotient
	default:
		quotient, rest := result.QuoRem(x, y, new(big.Int))
		if rest.Sign() != 0 && rest.Sign() != y.Sign() {
			quotient.Sub(quotient, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "%" {
			result = rest
		}
	}
	if !result.IsInt64() {
		s.Fail("the result of %d %s %d is too large for a whole number", a, op, b)
	}
	return result.Int64()
}

func (s *State) floats(op string, a, b float64) any {
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
			s.Fail("%s ** %s has no result that is a number of certain digits", FloatText(a), FloatText(b))
		}
		result = power
	case "/":
		if b == 0 {
			s.Fail("cannot divide by zero")
		}
		result = a / b
	default:
		if b == 0 {
			s.Fail("cannot divide by zero")
		}
		quotient, rest := floatDivision(a, b)
		if result = quotient; op == "%" {
			result = rest
		}
	}
	if math.IsInf(result, 0) || math.IsNaN(result) {
		s.Fail("the result of %s %s %s is not a number", FloatText(a), op, FloatText(b))
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

// Truncate makes a float whole.
func (s *State) Truncate(f float64) any {
	if math.Abs(f) >= math.MaxInt64 || math.IsNaN(f) {
		s.Fail("%s is too large for a whole number", FloatText(f))
	}
	return int64(f)
}

// DigitsOnly refuses the digits of other scripts, which Python reads too.
func (s *State) DigitsOnly(text string) {
	for _, r := range text {
		if r > unicode.MaxASCII && unicode.IsDigit(r) {
			s.Fail("%s has digits other than 0 to 9", ShortRepr(text))
		}
	}
}
