package builtin

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/expression/python"
)

func intFilter(s *python.State, in any, a *python.Args) any {
	v := a.Bind("default?", "base?")
	standard := python.Or(v[0], int64(0))
	base, hasBase := python.Integer(python.Defined(python.Or(v[1], int64(10))))
	in = s.Given(in)
	if text, ok := python.TextOf(in); ok {
		s.DigitsOnly(text)
		if hasBase {
			i, err := parseInt(text, base)
			if errors.Is(err, strconv.ErrRange) {
				s.Fail("%s is too large for a whole number", python.ShortRepr(text))
			}
			if err == nil {
				return i
			}
		}
		if f, ok := parseFloat(s, text); ok {
			return s.Truncate(f)
		}
		return standard
	}
	if i, ok := python.Integer(in); ok {
		return i
	}
	if f, ok := in.(float64); ok {
		return s.Truncate(f)
	}
	return standard
}

func floatFilter(s *python.State, in any, a *python.Args) any {
	standard := python.Or(a.Bind("default?")[0], 0.0)
	in = s.Given(in)
	if text, ok := python.TextOf(in); ok {
		s.DigitsOnly(text)
		if f, ok := parseFloat(s, text); ok {
			return f
		}
	} else if f, ok := python.Float(in); ok {
		return f
	}
	return standard
}

var errNoNumber = errors.New("no number")

// parseInt reads what Python's int() does.
func parseInt(text string, base int64) (int64, error) {
	text = strings.TrimFunc(text, unicode.IsSpace)
	digits := strings.TrimLeft(text, "+-")
	sign := text[:len(text)-len(digits)]
	if len(sign) > 1 || base < 0 || base == 1 || base > 36 {
		return 0, errNoNumber
	}
	prefix := ""
	if len(digits) > 2 && digits[0] == '0' {
		prefix = strings.ToLower(digits[:2])
	}
	of := map[string]int64{"0x": 16, "0o": 8, "0b": 2}[prefix]
	switch {
	case of != 0 && (base == of || base == 0):
		digits, base = strings.TrimPrefix(digits[2:], "_"), of
	case base == 0:
		base = 10
		if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
			return 0, errNoNumber
		}
	}
	if digits == "" || digits[0] == '_' || digits[len(digits)-1] == '_' || strings.Contains(digits, "__") || strings.ContainsAny(digits, "+-") {
		return 0, errNoNumber
	}
	return strconv.ParseInt(sign+strings.ReplaceAll(digits, "_", ""), int(base), 64)
}

// parseFloat reads what Python's float() does; what is not finite is refused.
func parseFloat(s *python.State, text string) (float64, bool) {
	text = strings.ToLower(strings.TrimFunc(text, unicode.IsSpace))
	switch strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+") {
	case "inf", "infinity", "nan":
		s.Fail("%s is not a finite number", python.ShortRepr(text))
	}
	for i, r := range text {
		isDigit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
		if r == '_' && (!isDigit(i-1) || !isDigit(i+1)) || !strings.ContainsRune("0123456789_+-.e", r) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if errors.Is(err, strconv.ErrRange) && math.IsInf(f, 0) {
		s.Fail("%s is not a finite number", python.ShortRepr(text))
	}
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// maxPrecision is the largest one for which a power of ten is exact.
const maxPrecision = 22

func roundFilter(s *python.State, in any, a *python.Args) any {
	v := a.Bind("precision?", "method?")
	given, method := python.Defined(python.Or(v[0], int64(0))), a.String(v[1], "common")
	in = s.Given(in)
	f, ok := python.Float(in)
	if !ok {
		s.Fail("%s is not a number", python.Describe(in))
	}
	if given == nil && method == "common" {
		return s.Truncate(math.RoundToEven(f))
	}
	precision := s.Integer(given, a.Name+" takes")
	if precision > maxPrecision || precision < -maxPrecision {
		s.Fail("round takes a precision from -%d to %d", maxPrecision, maxPrecision)
	}
	if method == "common" {
		if i, ok := python.Integer(in); ok {
			if precision >= 0 {
				return i
			}
			return wholeResult(s, roundTo(new(big.Rat).SetInt64(i), -precision))
		}
		if precision < 0 {
			rounded, _ := new(big.Rat).SetInt(roundTo(new(big.Rat).SetFloat64(f), -precision)).Float64()
			return math.Copysign(rounded, f)
		}
		// The decimal expansion decides, as in Python.
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
		return rounded
	}
	scale, _ := strconv.ParseFloat("1e"+strconv.FormatInt(precision, 10), 64)
	scaled := f * scale
	if i, ok := python.Integer(in); ok && precision >= 0 {
		return float64(i) // already whole, and Jinja2 computes it exactly
	}
	if math.IsInf(scaled, 0) {
		s.Fail("%s is too large to be rounded so", python.FloatText(f))
	}
	switch method {
	case "ceil":
		scaled = math.Ceil(scaled)
	case "floor":
		scaled = math.Floor(scaled)
	default:
		s.Fail("round takes the method common, ceil or floor")
	}
	return scaled/scale + 0 // a zero has no sign here
}

// roundTo rounds to a multiple of 10 ** zeros, halves to the even one.
func roundTo(r *big.Rat, zeros int64) *big.Int {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(zeros), nil)
	r = new(big.Rat).Quo(r, new(big.Rat).SetInt(unit))
	doubled := new(big.Int).Mul(r.Num(), big.NewInt(2))
	doubled.Add(doubled, r.Denom())
	divisor := new(big.Int).Mul(r.Denom(), big.NewInt(2))
	quotient, rest := new(big.Int).DivMod(doubled, divisor, new(big.Int))
	if rest.Sign() == 0 && quotient.Bit(0) == 1 {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return quotient.Mul(quotient, unit)
}

func wholeResult(s *python.State, i *big.Int) any {
	if !i.IsInt64() {
		s.Fail("the result is too large for a whole number")
	}
	return i.Int64()
}
