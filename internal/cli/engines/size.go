package engines

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
)

// sizeFlag is a number of bytes, written with or without a unit.
type sizeFlag int64

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mi": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gi": 1 << 30, "gib": 1 << 30, "gb": 1e9,
}

func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return phrase.Size(int64(*s))
}

func (s *sizeFlag) Type() string { return "size" }

func (s *sizeFlag) Set(text string) error {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	n, err := strconv.ParseFloat(digits, 64)
	bytes := n * unit
	if err != nil || !known || !(bytes >= 1) || bytes > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size such as 512MiB or 2GiB", text)
	}
	*s = sizeFlag(bytes)
	return nil
}
