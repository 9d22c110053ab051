package picture_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/picture"
)

var gateway = picture.Graph{
	Title: "gateway", Flow: true,
	Nodes: []picture.Node{
		{ID: "build", Label: "build", State: picture.Done},
		{ID: "beta", Label: "beta", Detail: "✔ 41", Lines: []string{"eu (100 hosts)", "us (2 hosts)"}, State: picture.Failed},
		{ID: "prod", Label: "prod"},
	},
	Edges: []picture.Edge{{From: "beta", To: "build"}, {From: "prod", To: "beta"}},
	Spans: []picture.Span{{From: "beta", To: "prod", Label: "batch"}, {From: "gone", To: "prod", Label: "lost"}},
}

func TestArrowsGoWithTheFlow(t *testing.T) {
	for _, c := range []struct {
		name, got string
		want      []string
		not       string
	}{
		{"dot", draw(t, picture.Dot, gateway), []string{"rankdir=TB", `"build" -> "beta"`, `"beta" [label="beta\n✔ 41\neu (100 hosts)\nus (2 hosts)" color="#d1242f"`, `"beta" -> "prod" [style=dashed dir=none constraint=false label="batch"]`}, `"beta" -> "build"`},
		{"mermaid", draw(t, picture.Mermaid, gateway), []string{"flowchart TB\n", "n0 --> n1\n", "style n1 stroke:#d1242f", `n1 -."batch".- n2`, "<small>us #40;2 hosts#41;</small>"}, "lost"},
		{"svg", draw(t, picture.SVG, gateway), []string{"marker-start", `class="box failed"`, ">batch</text>", ">us (2 hosts)</text>"}, "marker-end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, want := range c.want {
				if !strings.Contains(c.got, want) {
					t.Errorf("it does not have %s:\n%s", want, c.got)
				}
			}
			if strings.Contains(c.got, c.not) {
				t.Errorf("it has %s:\n%s", c.not, c.got)
			}
		})
	}
}

// A hundred things side by side take several rows, in which no two boxes touch.
func TestWideLayersAreWrapped(t *testing.T) {
	g := picture.Graph{Nodes: []picture.Node{{ID: "first", Label: "first"}}}
	for i := range 100 {
		id := fmt.Sprintf("stage-%d", i)
		g.Nodes = append(g.Nodes, picture.Node{ID: id, Label: id})
		g.Edges = append(g.Edges, picture.Edge{From: id, To: "first"})
	}
	svg := draw(t, picture.SVG, g)
	type box struct{ x, y, w, h float64 }
	var boxes []box
	rows := map[float64]bool{}
	for _, m := range regexp.MustCompile(`<rect class="box" x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"`).FindAllStringSubmatch(svg, -1) {
		var n [4]float64
		for i := range n {
			n[i], _ = strconv.ParseFloat(m[i+1], 64)
		}
		boxes = append(boxes, box{n[0], n[1], n[2], n[3]})
		rows[n[1]] = true
	}
	if len(boxes) != 101 || len(rows) < 6 {
		t.Fatalf("%d boxes in %d rows", len(boxes), len(rows))
	}
	for i, a := range boxes {
		for _, b := range boxes[i+1:] {
			if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
				t.Fatalf("%+v and %+v overlap", a, b)
			}
		}
	}
	width, _ := strconv.ParseFloat(regexp.MustCompile(`width="(\d+)"`).FindStringSubmatch(svg)[1], 64)
	if width > 4000 {
		t.Errorf("it is %.0f wide", width)
	}
}
