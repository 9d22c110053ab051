// Package budget is how many of some things may fail, as people write it: "2" or
// "10%".
package budget

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Budget is a count, or a percentage, rounded down. The zero value is none.
type Budget struct {
	Count   int
	Percent float64 // used when Count is 0
}

// Of is how many may fail of n.
func (b Budget) Of(n int) int {
	if b.Count > 0 {
		return b.Count
	}
	return int(math.Floor(b.Percent * float64(n) / 100))
}

// Up is how many there may be of n when a percentage is rounded up.
func (b Budget) Up(n int) int {
	if b.Count > 0 {
		return b.Count
	}
	const noise = 1e-9 // of percentages that are no sums of powers of two
	return int(math.Ceil(b.Percent*float64(n)/100 - noise))
}

// None reports whether the budget is of nothing, of however many.
func (b Budget) None() bool { return b.Count == 0 && b.Percent == 0 }

// Parse reads "2" or "10%".
func Parse(text string) (Budget, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return Budget{}, fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
		}
		return Budget{Percent: p}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return Budget{}, fmt.Errorf("%q is neither a count of hosts nor a percentage such as 10%%", text)
	}
	return Budget{Count: n}, nil
}

// String writes what Parse reads.
func (b Budget) String() string {
	if b.Count == 0 && b.Percent > 0 {
		return strconv.FormatFloat(b.Percent, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(b.Count)
}

// MarshalJSON writes the budget as people do.
func (b Budget) MarshalJSON() ([]byte, error) { return json.Marshal(b.String()) }

// UnmarshalJSON reads a number or a text.
func (b *Budget) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	parsed, err := Parse(text)
	*b = parsed
	return err
}
