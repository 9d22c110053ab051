package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// pane is the part of a terminal that is redrawn in place, with only the lines
// that differ, in one write. Lines that are final scroll out above it.
type pane struct {
	out    output
	size   func() int // cells of the terminal's width; 0 when it is unknown
	above  []string   // permanent lines not yet written
	region []string   // as it stands on the terminal
	width  int        // of the terminal when the region was drawn
	hidden bool       // the cursor
}

// emit writes the permanent lines and redraws the region below them.
func (p *pane) emit(region []string) {
	width := p.cells()
	if len(p.above) == 0 && slices.Equal(region, p.region) && (width == p.width || len(region) == 0) {
		return
	}
	var b strings.Builder
	if !p.hidden && len(region) > 0 {
		b.WriteString(ansi.HideCursor)
		p.hidden = true
	}
	b.WriteString(noWrap)
	if up := p.occupied(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	same := len(p.above) == 0 && width >= p.width
	for _, line := range p.above {
		b.WriteString(ansi.Truncate(line, width, "…") + eraseRight + "\r\n")
	}
	for i, line := range region {
		if same && i < len(p.region) && p.region[i] == line {
			b.WriteString("\r\n")
			continue
		}
		b.WriteString(line + eraseRight + "\r\n")
	}
	if !same || len(region) < len(p.region) {
		b.WriteString(eraseBelow)
	}
	b.WriteString(doWrap)
	p.out.write(b.String())
	p.above, p.region, p.width = nil, region, width
}

// occupied is how many lines of the terminal the region takes: a terminal that
// became narrower has broken its lines anew.
func (p *pane) occupied(width int) int {
	n := 0
	for _, line := range p.region {
		n += max(1, (ansi.StringWidth(line)+width-1)/width)
	}
	return n
}

// cells is how wide a line may be: the last column stays empty, because
// terminals differ in what erasing does when the cursor waits behind it.
func (p *pane) cells() int {
	width := p.size()
	if width <= 0 {
		width = 80
	}
	return max(width-1, 1)
}

func (p *pane) showCursor() {
	if p.hidden {
		p.out.write(ansi.ShowCursor)
		p.hidden = false
	}
}

// What a pane asks of a terminal. Lines are never left to the terminal to wrap:
// it may count some characters wider than we do.
const (
	noWrap     = "\x1b[?7l"
	doWrap     = "\x1b[?7h"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)
