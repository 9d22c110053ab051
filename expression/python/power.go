package python

import (
	"math"
	"math/big"
)

// powerBits is the precision in which powers are computed.
const powerBits = 320

// floatPower is x ** y rounded to the nearest float, which package math does
// not promise and Python's C library does but for results that lie almost in
// the middle of two floats. Those fail, as what is too large, too small, not
// real or beyond this method does.
func floatPower(x, y float64) (result float64, ok bool) {
	switch {
	case y == 0 || x == 1:
		return 1, true
	case x == 0 && y > 0:
		if math.Mod(y, 2) == 1 || math.Mod(y, 2) == -1 {
			return x, true
		}
		return 0, true
	case x == 0, x < 0 && y != math.Trunc(y), math.Abs(y) > 1<<20:
		return 0, false
	}
	// Beyond these, the exact power would not be representable by far.
	if magnitude := y * math.Log2(math.Abs(x)); magnitude > 1025 || magnitude < -1020 {
		return 0, false
	}
	whole, fraction := math.Modf(math.Abs(y))
	base := new(big.Float).SetPrec(powerBits).SetFloat64(math.Abs(x))
	power := wholePower(base, int64(whole))
	// x ** 0.625 is x ** (1/2) * x ** (1/8): roots of roots.
	root := new(big.Float).Copy(base)
	for bits := 0; fraction > 0; bits++ {
		if bits > 60 {
			return 0, false
		}
		root.Sqrt(root)
		if fraction *= 2; fraction >= 1 {
			power.Mul(power, root)
			fraction--
		}
	}
	if y < 0 {
		power.Quo(new(big.Float).SetPrec(powerBits).SetInt64(1), power)
	}
	result, _ = power.Float64()
	if math.IsInf(result, 0) || result < 0x1p-1000 || nearTie(power, result) {
		return 0, false
	}
	if x < 0 && math.Mod(whole, 2) == 1 {
		result = -result
	}
	return result, true
}

func wholePower(base *big.Float, n int64) *big.Float {
	power, square := new(big.Float).SetPrec(powerBits).SetInt64(1), new(big.Float).Copy(base)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			power.Mul(power, square)
		}
		square.Mul(square, square)
	}
	return power
}

// nearTie reports whether exact lies almost in the middle of two floats, one of
// which is rounded.
func nearTie(exact *big.Float, rounded float64) bool {
	unit := math.Nextafter(rounded, math.Inf(1)) - rounded
	off := new(big.Float).Sub(exact, new(big.Float).SetFloat64(rounded))
	distance, _ := off.Quo(off, new(big.Float).SetFloat64(unit)).Float64()
	return math.Abs(math.Abs(distance)-0.5) < 0.03 || math.Abs(math.Abs(distance)-0.25) < 0.015
}
