// Package duration reads the durations in configurations of resources, which are
// written as in "1m30s".
package duration

import (
	"encoding/json"
	"fmt"
	"time"
)

// Parse reads a JSON text of a duration that is not shorter than shortest. Bound
// says so in words.
func Parse(text []byte, shortest time.Duration, bound string) (time.Duration, error) {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return 0, fmt.Errorf(`a duration must be text such as "30s", not %s`, text)
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < shortest {
		return 0, fmt.Errorf(`a duration must be %s and like "30s" or "1m30s", not %q`, bound, s)
	}
	return d, nil
}
