package picture

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/phrase"
)

// The measures of the picture, in pixels.
const (
	charWidth  = 8  // of a label's letter, about
	smallWidth = 6  // of a detail's letter, about
	boxHeight  = 44 // with one text below the label
	lineHeight = 15 // of each further text
	padding    = 14 // within a box, left and right
	gapX       = 28 // between boxes
	gapY       = 52 // between layers
	margin     = 20
	wayWidth   = 12   // kept free where an edge passes a layer
	rowWidth   = 1400 // beyond which boxes of a layer go into another row
	spanWidth  = 26   // of the bracket of a span
)

// slot is a place in a layer: a box, or the way of an edge that passes it.
type slot struct {
	node     int // -1 for a way
	x, y, w  float64
	h        float64
	up, down []*slot // neighbours in the layer above and below
	rank     float64
}

func (s *slot) middle() float64 { return s.x + s.w/2 }

// SVG writes the graph as a picture: what depends on nothing at the top, and
// every other thing below what it depends on; spans are brackets at the left. It
// reads well on a light and on a dark ground.
func SVG(w io.Writer, g Graph) error {
	x := newIndex(g)
	layers, boxes := x.slots()
	untangle(layers)
	width, height := place(layers)
	brackets, left := x.brackets(boxes)
	width += left
	top := 0.0
	if g.Title != "" {
		top = 28
		width = max(width, float64(2*margin+charWidth*utf8.RuneCountInString(g.Title)))
	}

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif">`+"\n",
		width, height+top, width, height+top)
	b.WriteString(`<style>
  .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2 }
  .edge { fill: none; stroke: #8c959f; stroke-width: 1.4 }
  .head { fill: #8c959f }
  .label { font-size: 14px; fill: #1f2328; text-anchor: middle }
  .detail { font-size: 11px; fill: #57606a; text-anchor: middle }
  .title { font-size: 14px; font-weight: 600; fill: #57606a }
  .span { fill: none; stroke: #8c959f; stroke-width: 1.2; stroke-dasharray: 4 3 }
`)
	for _, state := range []State{Failed, Waiting, Running, Done} {
		fmt.Fprintf(&b, "  .%s { stroke: %s; stroke-width: 2.2 }\n", state, state.colour())
	}
	b.WriteString(`  @media (prefers-color-scheme: dark) {
    .box { fill: #161b22; stroke: #8b949e }
    .label { fill: #e6edf3 }
    .detail, .title { fill: #9198a1 }
  }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>
`)
	if g.Title != "" {
		fmt.Fprintf(&b, `<text class="title" x="%d" y="26">%s</text>`+"\n", margin, xmlText(g.Title))
	}
	fmt.Fprintf(&b, `<g transform="translate(0 %.0f)">`+"\n", top)
	b.WriteString(brackets)
	fmt.Fprintf(&b, `<g transform="translate(%.0f 0)">`+"\n", left)
	head := "marker-end"
	if g.Flow {
		head = "marker-start"
	}
	for _, box := range boxes {
		for _, above := range box.up {
			b.WriteString(edge(box, above, head))
		}
	}
	for i, box := range boxes {
		n := x.Nodes[i]
		class := "box"
		if n.State.colour() != "" {
			class += " " + string(n.State)
		}
		fmt.Fprintf(&b, `<g><title>%s</title><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="7"/>`,
			xmlText(strings.TrimSpace(n.Label+" "+strings.Join(n.below(), " "))), class, box.x, box.y, box.w, box.h)
		labelY := box.y + boxHeight/2 + 5
		for i, text := range n.below() {
			labelY = box.y + 19
			fmt.Fprintf(&b, `<text class="detail" x="%.1f" y="%.1f">%s</text>`, box.middle(), box.y+35+float64(i*lineHeight), xmlText(text))
		}
		fmt.Fprintf(&b, `<text class="label" x="%.1f" y="%.1f">%s</text></g>`+"\n", box.middle(), labelY, xmlText(n.Label))
	}
	b.WriteString("</g>\n</g>\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// slots makes the boxes, by node, and the ways of edges that pass layers.
func (x *index) slots() (layers [][]*slot, boxes []*slot) {
	widths := make([]float64, len(x.Nodes))
	for n, node := range x.Nodes {
		wide := charWidth * utf8.RuneCountInString(node.Label)
		for _, text := range node.below() {
			wide = max(wide, smallWidth*utf8.RuneCountInString(text))
		}
		widths[n] = float64(wide + 2*padding)
	}
	layer := wrap(x.layers(), widths)
	deepest := 0
	for _, l := range layer {
		deepest = max(deepest, l)
	}
	layers = make([][]*slot, deepest+1)
	for n, node := range x.Nodes {
		box := &slot{node: n, w: widths[n], h: boxHeight + float64(max(0, len(node.below())-1)*lineHeight)}
		boxes = append(boxes, box)
		layers[layer[n]] = append(layers[layer[n]], box)
	}
	for n := range x.Nodes {
		for _, d := range x.dependencies[n] {
			if layer[d] >= layer[n] {
				continue // an edge of a cycle
			}
			below := boxes[n]
			for l := layer[n] - 1; l > layer[d]; l-- {
				way := &slot{node: -1, w: wayWidth}
				layers[l] = append(layers[l], way)
				join(way, below)
				below = way
			}
			join(boxes[d], below)
		}
	}
	return layers, boxes
}

// wrap puts the nodes of a layer into several, one below the other, where they are wider
// than a row.
func wrap(layer []int, widths []float64) []int {
	rows := map[int][]float64{} // widths of the rows of a layer
	row := make([]int, len(layer))
	for n, l := range layer {
		last := len(rows[l]) - 1
		if last < 0 || rows[l][last] > 0 && rows[l][last]+widths[n] > rowWidth {
			rows[l], last = append(rows[l], 0), last+1
		}
		rows[l][last] += widths[n] + gapX
		row[n] = last
	}
	first, at := map[int]int{}, 0
	for l := range len(rows) {
		first[l] = at
		at += len(rows[l])
	}
	wrapped := make([]int, len(layer))
	for n, l := range layer {
		wrapped[n] = first[l] + row[n]
	}
	return wrapped
}

// brackets draws the spans at the left, and returns how much room they take.
func (x *index) brackets(boxes []*slot) (drawn string, width float64) {
	var b strings.Builder
	for _, s := range x.Spans {
		from, okFrom := x.at[s.From]
		to, okTo := x.at[s.To]
		if !okFrom || !okTo {
			continue
		}
		top, foot := boxes[from].y, boxes[to].y+boxes[to].h
		at := margin + width
		width += spanWidth
		fmt.Fprintf(&b, `<path class="span" d="M%.1f %.1f h-10 V%.1f h10"/><text class="detail" transform="translate(%.1f %.1f) rotate(-90)">%s</text>`+"\n",
			at+16, top, foot, at+2, (top+foot)/2, xmlText(s.Label))
	}
	return b.String(), width
}

func join(above, below *slot) {
	above.down = append(above.down, below)
	below.up = append(below.up, above)
}

// untangle orders the layers so that few edges cross: each slot moves to the
// mean position of its neighbours, downwards and upwards in turn.
func untangle(layers [][]*slot) {
	number := func(layer []*slot) {
		for i, s := range layer {
			s.rank = float64(i)
		}
	}
	for _, layer := range layers {
		number(layer)
	}
	settle := func(layer []*slot, neighbours func(*slot) []*slot) {
		mean := map[*slot]float64{}
		for _, s := range layer {
			mean[s] = s.rank
			if near := neighbours(s); len(near) > 0 {
				sum := 0.0
				for _, n := range near {
					sum += n.rank
				}
				mean[s] = sum / float64(len(near))
			}
		}
		sortStable(layer, func(s *slot) float64 { return mean[s] })
		number(layer)
	}
	for range 8 {
		for _, layer := range layers {
			settle(layer, func(s *slot) []*slot { return s.up })
		}
		for i := len(layers) - 1; i >= 0; i-- {
			settle(layers[i], func(s *slot) []*slot { return s.down })
		}
	}
}

// place gives every slot its coordinates: layers are set side by side, and
// then pulled towards their neighbours as far as no box touches another.
func place(layers [][]*slot) (width, height float64) {
	y := float64(margin)
	for _, layer := range layers {
		x, highest := 0.0, float64(boxHeight)
		for _, s := range layer {
			highest = max(highest, s.h)
		}
		for i, s := range layer {
			if s.x, s.y = x, y; s.node < 0 {
				s.h = highest
			}
			if i+1 < len(layer) {
				x += s.w + gap(s, layer[i+1])
			}
		}
		y += highest + gapY
	}
	for range 12 {
		for _, layer := range layers {
			pull(layer)
		}
	}
	left, right := 0.0, 0.0
	for i, layer := range layers {
		if len(layer) == 0 {
			continue
		}
		last := layer[len(layer)-1]
		if i == 0 || layer[0].x < left {
			left = layer[0].x
		}
		right = max(right, last.x+last.w)
	}
	for _, layer := range layers {
		for _, s := range layer {
			s.x += margin - left
		}
	}
	return right - left + 2*margin, max(y-gapY, margin) + margin
}

// gap is the room between two slots side by side.
func gap(a, b *slot) float64 {
	if a.node < 0 && b.node < 0 {
		return 0 // edges that pass
	}
	return gapX
}

// pull moves each slot of a layer towards the middle of its neighbours, first
// what may go right, from the right end, then what may go left.
func pull(layer []*slot) {
	wanted := func(s *slot) float64 {
		near := append(append([]*slot{}, s.up...), s.down...)
		if len(near) == 0 {
			return s.x
		}
		sum := 0.0
		for _, n := range near {
			sum += n.middle()
		}
		return sum/float64(len(near)) - s.w/2
	}
	for i := len(layer) - 1; i >= 0; i-- {
		s := layer[i]
		to := wanted(s)
		if i+1 < len(layer) {
			to = min(to, layer[i+1].x-gap(s, layer[i+1])-s.w)
		}
		s.x = max(s.x, to)
	}
	for i, s := range layer {
		to := wanted(s)
		if i > 0 {
			to = max(to, layer[i-1].x+layer[i-1].w+gap(layer[i-1], s))
		}
		s.x = min(s.x, to)
	}
}

// edge draws the line from the top of a box, through the ways above it, to the
// foot of the box it depends on, with its head at one of the ends.
func edge(from, above *slot, head string) string {
	var b strings.Builder
	x, y := from.middle(), from.y
	fmt.Fprintf(&b, `<path class="edge" %s="url(#head)" d="M%.1f %.1f`, head, x, y)
	for {
		toX, toY := above.middle(), above.y+above.h
		bend := (y - toY) / 2
		fmt.Fprintf(&b, ` C%.1f %.1f %.1f %.1f %.1f %.1f`, x, y-bend, toX, toY+bend, toX, toY)
		if above.node >= 0 {
			b.WriteString("\"/>\n")
			return b.String()
		}
		fmt.Fprintf(&b, ` V%.1f`, above.y)
		x, y = toX, above.y
		above = above.up[0]
	}
}

// xmlText escapes a text; what XML cannot hold at all is replaced.
func xmlText(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(phrase.Plain(s))); err != nil {
		return ""
	}
	return b.String()
}
