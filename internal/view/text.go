package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

// clean makes foreign text safe to print on one line.
func clean(s string) string { return terminal.Line(s) }

// Clean makes foreign text of several lines safe to print.
func Clean(s string) string { return strings.Join(cleanLines(s), "\n") }

func cleanLines(s string) []string { return terminal.Lines(s) }

// seconds writes a duration for people.
func seconds(d time.Duration) string { return phrase.Took(d) }

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
	return ansi.Truncate(terminal.InLine(text), terminal.Limit(opts.Width), "…")
}

// Several are revisions, of which the first are named where there are many.
func Several(names []string) string {
	if more := len(names) - namedRevisions; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedRevisions], " "), more)
	}
	return strings.Join(names, " ")
}
