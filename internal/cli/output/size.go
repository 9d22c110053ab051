package output

import (
	"fmt"
	"math"
)

// SizeText writes a number of bytes as people do.
func SizeText(n int64) string {
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	if units[0] == "B" || size == math.Trunc(size) {
		return fmt.Sprintf("%.0f %s", size, units[0])
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
