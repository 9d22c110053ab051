// Package excerpt bounds how much of a long output is shown as it comes: its beginning,
// and at the end its last lines, with how much is left out between them and where all of
// it is kept.
package excerpt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

// How much of an output is shown.
const (
	HeadLines = 200 // at its beginning
	headBytes = 64 << 10
	LastLines = 20 // at its end
)

// Excerpt is an output, as far as it was shown. Its zero value has nothing yet.
type Excerpt struct {
	lines        int // shown
	bytes        int
	omitted      int      // lines left out, those in last among them
	omittedBytes int      // in bytes
	last         []string // of those left out, as they came
	files        []string // that have them
}

// Lines is how many lines were shown as they came.
func (x *Excerpt) Lines() int { return x.lines }

// Show reports whether a line is to be shown as it comes, and keeps it for Remainder when
// not. The file, which may be "", has all of the output; all shows every line.
func (x *Excerpt) Show(line, file string, all bool) bool {
	if x.omitted == 0 && (all || x.lines < HeadLines && x.bytes+len(line) <= headBytes) {
		x.lines++
		x.bytes += len(line)
		return true
	}
	x.omitted++
	x.omittedBytes += len(line) + 1
	if len(x.last) == LastLines {
		x.last = x.last[1:]
	}
	x.last = append(x.last, line)
	if file != "" && !slices.Contains(x.files, file) {
		x.files = append(x.files, file)
	}
	return false
}

// Remainder is what is shown at the end of an output that was cut, safe to print; it is
// nothing where all was shown. Afterwards nothing is left out any more.
func (x *Excerpt) Remainder() []string {
	if x.omitted == 0 {
		return nil
	}
	var lines []string
	if n := x.omitted - len(x.last); n > 0 {
		size := x.omittedBytes
		for _, line := range x.last {
			size -= len(line) + 1
		}
		text := fmt.Sprintf("… %s (%s) left out", phrase.Count(n, "line"), inBytes(max(size, 0)))
		if len(x.files) > 0 {
			text += "; all of it: " + strings.Join(x.files, " and ")
		}
		lines = append(lines, text)
	}
	for _, line := range x.last {
		lines = append(lines, terminal.Line(line))
	}
	x.omitted, x.last = 0, nil
	return lines
}

func inBytes(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return phrase.Count(n, "byte")
	}
}
