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
	boxHeight  = 44 //
	padding    = 14 // within a box, left and right
	gapX       = 28 // between boxes
	gapY       = 52 // between layers
	margin     = 20
	wayWidth   = 12 // kept free where an edge passes a layer
)

// slot is a place in a layer: a box, or the way of an edge that passes it.
type slot struct {
	node     int // -1 for a way
	x, y, w  float64
	up, down []*slot // neighbours in the layer above and below
	rank     float64
}

func (s *slot) middle() float64 { return s.x + s.w/2 }

// SVG writes the graph as a picture: what depends on nothing at the top, and
// every other thing below what it depends on. Arrows point at what is depended
// on. It reads well on a light and on a dark ground.
func SVG(w io.Writer, g Graph) error {
	x := newIndex(g)
	layers, boxes := x.slots()
	untangle(layers)
	width, height := place(layers)
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
  @media (prefers-color-scheme: dark) {
    .box { fill: #161b22; stroke: #8b949e }
    .label { fill: #e6edf3 }
    .detail, .title { fill: #9198a1 }
  }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>
`)
	if g.Title != "" {
		fmt.Fprintf(&b, `<text class="title" x="%d" y="26">%s</text>`+"\n", margin, xmlText(g.Title))
	}
	fmt.Fprintf(&b, `<g transform="translate(0 %.0f)">`+"\n", top)
	for _, box := range boxes {
		for _, above := range box.up {
			b.WriteString(edge(box, above))
		}
	}
	for i, box := range boxes {
		n := x.Nodes[i]
		fmt.Fprintf(&b, `<g><title>%s</title><rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="7"/>`,
			xmlText(strings.TrimSpace(n.Label+" "+n.Detail)), box.x, box.y, box.w, boxHeight)
		labelY := box.y + boxHeight/2 + 5
		if n.Detail != "" {
			labelY = box.y + 19
			fmt.Fprintf(&b, `<text class="detail" x="%.1f" y="%.1f">%s</text>`, box.middle(), box.y+35, xmlText(n.Detail))
		}
		fmt.Fprintf(&b, `<text class="label" x="%.1f" y="%.1f">%s</text></g>`+"\n", box.middle(), labelY, xmlText(n.Label))
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// slots makes the boxes, by node, and the ways of edges that pass layers.
func (x *index) slots() (layers [][]*slot, boxes []*slot) {
	layer := x.layers()
	deepest := 0
	for _, l := range layer {
		deepest = max(deepest, l)
	}
	layers = make([][]*slot, deepest+1)
	for n, node := range x.Nodes {
		wide := max(charWidth*utf8.RuneCountInString(node.Label), smallWidth*utf8.RuneCountInString(node.Detail))
		box := &slot{node: n, w: float64(wide + 2*padding)}
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
	for i, layer := range layers {
		x := 0.0
		for _, s := range layer {
			s.x, s.y = x, float64(margin+i*(boxHeight+gapY))
			x += s.w + gapX
		}
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
	return right - left + 2*margin, float64(2*margin + len(layers)*(boxHeight+gapY) - gapY)
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
			to = min(to, layer[i+1].x-gapX-s.w)
		}
		s.x = max(s.x, to)
	}
	for i, s := range layer {
		to := wanted(s)
		if i > 0 {
			to = max(to, layer[i-1].x+layer[i-1].w+gapX)
		}
		s.x = min(s.x, to)
	}
}

// edge draws the line from the top of a box, through the ways above it, to the
// foot of the box it depends on.
func edge(from, above *slot) string {
	var b strings.Builder
	x, y := from.middle(), from.y
	fmt.Fprintf(&b, `<path class="edge" marker-end="url(#head)" d="M%.1f %.1f`, x, y)
	for {
		toX, toY := above.middle(), above.y+boxHeight
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
