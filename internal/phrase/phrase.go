// Package phrase writes the parts of sentences that the messages of many
// packages share: a count with its noun, a list of names, what a value of JSON
// is.
package phrase

import (
	"fmt"
	"strings"
)

// Count writes how many there are: 1 host, 2 hosts, 3 properties.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ty"); ok {
		return fmt.Sprintf("%d %sties", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List writes names with commas between them; a long list is cut.
func List(names []string) string {
	const shown = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	default:
		return strings.Join(names, ", ")
	}
}

// Kind names what a decoded value of JSON is: a list, null.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}
