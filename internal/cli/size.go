package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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
	return sizeText(int64(*s))
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

// sizeText writes a number of bytes as people do.
func sizeText(n int64) string {
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	if units[0] == "B" || size == math.Trunc(size) {
		return fmt.Sprintf("%.0f %s", size, units[0])
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
