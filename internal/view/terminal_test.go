package view

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/terminal/pane"
)

// terminal is as much of a terminal as Live relies on. Whatever else it is
// sent, it remembers as a breach.
type screen struct {
	width, height int
	lines         []string // all there ever was; the last height of them are the screen
	row, col      int      // row counts from the first line
	nowrap        bool
	hidden        bool // the cursor
	written       int  // bytes
	breaches      []string
}

func newTerminal(width, height int) *screen {
	return &screen{width: width, height: height, lines: []string{""}}
}

func (t *screen) Write(p []byte) (int, error) {
	t.written += len(p)
	state := byte(0)
	rest := string(p)
	for rest != "" {
		seq, cells, n, next := ansi.DecodeSequence(rest, state, nil)
		state, rest = next, rest[n:]
		switch {
		case cells > 0:
			t.put(seq, cells)
		case seq == "\n":
			t.row++
			if t.row == len(t.lines) {
				t.lines = append(t.lines, "")
			}
		case seq == "\r":
			t.col = 0
		default:
			t.control(seq)
		}
	}
	return len(p), nil
}

func (t *screen) put(text string, cells int) {
	if t.col+cells > t.width {
		t.breach("text beyond the last column: %q", text)
		return
	}
	line := t.lines[t.row]
	left := ansi.Truncate(line, t.col, "")
	left += strings.Repeat(" ", t.col-ansi.StringWidth(left))
	t.lines[t.row] = left + text + ansi.TruncateLeft(line, t.col+cells, "")
	t.col += cells
}

func (t *screen) control(seq string) {
	switch {
	case seq == pane.NoWrap:
		t.nowrap = true
	case seq == pane.DoWrap:
		t.nowrap = false
	case seq == ansi.HideCursor:
		t.hidden = true
	case seq == ansi.ShowCursor:
		t.hidden = false
	case seq == pane.EraseRight:
		t.lines[t.row] = ansi.Truncate(t.lines[t.row], t.col, "")
	case seq == pane.EraseBelow:
		t.lines[t.row] = ansi.Truncate(t.lines[t.row], t.col, "")
		for i := t.row + 1; i < len(t.lines); i++ {
			t.lines[i] = ""
		}
	case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "A"):
		n, err := strconv.Atoi(seq[2 : len(seq)-1])
		if err != nil || n < 1 {
			t.breach("%q", seq)
		}
		t.row -= n
		if top := max(0, len(t.lines)-t.height); t.row < top {
			t.breach("the cursor went up %d lines, out of the screen", n)
			t.row = top
		}
	case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "m"): // colours are not shown
	case strings.IndexFunc(seq, unicode.IsControl) < 0: // a mark that takes no cell
	default:
		t.breach("%q", seq)
	}
}

func (t *screen) breach(format string, args ...any) {
	t.breaches = append(t.breaches, fmt.Sprintf(format, args...))
}

// text is everything, also what has scrolled out.
func (t *screen) text() string {
	lines := make([]string, len(t.lines))
	for i, line := range t.lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}
