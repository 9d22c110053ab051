// Package phrase writes the parts of sentences that the messages of many
// packages share: a count with its noun, a list of names, the beginning of a text,
// what a value of JSON is, a number of bytes, and what others wrote, on one line.
package phrase

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
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
	if len(names) == 0 {
		return "none"
	}
	return First(names, shown)
}

// First writes the first of many names, and how many more there are.
func First(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Cut is the beginning of a text, of at most so many characters.
func Cut(text string, most int) string {
	for i := range text {
		if most--; most < 0 {
			return text[:i] + "…"
		}
	}
	return text
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

// Size writes a number of bytes: 0 B, 512 MiB, 1.5 GiB.
func Size(n int64) string {
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	if units[0] == "B" || size == math.Trunc(size) {
		return fmt.Sprintf("%.0f %s", size, units[0])
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}

// Plain is a text of others on one line, where it can neither drive a terminal nor turn the
// direction of what is written.
func Plain(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c < ' ' || c >= 0x7f && c < 0xa0:
			return ' '
		case unicode.Is(unicode.Bidi_Control, c):
			return -1
		}
		return c
	}, s)
}

// Moment is a time in the time zone of who reads it.
func Moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// Took is a duration as people read it: 0.2s, 14.2s, 3m05s, 1h02m.
func Took(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute-50*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
}
