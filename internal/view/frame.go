package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/deployster-go/deployster/internal/terminal"
)

// How much of a failure is shown under its resource while others still run,
// in lines. Once a resource's line is final, all of it is.
const (
	liveErrorLines  = 3
	liveOutputLines = 5
)

// frame draws a board at one moment for a terminal of one width.
type frame struct {
	*board
	now   time.Time
	width int // cells
	style terminal.Style
}

// columns are the widths of a row's columns, in cells; 0 leaves one out.
type columns struct{ name, typ, doing, tail int }

// columns divides the width: the type goes first when there is little room,
// then the tail, which moves to a line of its own.
func (f frame) columns() columns {
	const icon, elapsed, gap = 4, 6, 2
	var c columns
	for _, r := range f.rows {
		c.name = max(c.name, ansi.StringWidth(r.name))
		c.typ = max(c.typ, ansi.StringWidth(r.typ))
	}
	c.name = min(c.name, max(f.width/4, 8))
	c.typ = min(c.typ, max(f.width/4, 20))
	rest := f.width - icon - c.name - gap - gap - elapsed
	if c.typ > 0 && rest-c.typ-gap < 24 {
		c.typ = 0
	}
	if c.typ > 0 {
		rest -= c.typ + gap
	}
	c.doing = max(rest, 1)
	if rest >= 30+3+24 {
		c.doing = min(36, rest-3-24)
		c.tail = rest - c.doing - 3
	}
	return c
}

// tree is all rows in graph order, as they are now.
func (f frame) tree() []string {
	c := f.columns()
	var lines []string
	for _, image := range sorted(f.pulls) {
		lines = append(lines, f.cut("  "+f.style.Cyan("●")+" "+f.style.Dim(f.pulls[image])))
	}
	for _, r := range f.rows {
		lines = append(lines, f.row(r, c, false)...)
	}
	return lines
}

// activeWindow is what is still moving, in at most height lines: the active
// resources and a summary of the rest.
func (f frame) activeWindow(height int) []string {
	c := f.columns()
	var lines []string
	busy, hidden, idle := 0, 0, 0
	for _, r := range f.rows {
		switch r.phase {
		case waiting:
			idle++
		case active:
			busy++
			add := f.row(r, c, false)
			if left := height - 1 - len(lines); len(add) > left {
				add = add[:max(min(1, left), 0)]
			}
			if len(add) == 0 {
				hidden++
			}
			lines = append(lines, add...)
		default: // over, and out of the window
		}
	}
	var summary []string
	if hidden > 0 {
		summary = append(summary, fmt.Sprintf("%d more at work", hidden))
	}
	if idle > 0 {
		more := " more"
		if busy == 0 {
			more = ""
		}
		summary = append(summary, fmt.Sprintf("%d%s waiting", idle, more))
	}
	if len(summary) > 0 {
		lines = append(lines, f.cut("  "+f.style.Dim("… "+strings.Join(summary, ", "))))
	}
	return lines
}

// row draws one resource: its line, and below it what does not fit there.
func (f frame) row(r *row, c columns, final bool) []string {
	var line strings.Builder
	line.WriteString("  " + f.mark(r) + " ")
	name := fit(r.name, c.name)
	if r.phase == active || r.phase == failed {
		name = f.style.Bold(name)
	}
	line.WriteString(name + "  ")
	if c.typ > 0 {
		line.WriteString(f.style.Dim(fit(r.typ, c.typ)) + "  ")
	}
	line.WriteString(f.tint(r, fit(f.status(r), c.doing)) + "  ")
	line.WriteString(f.style.Dim(fmt.Sprintf("%6s", f.elapsed(r))))

	tail := r.progress
	if tail == "" {
		tail = r.last
	}
	var below []string
	switch {
	case tail == "":
	case c.tail > 0:
		line.WriteString("   " + f.style.Dim(ansi.Truncate(tail, c.tail, "…")))
	default:
		below = append(below, f.cut("      "+f.style.Dim(tail)))
	}
	if r.phase == failed {
		below = append(below, f.failure(r, final)...)
	}
	return append([]string{f.cut(strings.TrimRight(line.String(), " "))}, below...)
}

// failure is why a resource failed, and the last lines of what it said.
func (f frame) failure(r *row, final bool) []string {
	var why, said []string
	for _, line := range r.errors {
		why = append(why, indent("      ", line, f.width)...)
	}
	for _, line := range r.output {
		said = append(said, indent("      │ ", line, f.width)...)
	}
	if !final && len(why) > liveErrorLines {
		why = append(why[:liveErrorLines-1], "      …")
	}
	if !final && len(said) > liveOutputLines {
		said = said[len(said)-liveOutputLines:]
	}
	lines := append(paintAll(why, f.style.Red), paintAll(said, f.style.Dim)...)
	for i := range lines {
		lines[i] = f.cut(lines[i])
	}
	return lines
}

func (f frame) elapsed(r *row) string {
	switch {
	case r.phase == active:
		return seconds(f.now.Sub(r.since))
	case r.phase.ended() && r.phase != skipped:
		return seconds(r.duration)
	default:
		return ""
	}
}

func (f frame) mark(r *row) string {
	switch r.phase {
	case active:
		return f.style.Cyan("●")
	case done:
		return f.style.Green("✔")
	case failed:
		return f.style.Red("✘")
	case skipped:
		return f.style.Yellow("–")
	default:
		return f.style.Dim("○")
	}
}

func (f frame) tint(r *row, text string) string {
	switch {
	case r.phase == failed:
		return f.style.Red(text)
	case r.phase == skipped:
		return f.style.Yellow(text)
	case r.phase == waiting, r.phase == done && !r.changed:
		return f.style.Dim(text)
	default:
		return text
	}
}

// cut is the last guard: no line is ever wider than the terminal.
func (f frame) cut(line string) string {
	return ansi.Truncate(line, max(f.width, 1), "…")
}
