// Package pane draws in place on a terminal: lines that change at the bottom, and above
// them lines that stay.
package pane

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Pane is the part of a terminal that is redrawn in place, with only the lines that differ,
// in one write. Lines that are final scroll out above it.
type Pane struct {
	Above []string // permanent lines not yet written

	w      io.Writer
	err    error      // the first of writing: one who reads no more must not end what is shown
	size   func() int // cells of the terminal's width; 0 when it is unknown
	region []string   // as it stands on the terminal
	width  int        // of the terminal when the region was drawn
	hidden bool       // the cursor
}

// New returns a pane on a terminal; size is its width in cells, 0 when it is unknown.
func New(w io.Writer, size func() int) Pane { return Pane{w: w, size: size} }

// Err is the first error of writing. Nothing is written after it.
func (p *Pane) Err() error { return p.err }

func (p *Pane) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

// Emit writes the permanent lines and redraws the region below them.
func (p *Pane) Emit(region []string) {
	width := p.Cells()
	if len(p.Above) == 0 && slices.Equal(region, p.region) && (width == p.width || len(region) == 0) {
		return
	}
	var b strings.Builder
	if !p.hidden && len(region) > 0 {
		b.WriteString(ansi.HideCursor)
		p.hidden = true
	}
	b.WriteString(NoWrap)
	if up := p.occupied(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	same := len(p.Above) == 0 && width >= p.width
	for _, line := range p.Above {
		b.WriteString(ansi.Truncate(line, width, "…") + EraseRight + "\r\n")
	}
	for i, line := range region {
		if same && i < len(p.region) && p.region[i] == line {
			b.WriteString("\r\n")
			continue
		}
		b.WriteString(line + EraseRight + "\r\n")
	}
	if !same || len(region) < len(p.region) {
		b.WriteString(EraseBelow)
	}
	b.WriteString(DoWrap)
	p.write(b.String())
	p.Above, p.region, p.width = nil, region, width
}

// occupied is how many lines of the terminal the region takes: a terminal that
// became narrower has broken its lines anew.
func (p *Pane) occupied(width int) int {
	n := 0
	for _, line := range p.region {
		n += max(1, (ansi.StringWidth(line)+width-1)/width)
	}
	return n
}

// Cells is how wide a line may be: the last column stays empty, because
// terminals differ in what erasing does when the cursor waits behind it.
func (p *Pane) Cells() int {
	width := p.size()
	if width <= 0 {
		width = 80
	}
	return max(width-1, 1)
}

// Drawn are the lines that stand on the terminal below the permanent ones.
func (p *Pane) Drawn() []string { return p.region }

// ShowCursor shows the cursor again, which is hidden while something is drawn.
func (p *Pane) ShowCursor() {
	if p.hidden {
		p.write(ansi.ShowCursor)
		p.hidden = false
	}
}

// What a pane asks of a terminal. Lines are never left to the terminal to wrap:
// it may count some characters wider than we do.
const (
	NoWrap     = "\x1b[?7l"
	DoWrap     = "\x1b[?7h"
	EraseRight = "\x1b[K"
	EraseBelow = "\x1b[J"
)
