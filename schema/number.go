package schema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxNumber is how many characters a number may have.
const maxNumber = 40

// oddNumber says why a number cannot be reckoned with, "" when it can. An
// exponent is a small text that makes a huge number, and what is nearer to 0
// than any floating-point number would silently become 0.
func oddNumber(n json.Number) string {
	f, err := n.Float64()
	switch {
	case len(n) > maxNumber:
		return fmt.Sprintf("is too long: it has %d characters, at most %d are possible", len(n), maxNumber)
	case err != nil || f < -1e100 || f > 1e100:
		return "is too large: possible are -1e100 to 1e100"
	case f == 0 && !isZero(n), f != 0 && -1e-100 < f && f < 1e-100:
		return "is too small: nothing but 0 is nearer to 0 than 1e-100"
	}
	return ""
}

// isZero reports whether a number is written as 0, in whatever way.
func isZero(n json.Number) bool {
	digits, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return !strings.ContainsAny(digits, "123456789")
}
