package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Table is rows in aligned columns, the first a head. Its cells may be foreign text: each
// is made safe to print on one line.
//
// On a terminal it fits: what is left out, cut or counted there is whole elsewhere, for
// programs read that.
type Table struct {
	Rows   [][]string
	Width  int   // of the terminal in cells; 0 is no limit
	Height int   // of the terminal in lines, of which the newest rows take what they may; 0 is no limit
	First  bool  // the first rows take them, for there is no newest
	Extra  []int // columns that are left out where there is no room, in this order
	Wrap   bool  // a cell that is wider than its column goes on below instead of being cut
	Color  bool

	Paint func(row, column int, text string) string // nil paints nothing; rows are counted from 0, the head
}

const (
	columnGap = 2
	// narrowest is how narrow a column may get before another one is left out for it.
	narrowest = 24
	// shortest is how narrow it may get then.
	shortest = 1
)

// Lines are the lines of the table.
func (t Table) Lines() []string {
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		for _, cell := range row {
			rows[i] = append(rows[i], InLine(cell))
		}
	}
	head, body, first, note := rows[:1], rows[1:], 1, ""
	if room := t.Height - 3; t.Height > 0 && room > 0 && len(body) > room { // beside the head, the note and the prompt
		note = fmt.Sprintf("… %s: --all shows them", phrase.Count(len(body)-room, "earlier row"))
		first, body = len(rows)-room, body[len(body)-room:]
		if t.First {
			note = fmt.Sprintf("… %s: --all shows them", phrase.Count(len(rows)-1-room, "more row"))
			first, body = 1, rows[1:1+room]
		}
	}
	widths := t.fitting(slices.Concat(head, body))
	lines := t.row(0, head[0], widths)
	for i := range lines {
		lines[i] = Style(t.Color).Bold(lines[i])
	}
	if note != "" {
		note = Style(t.Color).Dim(ansi.Truncate(note, Limit(t.Width), "…"))
	}
	if note != "" && !t.First {
		lines = append(lines, note)
	}
	for i, row := range body {
		lines = append(lines, t.row(first+i, row, widths)...)
	}
	if note != "" && t.First {
		lines = append(lines, note)
	}
	return lines
}

// InLine is foreign text of any number of lines as one that is safe to print.
func InLine(text string) string {
	lines := Lines(text)
	if len(lines) == 1 {
		return strings.TrimRight(lines[0], " ") // what is indented stays so
	}
	return strings.TrimRight(strings.Join(lines, " "), " ")
}

// Limit is a width, of which 0 is no limit.
func Limit(width int) int {
	if width <= 0 {
		return MaxText
	}
	return width
}

// row is a row with so wide columns, of which those of no width are left out.
func (t Table) row(number int, row []string, widths []int) (lines []string) {
	cells, height := make([][]string, len(row)), 1
	for i, cell := range row {
		switch {
		case widths[i] == 0:
		case t.Wrap:
			cells[i] = Words(cell, widths[i])
		default:
			cells[i] = []string{ansi.Truncate(cell, widths[i], "…")}
		}
		height = max(height, len(cells[i]))
	}
	for n := range height {
		line, pending := "", 0
		for i := range row {
			if widths[i] == 0 {
				continue
			}
			text := ""
			if n < len(cells[i]) {
				text = cells[i][n]
			}
			gap := widths[i] - ansi.StringWidth(text) + columnGap
			if text != "" {
				if t.Paint != nil {
					text = t.Paint(number, i, text)
				}
				line += strings.Repeat(" ", pending) + text
				pending = 0
			}
			pending += gap
		}
		lines = append(lines, line)
	}
	return lines
}

// Words breaks a line where there are spaces, for names may have any other mark, and
// within words that are too long. What it continues is indented as it begins.
func Words(text string, width int) (lines []string) {
	if ansi.StringWidth(text) <= width {
		return []string{text}
	}
	indent := min(len(text)-len(strings.TrimLeft(text, " ")), width/2)
	line := ""
	for _, word := range strings.Fields(text) {
		for ansi.StringWidth(word) > width-indent {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head := ansi.Truncate(word, width-indent, "")
			if head == "" { // a character that is wider than the line
				break
			}
			lines, word = append(lines, strings.Repeat(" ", indent)+head), strings.TrimPrefix(word, head)
		}
		if line != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width {
			lines, line = append(lines, line), ""
		}
		if line == "" {
			line = strings.Repeat(" ", indent) + word
			continue
		}
		line += " " + word
	}
	return append(lines, line)
}

// fitting is how wide the columns may be, 0 of those that are left out.
func (t Table) fitting(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	if t.Width <= 0 {
		return widths
	}
	for _, extra := range t.Extra {
		if total(widths, narrowest) <= t.Width {
			break
		}
		widths[extra] = 0
	}
	for total(widths, 0) > t.Width {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= shortest {
			break
		}
		widths[widest]--
	}
	return widths
}

// total is how wide a row is whose columns are cut to a width; 0 is not.
func total(widths []int, cut int) int {
	sum := -columnGap
	for _, w := range widths {
		if w == 0 {
			continue
		}
		if cut > 0 {
			w = min(w, cut)
		}
		sum += w + columnGap
	}
	return sum
}
