package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxText bounds one piece of foreign text, in bytes: nobody reads more of one
// line, and a line without end must not stop the display.
const maxText = 8 << 10

// clean makes foreign text safe to print on one line: without escape
// sequences, control characters and direction overrides, as valid UTF-8. Of
// text that overwrites itself with carriage returns, as progress bars do, the
// last version remains.
func clean(s string) string {
	cut := false
	if len(s) > maxText {
		s, cut = s[:maxText], true
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size == 1 {
			s = s[:len(s)-1]
		}
	}
	s = scrub(s)
	if cut {
		s += "…"
	}
	return s
}

// scrub is clean for text of any length.
func scrub(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.TrimRight(s, "\r\n")
	s = ansi.Strip(s)
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r):
			return -1
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case unicode.Is(unicode.Mc, r):
			return -1 // terminals do not agree on how wide these marks are
		}
		return r
	}, s)
}

// Clean makes foreign text of several lines safe to print.
func Clean(s string) string { return strings.Join(cleanLines(s), "\n") }

// cleanLines is clean for text of several lines; empty lines at its end go.
func cleanLines(s string) []string {
	s = strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	if s == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return lines
}

// seconds writes a duration for people: 0.2s, 14.2s, 3m05s, 1h02m.
func seconds(d time.Duration) string {
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

// megabytes writes progress in decimal units: "43/112 MB", "43 MB" while the
// total is unknown.
func megabytes(current, total int64) string {
	unit, name := int64(1_000_000), "MB"
	if max(current, total) < unit {
		unit, name = 1_000, "kB"
	}
	if total <= 0 {
		return fmt.Sprintf("%d %s", current/unit, name)
	}
	return fmt.Sprintf("%d/%d %s", current/unit, total/unit, name)
}

// fit cuts text to a number of terminal cells and fills it up with spaces.
func fit(s string, cells int) string {
	if cells <= 0 {
		return ""
	}
	s = ansi.Truncate(s, cells, "…")
	return s + strings.Repeat(" ", max(0, cells-ansi.StringWidth(s)))
}

// The widest columns for names and types of resources. A longer name stays
// whole, since it says what a line is about; of a longer type the beginning, which
// is its registry, makes way.
const (
	maxNames = 40
	maxTypes = 40
)

// typeText is the type of a resource, clean and short enough for its column.
func typeText(typ string) string {
	typ = clean(typ)
	if over := ansi.StringWidth(typ) - maxTypes; over > 0 {
		return ansi.TruncateLeft(typ, over+1, "…")
	}
	return typ
}

// wrap breaks clean text into lines of at most so many cells.
func wrap(s string, cells int) []string {
	return strings.Split(ansi.Wrap(s, max(cells, 1), ""), "\n")
}

func sorted[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// OneLine is foreign text on one line, cut to the width of the terminal.
func OneLine(text string, opts PlanOptions) string {
	return ansi.Truncate(inLine(text), limit(opts.Width), "…")
}

// Several are revisions, of which the first are named where there are many.
func Several(names []string) string {
	if more := len(names) - namedRevisions; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedRevisions], " "), more)
	}
	return strings.Join(names, " ")
}
