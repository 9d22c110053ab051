package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/picture"
)

var web = picture.Graph{
	Title: "web.yaml",
	Nodes: []picture.Node{
		{ID: "net", Label: "net", Detail: "deployster/network"}, {ID: "data", Label: "data", Detail: "deployster/volume"},
		{ID: "db", Label: "db", Detail: "deployster/container"}, {ID: "api", Label: "api", Detail: "deployster/container"},
		{ID: "smoke", Label: "smoke", Detail: "deployster/http"},
	},
	Edges: []picture.Edge{{"db", "net"}, {"db", "data"}, {"api", "db"}, {"api", "net"}, {"smoke", "api"}},
}

func draw(t testing.TB, how func(io.Writer, picture.Graph) error, g picture.Graph) string {
	var b bytes.Buffer
	require.NoError(t, how(&b, g))
	return b.String()
}

func TestText(t *testing.T) {
	const want = `web.yaml
├─ net  (deployster/network)
│  ├─ db  (deployster/container)
│  │  └─ api  (deployster/container)
│  │     └─ smoke  (deployster/http)
│  └─ api  (deployster/container) …
└─ data  (deployster/volume)
   └─ db  (deployster/container) …
`
	assert.Equal(t, want, draw(t, picture.Text, web))
}

func TestDot(t *testing.T) {
	got := draw(t, picture.Dot, web)
	for _, want := range []string{"digraph {", `"api" -> "db"`, `"db" [label="db\ndeployster/container"]`} {
		assert.Contains(t, got, want)
	}
}

func TestMermaid(t *testing.T) {
	got := draw(t, picture.Mermaid, web)
	for _, want := range []string{"flowchart BT\n", `n0["net<br/><small>deployster/network</small>"]`, "n3 --> n2\n"} {
		assert.Contains(t, got, want)
	}
}

func TestLabelsAreNotSyntax(t *testing.T) {
	const evil = "a\"]; x -> y [\\ <script>alert(1)</script> \x1b[31m \n end #quot;"
	g := picture.Graph{Title: evil, Nodes: []picture.Node{{ID: evil, Label: evil, Detail: evil}}}
	got := draw(t, picture.Dot, g)
	assert.True(t, strings.Count(got, "\n") == 6 && !strings.Contains(got, `a"]`), "dot: %s", got)
	got = draw(t, picture.Mermaid, g)
	assert.True(t, !strings.Contains(got, "<script") && !strings.Contains(got, `"]; x`), "mermaid: %s", got)
	got = draw(t, picture.SVG, g)
	assert.True(t, !strings.Contains(got, "<script") && !strings.Contains(got, "\x1b"), "svg: %s", got)
	got = draw(t, picture.Text, g)
	assert.True(t, !strings.Contains(got, "\x1b") && strings.Count(got, "\n") == 2, "text: %q", got)
}

type box struct{ x, y, w, h float64 }

// boxes parses an SVG and returns its boxes and how many edges it has.
func boxes(t require.TestingT, svg string) (all []box, edges int) {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all, edges
		}
		require.NoError(t, err, "not well-formed")
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		value := map[string]string{}
		for _, a := range start.Attr {
			value[a.Name.Local] = a.Value
		}
		number := func(name string) float64 {
			f, err := strconv.ParseFloat(value[name], 64)
			require.NoError(t, err, name)
			return f
		}
		switch value["class"] {
		case "box":
			all = append(all, box{number("x"), number("y"), number("width"), number("height")})
		case "edge":
			edges++
		}
	}
}

// Whatever the graph: the picture is well-formed, shows every node and edge,
// and no two boxes touch.
func TestSVGProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 25).Draw(t, "nodes")
		var g picture.Graph
		edges := 0
		for i := range n {
			g.Nodes = append(g.Nodes, picture.Node{
				ID: fmt.Sprint(i), Label: rapid.String().Draw(t, "label"), Detail: rapid.StringN(0, 30, -1).Draw(t, "detail"),
			})
			if i > 0 {
				for _, d := range rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 4), rapid.ID).Draw(t, "dependencies") {
					g.Edges = append(g.Edges, picture.Edge{From: fmt.Sprint(i), To: fmt.Sprint(d)})
					edges++
				}
			}
		}
		var b bytes.Buffer
		require.NoError(t, picture.SVG(&b, g))
		found, drawn := boxes(t, b.String())
		require.True(t, len(found) == n && drawn == edges, "%d of %d nodes, %d of %d edges", len(found), n, drawn, edges)
		for i, a := range found {
			for _, b := range found[:i] {
				require.True(t, a.x >= b.x+b.w || b.x >= a.x+a.w || a.y >= b.y+b.h || b.y >= a.y+a.h, "boxes overlap: %+v, %+v", a, b)
			}
			require.True(t, a.x >= 0 && a.y >= 0, "outside: %+v", a)
		}
	})
}

func TestACycleIsDrawnRatherThanFollowed(t *testing.T) {
	g := picture.Graph{
		Nodes: []picture.Node{{ID: "a", Label: "a"}, {ID: "b", Label: "b"}},
		Edges: []picture.Edge{{"a", "b"}, {"b", "a"}},
	}
	for _, how := range []func(io.Writer, picture.Graph) error{picture.Text, picture.Dot, picture.Mermaid, picture.SVG} {
		draw(t, how, g)
	}
}

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
				assert.Contains(t, c.got, want)
			}
			assert.False(t, strings.Contains(c.got, c.not), "it has %s:\n%s", c.not, c.got)
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
	require.True(t, len(boxes) == 101 && len(rows) >= 6, "%d boxes in %d rows", len(boxes), len(rows))
	for i, a := range boxes {
		for _, b := range boxes[i+1:] {
			require.True(t, a.x >= b.x+b.w || b.x >= a.x+a.w || a.y >= b.y+b.h || b.y >= a.y+a.h, "%+v and %+v overlap", a, b)
		}
	}
	width, _ := strconv.ParseFloat(regexp.MustCompile(`width="(\d+)"`).FindStringSubmatch(svg)[1], 64)
	assert.True(t, width <= 4000, "it is %.0f wide", width)
}
